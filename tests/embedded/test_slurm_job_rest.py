"""The embedded slurmrestd: submissions, updates and cancels of jobs."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from sunk_sync.embedded.slurm.api.reply import SlurmAnswer
from tests.embedded.slurm_kit import BOTH, Asker, Generation

Json = Any
REFUSED = {"26.05": 422, "24.11": 500}


def kill(asker: Asker, **body: Json) -> Json:
    return json.loads(asker.ask("DELETE", "jobs/", body).body)


def job(asker: Asker, name: str = "1") -> Json:
    return asker.get(f"job/{name}")["jobs"][0]


def states(asker: Asker) -> Mapping[str, str]:
    return {row["job_id"]: row["state"][0] for row in asker.get("jobs/state/")["jobs"]}


def outcome(answer: SlurmAnswer) -> tuple[int, list[int]]:
    errors = json.loads(answer.body)["errors"]
    return answer.status, [error["error_number"] for error in errors]


def test_a_job_shows_all_fields_of_its_submission() -> None:
    asker = Asker()
    asked: Json = {
        "name": "x", "comment": "c", "admin_comment": '{"a":1}', "extra": "e", "account": "a",
        "qos": "q", "required_nodes": "n[1-2]", "excluded_nodes": "n3", "requeue": False,
        "tres_per_node": "gres/gpu:2", "prefer": "a100", "user_id": 1001, "group_id": 1002,
        "current_working_directory": "/home",
    }  # fmt: skip
    spelled: Json = {
        **asked, "required_nodes": ["n[1-2]"], "excluded_nodes": ["n3"], "user_id": "1001",
        "group_id": "1002", "nodes": "2", "cpus_per_task": 3, "tasks": 4, "tasks_per_node": 2,
        "time_limit": {"set": True, "number": 5}, "priority": 7, "constraints": "a100",
    }  # fmt: skip
    assert outcome(asker.submit(**spelled)) == (200, [])
    shown = job(asker)
    assert {name: shown[name] for name in asked} == asked
    numbers = ("node_count", "cpus", "time_limit", "priority", "memory_per_node")
    assert [shown[name]["number"] for name in numbers] == [2, 12, 5, 7, 10]
    asker.wait(2)
    shown = job(asker)
    assert (shown["job_state"], shown["nodes"]) == (["RUNNING"], "n[1-2]")
    assert shown["gres_detail"] == ["gpu:2", "gpu:2"]
    assert asker.node()["gres_used"] == "gpu:2"


@BOTH
@pytest.mark.parametrize(
    ("body", "modern", "older"),
    [
        ({"script": None}, [9000], [9000]),
        ({"environment": None}, [2127], [2019]),
        ({"current_working_directory": None}, [2063], [2063]),
        ({"array": "x"}, [2081], [2081]),
        ({"user_id": "stranger"}, [2166], [2166]),
        ({"nodes": "4", "tasks": 1}, [2025], [2014]),
        ({"reservation": "r"}, [2053], [2053]),
        ({"flags": ["EXTERNAL_JOB"]}, [2189], [9207]),
        ({"flags": ["EXTERNAL_JOB"], "script": None}, [], [9207, 9000]),
        ({"shared": ["bad"]}, [9207], [9207]),
    ],
)
def test_a_malformed_submission_gets_the_errors_of_its_release(
    generation: Generation, body: Json, modern: list[int], older: list[int]
) -> None:
    _, errors = outcome(Asker(generation).submit(**body))
    assert errors == (modern if generation == "26.05" else older)


def test_an_unknown_flag_is_an_error_although_the_job_is_submitted() -> None:
    """A client that reads only the status submits it again."""
    asker = Asker("24.11")
    answer = asker.submit(flags=["EXTERNAL_JOB"])
    assert (answer.status, json.loads(answer.body)["job_id"]) == (500, 1)
    assert states(asker) == {"1": "PENDING"}


def test_a_held_job_waits_and_its_submission_warns() -> None:
    asker = Asker()
    assert len(json.loads(asker.submit(hold=True).body)["warnings"]) == 2
    asker.wait(3)
    shown = job(asker)
    assert (shown["hold"], shown["state_reason"]) == (True, "JobHeldUser")
    assert asker.ask("POST", "job/1", {"hold": False}).status == 200
    asker.wait(3)
    assert job(asker)["job_state"] == ["RUNNING"]


@BOTH
def test_an_allocated_job_runs_in_the_response(generation: Generation) -> None:
    """A refused job leaves a FAILED record. Only `immediate` allocations are implemented."""
    asker = Asker(generation)
    assert outcome(asker.allocate(shared=["none"], required_nodes=["n1"])) == (200, [])
    assert outcome(asker.allocate(required_nodes=["n1"])) == (REFUSED[generation], [2016])
    assert states(asker) == {"1": "RUNNING", "2": "FAILED"}
    assert job(asker)["batch_flag"] is False
    assert asker.allocate(immediate=False).status == 501


def test_a_cancel_needs_id_and_name() -> None:
    asker = Asker()
    asker.allocate()
    (failure,) = kill(asker, jobs=["1"], job_name="x")["status"]
    assert failure["error"]["message"] == "Job name j != filter name x: Cannot signal job"
    assert states(asker) == {"1": "RUNNING"}
    assert kill(asker, jobs=["1"], job_name="j")["status"] == []
    assert states(asker) == {"1": "CANCELLED"}


@pytest.mark.parametrize(
    ("body", "left"),
    [
        ({"job_name": "a"}, "2"),
        ({"partition": "main"}, ""),
        ({"nodes": ["n2"]}, "1"),
        ({"job_state": ["PENDING"]}, "12"),
        ({"job_name": "a", "user_id": "5"}, "2"),
        ({"jobs": ["1", "2"]}, ""),
        ({"jobs": ["9"]}, "12"),
        ({}, "12"),
        ({"nosuch": 1}, "12"),
        ({"jobs": ["x"]}, "12"),
    ],
)
def test_a_filter_cancels_the_jobs_that_match(body: Json, left: str) -> None:
    """An unknown field and a user do not filter."""
    asker = Asker()
    asker.allocate(name="a", required_nodes=["n1"])
    asker.allocate(name="b", required_nodes=["n2"])
    kill(asker, **body)
    assert [name for name, state in states(asker).items() if state == "RUNNING"] == list(left)


@pytest.mark.parametrize(
    ("body", "number"),
    [({}, 2173), ({"jobs": [""]}, 2136), ({"jobs": ["x"]}, 2137), ({"jobs": ["-1"]}, 2138),
     ({"jobs": ["4294967295"]}, 2139), ({"jobs": "1"}, 9202), ([], 9209)],
)  # fmt: skip
def test_a_malformed_filter_is_refused(body: Json, number: int) -> None:
    assert outcome(Asker().ask("DELETE", "jobs/", body))[1] == [number]


def test_an_array_from_its_submission_to_its_last_task() -> None:
    """A cancel refuses the names that /jobs/state/ shows."""
    asker = Asker(nodes=1)
    asker.submit(array="0-3", cpus_per_task=8)
    assert states(asker) == {f"1_{task}": "PENDING" for task in range(4)}
    asker.wait(2)
    assert states(asker) == {"1_2": "PENDING", "1_3": "PENDING", "2_0": "RUNNING", "3_1": "RUNNING"}
    rows = asker.get("job/1")["jobs"]
    tasks = [(row["job_id"], row["array_task_string"]) for row in rows]
    assert tasks == [(1, "2-3"), (3, ""), (2, "")]
    assert [row["array_task_id"]["number"] for row in asker.get("job/2")["jobs"]] == [0]
    assert kill(asker, jobs=["2_0"])["status"][0]["error"]["code"] == 2017
    assert kill(asker, jobs=["1_0", "1_3"])["status"] == []
    asker.wait(2)
    assert states(asker) == {"1_2": "RUNNING", "2_0": "CANCELLED", "3_1": "RUNNING"}
    (failure,) = kill(asker, jobs=["1"])["status"]
    assert (failure["step_id"], failure["job_id"]["number"]) == ("1_0", 2)
    assert set(states(asker).values()) == {"CANCELLED"}


def test_the_oldest_version_names_a_task_by_its_array() -> None:
    asker = Asker("24.11")
    asker.submit(array="0-1")
    asker.wait(2)
    assert set(states(asker)) == {"2_0", "1_1"}
    asker.version = "v0.0.40"
    assert set(states(asker)) == {"1_0", "1_1"}


def test_diag_reports_the_start_of_slurmctld() -> None:
    """Job ids can be reused from then on."""
    asker = Asker()
    before = asker.get("diag/")["statistics"]["req_time_start"]["number"]
    asker.wait(50)
    assert asker.get("diag/")["statistics"]["req_time_start"]["number"] == before
    asker.slurm.restart(now_s=asker.now_s)
    assert asker.get("diag/")["statistics"]["req_time_start"]["number"] == before + 51


def test_the_states_of_one_array_can_be_read() -> None:
    asker = Asker()
    asker.submit(array="0-1", hold=True)
    asker.submit()
    rows = asker.get("jobs/state/?job_id=1")["jobs"]
    assert [row["job_id"] for row in rows] == ["1_0", "1_1"]


def test_the_state_of_one_task_can_be_read_by_the_id_of_its_array() -> None:
    """A waiting task returns all waiting ones, an unknown task nothing."""
    asker = Asker()
    asker.submit(array="0-2")
    asker.wait(2)
    for task, found in ((0, ["2_0"]), (1, ["3_1"]), (7, [])):
        rows = asker.get(f"jobs/state/?job_id=1_{task}")["jobs"]
        assert [row["job_id"] for row in rows] == found
    asker.submit(array="0-2", hold=True)
    rows = asker.get("jobs/state/?job_id=4_1")["jobs"]
    assert [row["job_id"] for row in rows] == ["4_0", "4_1", "4_2"]


@BOTH
@pytest.mark.parametrize(
    ("path", "body", "status", "number"),
    [
        ("job/1", {"extra": "e"}, 200, None),
        ("job/1", {"excluded_nodes": ["n9"]}, 0, 2018),
        ("job/1", {"user_id": "5"}, 0, 2010),
        ("job/1", {"nosuch": 1}, 200, None),
        ("job/9", {"extra": "e"}, 404, 2017),
        ("job/x", {"extra": "e"}, 422, 9000),
        ("job/1_0", {"extra": "e"}, 422, 9000),
    ],
)
def test_an_update_of_a_job_succeeds_or_names_its_error(
    generation: Generation, path: str, body: Json, status: int, number: int | None
) -> None:
    """Status 0 stands for the status of a refusal by slurmctld."""
    asker = Asker(generation)
    asker.submit(hold=True)
    found = outcome(asker.ask("POST", path, body))
    assert found == (status or REFUSED[generation], [] if number is None else [number])


def test_only_an_empty_text_clears_a_list_of_names() -> None:
    asker = Asker()
    asker.submit(hold=True, excluded_nodes=["n1"])
    asker.ask("POST", "job/1", {"excluded_nodes": []})
    assert job(asker)["excluded_nodes"] == "n1"
    asker.ask("POST", "job/1", {"excluded_nodes": [""]})
    assert job(asker)["excluded_nodes"] == ""


def test_a_simulated_script_is_recognised_by_its_text() -> None:
    asker = Asker(acted_script="placeholder")
    asker.submit(script="#!/bin/sh\nplaceholder\n")
    asker.submit()
    asker.wait(2)
    asker.get("ping/")
    assert [(call.kind, call.job.job_id) for call in asker.slurm.take_calls()] == [("started", 1)]
    asker.slurm.exit_script(1, now_s=asker.now_s, code=2)
    assert job(asker)["exit_code"]["return_code"]["number"] == 2


def requeue(asker: Asker, *names: str) -> tuple[int, list[int]]:
    return outcome(asker.ask("POST", "jobs/requeue", {"jobs": names, "flags": ["Incomplete"]}))


def test_a_requeue_ends_running_jobs_and_names_those_that_may_not_be_requeued() -> None:
    """As measured on 26.05: the others of the same request go."""
    asker = Asker()
    cases: tuple[dict[str, Any], ...] = ({}, {"requeue": False}, {}, {"priority": 0})
    for fields in cases:
        asker.submit(**{"required_nodes": "", **fields})
    asker.wait(3)
    asker.ask("DELETE", "job/3")
    asker.wait(1)
    assert requeue(asker, "1", "2", "3", "4", "99") == (422, [2037, 2024, 2017])
    shown = {name: (one["job_state"][0], one["restart_cnt"]) for name in "123"
             for one in [job(asker, name)]}  # fmt: skip
    assert shown == {"1": ("PENDING", 1), "2": ("RUNNING", 0), "3": ("CANCELLED", 0)}
    assert requeue(asker, "99") == (404, [2017])
    assert requeue(asker) == (404, [2017])


def test_an_older_slurmrestd_has_no_requeue() -> None:
    assert Asker("24.11").ask("POST", "jobs/requeue", {"jobs": ["1"]}).status == 404
