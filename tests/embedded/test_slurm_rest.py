"""The embedded slurmrestd, compared with recorded responses and used by our own client."""

import json
from collections.abc import Mapping, Set
from pathlib import Path
from typing import Any

import pytest

from sunk_sync.embedded.slurm.api.reply import SlurmAnswer
from sunk_sync.embedded.slurm.model.job import JobRequest
from sunk_sync.embedded.slurm.model.node import NodeSpec
from sunk_sync.embedded.slurm.model.tokens import Tokens
from sunk_sync.slurm.api.answers import Envelope, SlurmError, read_envelope
from sunk_sync.slurm.api.json_stream import Cutter
from sunk_sync.slurm.api.versions import DIALECTS
from sunk_sync.slurm.decode.nodes import read_nodes
from tests.embedded.slurm_kit import BOTH, PLACE, Asker, Generation

Json = Any
RECORDED = Path(__file__).parent.parent / "slurm" / "recorded"


def recorded(generation: Generation, name: str) -> Json:
    return json.loads((RECORDED / generation / f"{name}.json").read_text())


def kinds(value: Json) -> Json:
    """Return names and types, recursively."""
    if isinstance(value, dict):
        return {name: kinds(each) for name, each in value.items()}
    if isinstance(value, list):
        return [kinds(each) for each in value[:1]]
    return type(value).__name__


@BOTH
@pytest.mark.parametrize("name", ["nodes-3-idle", "partitions"])
def test_listings_have_the_shape_of_recorded_ones(generation: Generation, name: str) -> None:
    asker = Asker(generation)
    path = "nodes/" if name.startswith("nodes") else "partitions/"
    assert kinds(asker.get(path)) == kinds(recorded(generation, name))


@BOTH
def test_fixed_fields_equal_the_recorded_ones(generation: Generation) -> None:
    varying = {
        "boot_time", "cpu_load", "free_mem", "last_busy", "operating_system", "port",
        "slurmd_start_time",
    }  # fmt: skip
    theirs = recorded(generation, "nodes-3-idle")["nodes"][0]
    ours = Asker(generation).node()
    assert _without(ours, varying) == _without(theirs, varying)


def _without(row: Json, names: Set[str]) -> Json:
    return {name: value for name, value in row.items() if name not in names}


def test_a_used_node_counts_resources_like_a_recorded_one() -> None:
    asker = Asker()
    asker.slurm.submit(JobRequest(exclusive=True, required_nodes=("n2",)), now_s=1)
    asker.wait(2)
    node = asker.get("nodes/")["nodes"][1]
    assert node["state"] == recorded("26.05", "nodes-drain-mixed")["nodes"][0]["state"]
    assert (node["alloc_cpus"], node["alloc_idle_cpus"]) == (16, 0)
    assert node["tres_used"] == "cpu=16,mem=62.50G"


@BOTH
@pytest.mark.parametrize(
    ("name", "method", "path", "token", "up"),
    [
        ("ping", "GET", "ping/", "root", True),
        ("error-get-node-unknown", "GET", "node/nosuch", "root", True),
        ("error-node-unknown", "POST", "node/nosuch", "root", True),
        ("error-job-unknown", "GET", "job/99999", "root", True),
        ("error-ctld-down-ping", "GET", "ping/", "root", False),
        ("error-ctld-down-nodes", "GET", "nodes/", "root", False),
        ("error-ctld-down-node-n1", "POST", "node/n1", "root", False),
        ("error-ctld-down-jobs-state", "GET", "jobs/state/", "root", False),
        ("error-expired-token-ping", "GET", "ping/", "old", True),
        ("error-expired-token-jobs-state", "GET", "jobs/state/", "old", True),
    ],
)
def test_responses_equal_the_recorded_ones(
    generation: Generation, name: str, method: str, path: str, token: str, up: bool
) -> None:
    """They differ only in addresses, latencies and host names."""
    asker = Asker(generation)
    if not up:
        asker.slurm.stop_controller(now_s=1)
    body = {"state": ["DRAIN"]} if method == "POST" else None
    answer = asker.ask(method, path, body, token=token)
    assert unplaced(json.loads(answer.body)) == unplaced(recorded(generation, name))
    assert (answer.after_s > 5) == (not up and path != "ping/")


def unplaced(answer: Json) -> Json:
    answer["meta"]["client"]["source"] = ""
    for ping in answer.get("pings", ()):
        ping["hostname"], ping["latency"] = "", 0
    return answer


@BOTH
def test_each_api_version_is_served_or_404(generation: Generation) -> None:
    """26.05 serves 42 to 45, 24.11 serves 40 to 42."""
    asker = Asker(generation)
    answers = {each: asker.ask("GET", f"/slurm/{each}/ping/").status for each in DIALECTS}
    served = [version for version, status in answers.items() if status == 200]
    assert tuple(served) == tuple(asker.slurm.setup.release.versions)
    for version in served:
        asker.version = version
        answer = asker.ask("GET", "nodes/")
        nodes = read_nodes(answer.body)
        assert not isinstance(nodes, SlurmError)
        assert [node.name for node in nodes] == ["n1", "n2", "n3"]
        cutter = Cutter("nodes")
        assert len(cutter.feed(answer.body) + cutter.finish()[0]) == 3
        assert isinstance(read_envelope(answer.body), Envelope)
        assert bool(asker.get("ping/")["pings"])


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"x-slurm-user-name": "root"}, 401),
        ({"authorization": "Basic root"}, 401),
        ({"authorization": "Bearer root"}, 200),
        ({"x-slurm-user-token": "root"}, 200),
        ({"x-slurm-user-token": "root", "x-slurm-user-name": "nobody"}, 200),
        ({"x-slurm-user-token": "nobody", "x-slurm-user-name": "root"}, 511),
        ({"x-slurm-user-token": "old"}, 511),
        ({"x-slurm-user-token": "garbage"}, 511),
    ],
)
@pytest.mark.parametrize("path", ["node/n1", "nodes/", "partitions/", "jobs/", "diag/", "conf"])
def test_only_valid_tokens_are_accepted(headers: Mapping[str, str], status: int, path: str) -> None:
    assert Asker().ask("GET", path, headers=headers).status == status


def test_a_token_can_be_added_and_revoked() -> None:
    asker = Asker()
    asker.rest.tokens.add("new", expires_s=asker.slurm.epoch_s + 100)
    assert asker.ask("GET", "node/n1", token="new").status == 200
    asker.wait(200)
    assert asker.ask("GET", "node/n1", token="new").status == 511
    asker.rest.tokens.revoke("root")
    assert asker.ask("GET", "node/n1").status == 511


def test_without_a_table_every_token_belongs_to_root() -> None:
    asker = Asker()
    asker.rest.tokens = Tokens()
    assert asker.ask("POST", "node/n1", {"comment": "x"}, token="any").status == 200
    assert asker.node()["comment"] == "x"


@pytest.mark.parametrize(("generation", "status"), [("26.05", 422), ("24.11", 500)])
def test_only_operators_may_change_nodes(generation: Generation, status: int) -> None:
    asker = Asker(generation)
    answer = asker.ask("POST", "node/n1", {"comment": "x"}, token="nobody")
    assert (answer.status, error_number(answer)) == (status, 2010)
    assert asker.node()["comment"] == ""


def error_number(answer: SlurmAnswer) -> int | None:
    failure = read_envelope(answer.body)
    return failure.error_number if isinstance(failure, SlurmError) else None


@pytest.mark.parametrize(
    ("body", "status", "numbers", "warned"),
    [
        ({"state": ["DRAIN"], "reason": "x"}, 200, [], 0),
        ({"state": "drain"}, 200, [], 0),
        ({"state": []}, 200, [], 0),
        ({}, 200, [], 0),
        (b"", 200, [], 0),
        ({"state": ["NOPE"]}, 500, [9207, 2180], 0),
        ({"state": "NOPE"}, 500, [9207, 2180], 0),
        ({"state": ["DRAIN", "DOWN"]}, 422, [2180], 0),
        ({"state": None}, 500, [9206], 0),
        ({"state": {"a": 1}, "reason": "x"}, 500, [9206], 0),
        ({"state": ["POWER_DOWN"]}, 500, [2187], 0),
        ({"state": ["RESUME"]}, 422, [2180], 0),
        ({"weight": "x"}, 500, [9202], 0),
        ({"weight": [1]}, 500, [9202], 0),
        ({"weight": {"set": True, "number": 3}}, 200, [], 0),
        ({"weight": {"number": 3}}, 200, [], 0),
        ({"features": ["b"]}, 422, [2031], 0),
        ({"features_act": ["b"]}, 422, [2031], 0),
        ({"features_act": []}, 200, [], 0),
        ({"features": "a100,b"}, 200, [], 1),
        ({"reason": 5}, 200, [], 1),
        ({"comment": 1.5}, 200, [], 1),
        ({"comment": ["x"]}, 200, [], 1),
        ({"comment": None}, 200, [], 0),
        ({"nofield": {}}, 200, [], 1),
        ({"address": ["x"]}, 200, [], 0),
        ({"name": ["n2"]}, 200, [], 1),
        ({"name": "n2"}, 200, [], 2),
        ({"name": ["n["]}, 500, [9216], 0),
        ([], 500, [9209], 0),
        (b'"x"', 500, [9209], 0),
        (b"{no", 400, None, 0),
        (b"\xff", 400, None, 0),
    ],
)
def test_a_node_update_gets_the_recorded_errors_and_warnings(
    body: Json, status: int, numbers: list[int] | None, warned: int
) -> None:
    """Recorded from 26.05."""
    answer = Asker().ask("POST", "node/n1", body)
    assert answer.status == status
    if numbers is not None:
        shown = json.loads(answer.body)
        assert [error["error_number"] for error in shown["errors"]] == numbers
        assert len(shown["warnings"]) == warned


@pytest.mark.parametrize(
    ("generation", "kind", "status"),
    [
        ("26.05", "", 500),
        ("26.05", "text/plain", 415),
        ("24.11", "", 400),
        ("24.11", "text/plain", 400),
        ("26.05", "application/json; charset=utf-8", 200),
    ],
)
def test_a_body_needs_the_content_type_json(generation: Generation, kind: str, status: int) -> None:
    headers = {"x-slurm-user-token": "root", "content-type": kind}
    asker = Asker(generation)
    assert asker.ask("POST", "nodes/", {"name": ["n1"]}, headers=headers).status == status


@BOTH
def test_a_list_with_an_unknown_name_changes_those_before_it(generation: Generation) -> None:
    asker = Asker(generation)
    answer = asker.ask("POST", "nodes/", {"name": ["n[1-2]", "nosuch"], "comment": "x"})
    assert error_number(answer) == 2018
    assert "n[1-2],nosuch" in answer.body.decode()
    assert [asker.node(name)["comment"] for name in ("n1", "n2", "n3")] == ["x", "x", ""]


@pytest.mark.parametrize(
    ("names", "spoken"), [(None, "(null)"), ([], ""), (["n9", "n1"], "n[9,1]")]
)
def test_the_error_of_an_update_names_its_list(names: list[str] | None, spoken: str) -> None:
    body = {"comment": "x"} if names is None else {"comment": "x", "name": names}
    answer = json.loads(Asker().ask("POST", "nodes/", body).body)
    assert answer["errors"][0]["description"] == f"Failure to update node {spoken}"


@BOTH
def test_nodes_are_deleted_only_if_dynamic(generation: Generation) -> None:
    asker = Asker(generation)
    asker.slurm.add_node(NodeSpec(name="dyn1"), now_s=1)
    assert asker.ask("DELETE", "node/dyn1").status == 200
    assert error_number(asker.ask("DELETE", "node/dyn1")) == 2018
    assert error_number(asker.ask("DELETE", "node/n1")) == 2028


def test_an_unchanged_listing_is_304_and_no_change_is_missed() -> None:
    """update_time has a resolution of one second: a change in that second is reported."""
    asker = Asker()
    asker.wait(10)
    since_s = asker.get("nodes/")["last_update"]["number"]
    assert asker.ask("GET", f"nodes/?update_time={since_s}").status == 304
    asker.ask("POST", "node/n1", {"comment": "x"})
    assert asker.ask("GET", f"nodes/?update_time={since_s}").status == 200
    asker.wait(1)
    assert asker.ask("GET", f"nodes/?update_time={since_s + 1}").status == 304


def test_24_11_fails_on_update_time_after_a_change() -> None:
    """It fails when a node has changed and no partition."""
    asker = Asker("24.11")
    asker.wait(10)
    since_s = asker.slurm.epoch_s + 9
    assert asker.ask("GET", f"nodes/?update_time={since_s}").status == 304
    asker.wait(10)
    asker.ask("POST", "node/n1", {"comment": "x"})
    for path in ("nodes/", "node/n1"):
        answer = asker.ask("GET", f"{path}?update_time={since_s}")
        assert (answer.status, error_number(answer)) == (500, -1)
    assert asker.ask("GET", "nodes/?update_time=0").status == 200


@pytest.mark.parametrize("path", ["nodes/", "partitions/"])
@pytest.mark.parametrize("text", ["abc", ""])
def test_a_malformed_update_time_is_refused(path: str, text: str) -> None:
    answer = Asker().ask("GET", f"{path}?update_time={text}")
    assert (answer.status, error_number(answer)) == (500, 9202)


def test_old_versions_refuse_update_time_in_seconds() -> None:
    asker = Asker("24.11")
    assert asker.ask("GET", "/slurm/v0.0.41/nodes/?update_time=5").status == 500


def test_unchanged_partitions_are_304_until_slurmctld_restarts() -> None:
    asker = Asker()
    since_s = asker.slurm.epoch_s + 5
    assert asker.ask("GET", f"partitions/?update_time={since_s}").status == 304
    asker.wait(10)
    asker.slurm.restart(now_s=asker.now_s)
    assert asker.ask("GET", f"partitions/?update_time={since_s}").status == 200


def test_an_unknown_query_parameter_gives_a_warning() -> None:
    listed = Asker().get("nodes/?foo=1")
    assert "foo" in listed["warnings"][0]["description"]
    assert len(listed["nodes"]) == 3


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "nosuch", 404),
        ("GET", "/slurm/v0.0.99/nodes/", 404),
        ("GET", "/elsewhere", 404),
        ("GET", "/slurm/", 404),
        ("GET", "node/", 404),
        ("PUT", "node/n1", 404),
        ("DELETE", "nodes/", 404),
        ("GET", "nodes", 200),
        ("GET", "node/n1/", 200),
        ("GET", "partition/main", 200),
        ("GET", "conf", 200),
        ("GET", "/slurm/v0.0.44/conf", 404),
        ("GET", "/openapi/v3", 200),
        ("GET", "reconfigure/", 200),
    ],
)
def test_each_path_has_its_status(method: str, path: str, status: int) -> None:
    assert Asker().ask(method, path).status == status


@pytest.mark.parametrize(
    ("generation", "path", "status"),
    [
        ("26.05", "node/n1,n2", 404),
        ("24.11", "node/n1,n2", 400),
        ("26.05", "partition/nosuch", 200),
        ("24.11", "partition/nosuch", 422),
        ("24.11", "nosuch", 404),
        ("24.11", "conf", 404),
        ("24.11", "/openapi/v3", 200),
        ("26.05", "job/99999999", 404),
    ],
)
def test_the_status_of_some_paths_depends_on_the_release(
    generation: Generation, path: str, status: int
) -> None:
    assert Asker(generation).ask("GET", path).status == status


def test_a_future_node_is_not_listed_but_can_be_changed() -> None:
    asker = Asker()
    asker.ask("POST", "node/n1", {"state": ["FUTURE"]})
    assert [node["name"] for node in asker.get("nodes/")["nodes"]] == ["n2", "n3"]
    assert error_number(asker.ask("GET", "node/n1")) == 0
    assert asker.ask("POST", "node/n1", {"state": ["RESUME"]}).status == 200
    assert "IDLE" in asker.node()["state"]


def test_a_job_from_its_submission_to_its_end() -> None:
    """The embedded Slurm reads the duration from `sleep N`."""
    asker = Asker()
    answer = asker.submit(
        script="#!/bin/sh\nsleep 5",
        cpus_per_task=4,
        tasks=1,
        constraints="a100",
        nodes="1-2",
        memory_per_node={"set": True, "number": 1000},
        time_limit={"number": 5},
    )
    job_id = json.loads(answer.body)["job_id"]
    assert asker.get("jobs/state/")["jobs"] == [{"job_id": str(job_id), "state": ["PENDING"]}]
    asker.wait(2)
    (row,) = asker.get(f"job/{job_id}")["jobs"]
    assert (row["job_state"], row["nodes"], row["name"]) == (["RUNNING"], "n1", "j")
    assert row["end_time"]["number"] - row["start_time"]["number"] == 365 * 86_400
    asker.wait(10)
    assert asker.get("jobs/")["jobs"][0]["job_state"] == ["COMPLETED"]


@pytest.mark.parametrize(
    ("body", "status", "number"),
    [
        ({"script": "x", "job": {"partition": "nosuch", **PLACE}}, 422, 2000),
        ({"script": "x", "job": {"required_nodes": ["n9"], **PLACE}}, 422, 2018),
        ({"script": "x", "job": {"memory_per_node": "x"}}, 500, 9202),
        ({"job": {}}, 422, 9000),
        (b"[]", 500, 9209),
        (b"{", 400, None),
    ],
)
def test_a_submission_that_cannot_run_is_refused(
    body: Json, status: int, number: int | None
) -> None:
    answer = Asker().ask("POST", "job/submit", body)
    assert answer.status == status
    if number is not None:
        assert error_number(answer) == number


def test_a_job_for_a_drained_node_is_accepted_with_a_warning() -> None:
    asker = Asker()
    asker.ask("POST", "node/n1", {"state": ["DRAIN"], "reason": "x"})
    answer = asker.submit(required_nodes=["n1"])
    assert (answer.status, len(json.loads(answer.body)["warnings"])) == (200, 2)


def test_a_job_that_ignores_sigterm_keeps_its_node_until_kill_wait() -> None:
    """KillWait is 30 s."""
    asker = Asker()
    script = "trap '' TERM\nwhile true; do sleep 1; done"
    asker.submit(script=script, required_nodes=["n1"])
    asker.wait(2)
    assert json.loads(asker.ask("DELETE", "job/1").body)["status"] == []
    asker.wait(29)
    assert "COMPLETING" in asker.node()["state"]
    asker.wait(2)
    assert "COMPLETING" not in asker.node()["state"]


@pytest.mark.parametrize(("name", "code"), [("1", 2021), ("7", 2017), ("1_0", 2017)])
def test_a_cancel_that_changes_nothing_is_200_with_a_code(name: str, code: int) -> None:
    asker = Asker()
    asker.slurm.submit(JobRequest(), now_s=1)
    asker.slurm.cancel(1, now_s=1)
    answer = asker.ask("DELETE", f"job/{name}")
    assert answer.status == 200
    assert json.loads(answer.body)["status"][0]["error"]["code"] == code


@BOTH
@pytest.mark.parametrize(
    ("method", "path", "status", "number"),
    [
        ("GET", "node/n1", 502, 1800),
        ("POST", "nodes/", 502, 1800),
        ("DELETE", "node/n1", 502, 1800),
        ("GET", "partition/main", 502, 1800),
        ("GET", "diag/", 502, 1800),
        ("GET", "jobs/", 502, 1800),
        ("GET", "job/1", 500, -1),
        ("DELETE", "job/1", 500, 1),
        ("POST", "job/submit", 502, 1800),
        ("GET", "reconfigure/", 502, 1800),
    ],
)
def test_requests_fail_late_while_slurmctld_is_down(
    generation: Generation, method: str, path: str, status: int, number: int
) -> None:
    """A ping is answered at once."""
    asker = Asker(generation)
    asker.slurm.stop_controller(now_s=1)
    body = {"name": ["n1"], "script": "x", "job": PLACE} if method == "POST" else None
    answer = asker.ask(method, path, body)
    assert (answer.status, error_number(answer)) == (status, number)
    assert answer.after_s == asker.slurm.setup.release.gives_up_after_s
    assert asker.ask("GET", "ping/").after_s == 0
    assert asker.ask("DELETE", "job/99999999").status == 404


def test_a_write_while_slurmctld_is_down_has_no_effect_later() -> None:
    asker = Asker()
    asker.slurm.stop_controller(now_s=1)
    asker.ask("POST", "node/n1", {"comment": "x"})
    asker.slurm.start_controller(now_s=2)
    assert asker.node()["comment"] == ""


def test_a_get_of_reconfigure_reconfigures() -> None:
    asker = Asker()
    asker.ask("POST", "node/n1", {"weight": 7})
    asker.get("reconfigure/")
    node = asker.node()
    assert (node["weight"], node["state"]) == (1, ["UNKNOWN"])


def test_slurmctld_reports_its_load_and_configuration() -> None:
    asker = Asker()
    asker.slurm.submit(JobRequest(), now_s=1)
    theirs = recorded("26.05", "diag")["statistics"]
    ours = asker.get("diag/")["statistics"]
    assert ours.keys() <= theirs.keys()
    assert ours["jobs_pending"] == 1
    conf = asker.get("conf")
    real = recorded("26.05", "conf")
    for part in ("slurm_conf", "slurm_conf_meta"):
        assert conf[part].keys() <= real[part].keys()
    assert conf["slurm_conf"]["ReturnToService"] == real["slurm_conf"]["ReturnToService"]
