"""The reason of PodScheduled: Unschedulable only where more Nodes help, row P33.

Cluster Autoscaler and Karpenter add Nodes for Pods with that reason, and for no others.
"""

from typing import get_args

import pytest
from msgspec.structs import replace

from sunk_sync.core.model.actions import SetScheduled
from sunk_sync.core.model.condition import WaitReason
from sunk_sync.core.model.condition_kinds import CONDITIONS
from sunk_sync.core.model.facts import Attempt, BindRefused, News, Pod, Row, SubmitRefused
from sunk_sync.core.model.names import SCHEDULED_CONDITION
from sunk_sync.core.model.pod_spec import PodSpec
from sunk_sync.core.translate.slurm_errors import ERRORS, FOR_NODES, meaning
from sunk_sync.core.translate.slurm_reasons import REASONS, more_nodes_help
from tests.kit.build import (
    GIB,
    POD,
    SMALL,
    WORKLOAD,
    Core,
    gang_pod,
    job,
    pod,
    running,
    two_hosts,
)

LARGE = replace(SMALL, requests=(("cpu", 8_000), ("memory", 8 * GIB), ("nvidia.com/gpu", 2)))
NOWHERE = replace(SMALL, node_selector=(("zone", "x"),))
GPUS = {"gres_map": (("nvidia.com/gpu", "gpu"),)}
FULL = pod("other", node_name="kn1", job_id="8")


def said(core: Core, of: Pod = POD) -> list[tuple[str, str]]:
    return [(want.reason, want.message) for want in core.workload_wants(of, SetScheduled)]


def reason_of(*rows: Row, of: Pod = POD, news: News | None = None) -> str:
    core = two_hosts(of, *rows)
    if news is not None:
        core.see(news)
    core.wait(3)
    ((reason, _),) = said(core, of)
    return reason


def refused(number: int) -> str:
    core = two_hosts(POD)
    (submit,) = core.workload_wants(POD)
    core.see(SubmitRefused(WORKLOAD, number, "no", "script", submit.identity.digest))
    core.wait(2)
    ((reason, _),) = said(core)
    return reason


@pytest.mark.parametrize(
    ("slurm", "reason"),
    [
        ("Resources", "Unschedulable"),
        ("Priority", "Unschedulable"),
        ("None", "Unschedulable"),
        ("Constraints", "Unschedulable"),
        ("BadConstraints", "Unschedulable"),
        ("PartitionConfig", "Unschedulable"),
        ("ReqNodeNotAvail, UnavailableNodes:n2", "Unschedulable"),
        ("Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved", "Unschedulable"),
        ("JobHeldUser", "SlurmJobPending"),
        ("JobHeldAdmin", "SlurmJobPending"),
        ("BeginTime", "SlurmJobPending"),
        ("Dependency", "SlurmJobPending"),
        ("Licenses", "SlurmJobPending"),
        ("PartitionDown", "SlurmJobPending"),
        ("PartitionTimeLimit", "SlurmJobPending"),
        ("QOSMaxCpuPerUserLimit", "SlurmJobPending"),
        ("AssocGrpGRES", "SlurmJobPending"),
        ("InvalidAccount", "SlurmJobPending"),
        ("NeverHeardOf", "SlurmJobPending"),
    ],
)
def test_a_job_in_the_queue_is_unschedulable_only_where_more_nodes_help_P33(
    slurm: str, reason: str
) -> None:
    assert reason_of(job(POD, reason=slurm)) == reason


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (2014, "Unschedulable"),
        (2015, "Unschedulable"),
        (2029, "Unschedulable"),
        (7201, "Unschedulable"),
        (2000, "SlurmRefused"),
        (2045, "SlurmRefused"),
        (2050, "SlurmRefused"),
        (2007, "SlurmRefused"),
        (-1, "SlurmRefused"),
        (7405, "SlurmRefused"),
        (2999, "SlurmRefused"),
    ],
)
def test_a_refusal_is_unschedulable_only_where_more_nodes_help_P33(
    number: int, reason: str
) -> None:
    assert refused(number) == reason


def test_a_pod_that_gets_no_job_names_another_reason_than_unschedulable_P33() -> None:
    mistaken = pod(spec=PodSpec(requests=(("cpu", 1000),), grace_s=5))
    assert reason_of(of=mistaken) == "InvalidPod"
    assert reason_of(of=gang_pod("p1", size=3)) == "GangIncomplete"
    assert reason_of(of=pod(spec=NOWHERE)) == "Unschedulable"
    assert reason_of(news=Attempt(WORKLOAD, 1_000.0)) == "SlurmUnreachable"
    cancelled = job(POD, state="CANCELLED", slurm_nodes=(), started=False)
    assert reason_of(cancelled) == "SlurmJobCancelled"
    early = job(POD, state="FAILED", slurm_nodes=("n1",), signalled=True)
    assert reason_of(early) == "SlurmJobEndedEarly"


def test_a_pod_whose_job_has_its_host_needs_no_further_node_P33() -> None:
    assert reason_of(running(POD, started=False)) == "SlurmJobAllocated"
    assert reason_of(FULL, running(POD)) == "SlurmJobAllocated"
    refusal = BindRefused(POD.uid, "kn1", "pods is forbidden")
    assert reason_of(running(POD), news=refusal) == "SlurmJobAllocated"


def test_a_pod_beside_a_full_gang_needs_no_further_node_G7_P33() -> None:
    members = [gang_pod(f"p{number}", created_s=number) for number in range(1, 4)]
    core = two_hosts(*members, job(*members[:2]))
    core.wait(5)
    found = core.workload_wants(members[0], SetScheduled)
    reasons = {want.reference.name: want.reason for want in found}
    assert reasons == {"p1": "Unschedulable", "p2": "Unschedulable", "p3": "GangFull"}


def test_each_reason_of_the_type_is_in_the_table_of_conditions() -> None:
    (kind,) = [kind for kind in CONDITIONS if kind.type == SCHEDULED_CONDITION]
    assert {one.reason for one in kind.meanings} == {*get_args(WaitReason)}


def test_nothing_that_one_user_asked_wrong_is_a_lack_of_nodes_P33() -> None:
    """Except for sizes and features, which other Nodes may have."""
    wrong = [name for name, row in REASONS.items() if row[0] == "user" and more_nodes_help(name)]
    assert sorted(wrong) == [
        "BadConstraints",
        "PartitionConfig",
        "PartitionNodeLimit",
        "ReqNodeNotAvail",
    ]
    assert all(meaning(number) for number in FOR_NODES)
    operators = [number for number in FOR_NODES if ERRORS.get(number, ("wait",))[0] == "operator"]
    assert not operators


@pytest.mark.parametrize(
    ("specs", "asks"),
    [
        ([SMALL, SMALL], "for 2 hosts with 1 CPU and 1 GiB each"),
        (
            [SMALL, LARGE],
            "for 2 hosts with 8 CPUs, 8 GiB and 2 gpu each, as its largest Pod p2",
        ),
        (
            [
                replace(SMALL, requests=(("cpu", 4_000), ("memory", GIB))),
                replace(SMALL, requests=(("cpu", 1_000), ("memory", 3 * GIB // 2))),
            ],
            "for 2 hosts with 4 CPUs and 1536 MiB each, the most that any of its Pods asks",
        ),
    ],
    ids=["all alike", "one is the largest", "two are the largest"],
)
def test_a_gang_says_what_it_asks_of_each_host_G5_P33(specs: list[PodSpec], asks: str) -> None:
    members = [gang_pod(f"p{number}", spec=spec) for number, spec in enumerate(specs, 1)]
    core = two_hosts(*members, job(*members), **GPUS)
    core.wait(5)
    for want in core.workload_wants(members[0], SetScheduled):
        assert want.message.endswith(f" ahead of it. Its gang asks {asks}.")


def test_a_gang_that_fits_nowhere_says_what_it_asks_of_each_host_G5_P7_P33() -> None:
    members = [gang_pod("p1"), gang_pod("p2", spec=replace(LARGE, node_selector=(("a", "b"),)))]
    core = two_hosts(*members, **GPUS)
    core.wait(5)
    ((reason, message), _) = [
        (want.reason, want.message) for want in core.workload_wants(members[0], SetScheduled)
    ]
    assert reason == "Unschedulable"
    assert message.startswith("0/2 nodes are available: ")
    assert message.endswith("; its gang asks for 2 hosts with 8 CPUs, 8 GiB and 2 gpu each, "
                            "as its largest Pod p2")  # fmt: skip


def test_a_single_pod_and_a_gang_that_waits_for_no_node_say_nothing_of_hosts_G5() -> None:
    members = [gang_pod("p1"), gang_pod("p2")]
    single = two_hosts(POD, job(POD))
    held = two_hosts(*members, job(*members, reason="JobHeldUser"))
    for core, of in ((single, POD), (held, members[0])):
        core.wait(5)
        assert "gang" not in said(core, of)[0][1]
