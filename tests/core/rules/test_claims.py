"""A job whose own texts do not prove whose it is: row P23."""

from typing import Any

import pytest
from msgspec.structs import replace

from sunk_sync.core.alarms import overwritten_jobs
from sunk_sync.core.explain.differences import differences_of
from sunk_sync.core.model.actions import RecordEvent, SetScheduled
from sunk_sync.core.model.claims import Claim, Claims
from sunk_sync.core.model.facts import Pod
from sunk_sync.core.model.job_identity import job_name, workload_id
from sunk_sync.core.model.keys import CLUSTER
from sunk_sync.core.workloads.vouching import vouched
from tests.kit.build import POD, WORKLOAD, gang_pod, identity, pod, running, two_hosts

NAME = job_name("ns", "p1", workload=WORKLOAD)
BOUND = pod(node_name="kn1", job_id="7")
TENANT = (("user-id", "1001"),)


def claim(**fields: Any) -> Claim:
    standard: dict[str, Any] = {
        "job_id": "7",
        "name": NAME,
        "identity": None,
        "user_id": 0,
        "trusted": True,
        "live": True,
    }
    return Claim(**{**standard, **fields})


OF_TENANT = {"user_id": 1001, "trusted": False}
BY_COMMAND = {"identity": identity(POD), "name": "other", **OF_TENANT}


@pytest.mark.parametrize(
    ("of", "fields", "says"),
    [
        (POD, {}, "ours"),
        (BOUND, {}, "ours"),
        (pod(node_name="kn1", job_id="8"), {}, "unknown"),
        (pod(uid="another"), {}, "unknown"),
        (POD, {"name": "k8s/ns/p1/00000000"}, "unknown"),
        (POD, {"name": "k8s/ns/p2/00000000"}, "unknown"),
        (POD, {"job_id": "7_*"}, "unknown"),
        (POD, OF_TENANT, "unknown"),
        (pod(settings=TENANT), OF_TENANT, "ours"),
        (POD, BY_COMMAND, "foreign"),
        (pod(settings=TENANT), BY_COMMAND, "ours"),
        (BOUND, BY_COMMAND, "ours"),
        (pod(node_name="kn1", job_id="7_3"), {**BY_COMMAND, "job_id": "7_3"}, "ours"),
        (pod(node_name="kn1", job_id="8"), BY_COMMAND, "foreign"),
        (pod(uid="another"), BY_COMMAND, "ours"),  # its own Pod is gone, and the job ends
    ],
)
def test_the_pods_say_whose_a_job_is_P23(of: Pod, fields: dict[str, Any], says: str) -> None:
    answer = vouched(two_hosts(of).graph.workloads, claim(**fields))
    assert (answer if isinstance(answer, str) else "ours") == says
    if not isinstance(answer, str):
        assert (answer.workload, answer.pods) == (WORKLOAD, identity(POD).pods)


def test_the_name_of_a_gang_has_the_hash_of_all_members_P23() -> None:
    pods = (gang_pod("a"), gang_pod("b"))
    core = two_hosts(*pods)
    whole = workload_id([pod.uid for pod in pods])
    answer = vouched(core.graph.workloads, claim(name=job_name("ns", "a", workload=whole)))
    assert not isinstance(answer, str)
    assert answer.pods == identity(*pods).pods


@pytest.mark.parametrize("fields", [{}, {"identity": identity(POD), "name": "other"}])
def test_no_second_job_beside_one_that_may_be_its_own_P23(fields: dict[str, Any]) -> None:
    core = two_hosts(POD)
    core.see(Claims((claim(**fields),)))
    core.wait(2)
    assert not core.submission(POD)
    (shown,) = core.workload_wants(POD, SetScheduled)
    assert shown.reason == "JobUnproven"
    assert shown.message.startswith("Slurm job 7 may be its job")
    core.see(Claims(()))
    assert core.submission(POD)


def test_a_claim_for_others_changes_nothing_P23() -> None:
    core = two_hosts(POD)
    core.see(Claims((claim(name="k8s/ns/p1/00000000"),)))
    assert core.submission(POD)


def test_diff_names_each_claim_P23() -> None:
    core = two_hosts(POD)
    core.see(Claims((claim(name="k8s/ns/gone/00000000"),)))
    core.now += 5.0
    (one,) = differences_of(core.reconciler, CLUSTER, now=core.now)
    assert (one.kind, one.about, one.age_s) == ("job", "job 7", 5.0)
    assert "k8s/ns/gone/00000000 lives, but nothing proves" in one.what


def test_an_overwritten_comment_is_said_on_the_pod_P23() -> None:
    core = two_hosts(BOUND, running(POD, overwritten=True))
    (event,) = core.workload_wants(BOUND, RecordEvent)
    assert event.reason == "JobCommentOverwritten"
    assert "admin_comment of Slurm job 7" in event.message
    assert [job.job_id for job in overwritten_jobs(core.graph)] == ["7"]
    core.see(replace(running(POD), overwritten=False))
    assert not overwritten_jobs(core.graph)
