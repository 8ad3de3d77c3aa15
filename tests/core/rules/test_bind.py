"""Pods go where their job runs: rows P11, P12, P29, G1, G4."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

import pytest
from msgspec.structs import replace

from sunk_sync.core.model.actions import Bind
from sunk_sync.core.model.calls import JobNotice
from sunk_sync.core.model.event_kinds import EVENT_SCHEDULED
from sunk_sync.core.model.facts import Confirmed, Lost, News, Observed, Pod, WriteEcho, reference_of
from sunk_sync.core.model.outcomes import Done, shown_by
from tests.kit.build import (
    BOUND,
    POD,
    Core,
    gang_pod,
    identity,
    job,
    listing,
    node,
    pod,
    room,
    running,
    two_hosts,
)


def test_a_pod_is_bound_to_the_node_of_the_allocated_host_P11() -> None:
    wants = two_hosts(POD, running(POD)).workload_wants(POD, Bind)
    assert wants == [Bind(reference_of(POD), "kn1", "7", "n1")]


@pytest.mark.parametrize(
    "of",
    [
        {"state": "PENDING"},
        {"state": "SUSPENDED", "slurm_nodes": ("n1",)},
        {"state": "RUNNING", "slurm_nodes": ("n1",), "started": False},
        {"state": "RUNNING", "slurm_nodes": ("n9",)},
        {"state": "COMPLETED", "slurm_nodes": ("n1",)},
    ],
)
def test_a_pod_is_not_bound_before_its_job_holds_a_known_host_P11(of: dict[str, Any]) -> None:
    assert not two_hosts(POD, job(POD, **of)).binds(POD)


@pytest.mark.parametrize(
    ("word", "bound"), [("starting", True), ("started", True), ("ended", False)]
)
def test_a_pod_is_not_bound_between_the_notice_of_the_end_and_the_next_read_P11(
    word: Literal["starting", "started", "ended"], bound: bool
) -> None:
    """Slurm may take seconds to answer, and a refused binding would be tried again meanwhile."""
    core = two_hosts(POD, running(POD))
    core.see(JobNotice("7", word, core.now))
    assert bool(core.binds(POD)) is bound
    core.see(Observed(running(POD), core.now))
    assert core.binds(POD) == [("p1", "kn1")]


def test_a_pod_is_not_bound_while_jobs_cannot_be_read_P11() -> None:
    """Simulator, seed 60050: it was bound minutes after Slurm had last answered."""
    core = two_hosts(POD, running(POD))
    (wanted,) = core.workload_wants(POD, Bind)
    assert not core.workload_kept(POD)
    core.see(Lost("jobs", "away"))
    assert core.workload_kept(POD) == [wanted]
    core.see(Confirmed("jobs", core.now))
    assert not core.workload_kept(POD)


def answer_to_bind(core: Core) -> Sequence[News]:
    """Return the facts of a wanted binding that was written."""
    (wanted,) = core.workload_wants(POD, Bind)
    return shown_by(Done(wanted), asked_s=core.now)


def test_an_answered_binding_is_known_before_the_watch_reports_it_P11() -> None:
    """Simulator, seed 60034: a job was replaced as that of an unbound Pod."""
    core = two_hosts(POD, running(POD))
    core.see(*answer_to_bind(core))
    assert not core.binds(POD)
    assert core.graph.pods.get("ns/p1") == BOUND


def test_an_answered_binding_changes_no_other_pod_of_that_name_P11() -> None:
    """An older answer does not undo it either."""
    other = pod(uid="another")
    core = two_hosts(POD, running(POD))
    answer = answer_to_bind(core)
    entries = core.graph.pods.entries
    order = entries["ns/p1"].order
    core.see(*answer, Observed(POD, order))
    assert entries["ns/p1"].row.node_name == "kn1"
    core.see(Observed(other, order + 1), *answer)
    assert entries["ns/p1"].row == other


@pytest.mark.parametrize("news", [Observed, partial(WriteEcho, asked_s=1000.0)])
def test_a_fact_that_shows_the_pod_unbound_does_not_undo_its_binding_P11(news: Any) -> None:
    """Simulator, seed 1733: an older write was reported later, and the Pod was bound again."""
    core = two_hosts(POD, running(POD))
    core.see(*answer_to_bind(core))
    order = core.graph.pods.entries["ns/p1"].order
    core.see(news(replace(POD, job_id="7"), order + 10))
    assert not core.binds(POD)
    core.see(node("kn1", ready="False"))
    assert not core.cancels(POD)
    bound = replace(BOUND, bound_for="7")
    core.see(Observed(bound, order + 5))
    assert core.graph.pods.get("ns/p1") == bound


def test_only_a_listing_begun_after_the_binding_shows_the_pod_unbound_again_P11() -> None:
    """Kubernetes was restored from a backup."""
    core = two_hosts(POD, running(POD))
    core.see(*answer_to_bind(core))
    core.see(*listing("pods", POD, begun_s=core.now + 1))
    assert core.binds(POD) == [("p1", "kn1")]


def test_the_scripts_notice_is_enough_to_bind_P11() -> None:
    """The hook is faster than the listing."""
    core = two_hosts(POD, running(POD, started=False))
    assert "has not started" in core.workload_verdict(POD).because
    core.see(JobNotice("7", "started", core.now))
    assert core.binds(POD) == [("p1", "kn1")]


def test_without_a_script_the_allocation_is_enough_P11() -> None:
    assert two_hosts(POD, running(POD, started=False, script=False)).binds(POD)


@pytest.mark.parametrize(
    ("jobs_of_other", "bound"),
    [
        ((), False),
        (({"state": "RUNNING", "slurm_nodes": ("n1",)},), True),
        (({"state": "RUNNING", "slurm_nodes": ("n2",)},), False),
        (({"state": "CANCELLED", "slurm_nodes": ("n1",)},), False),
        (({"state": "SUSPENDED", "slurm_nodes": ("n1",)},), False),
    ],
)
def test_a_pod_is_not_bound_beside_a_pod_whose_job_is_not_confirmed_P11(
    jobs_of_other: tuple[dict[str, Any], ...], bound: bool
) -> None:
    """Its containers may still use what Slurm has given away."""
    other = pod("other", node_name="kn1", job_id="8")
    rows = [job(other, job_id="8", **fields) for fields in jobs_of_other]
    core = two_hosts(other, POD, running(POD), *rows)
    assert bool(core.binds(POD)) is bound
    if not bound:
        assert "ns/other" in core.workload_verdict(POD).because
        core.see(replace(other, ended=True))
        assert core.binds(POD)


def test_members_of_one_gang_do_not_block_each_other_P11() -> None:
    a, b = gang_pod("a", node_name="kn1", job_id="7"), gang_pod("b")
    assert two_hosts(a, b, running(a, b, at=("n1", "n2"))).binds(a) == [("b", "kn2")]


@pytest.mark.parametrize("ready", ["False", "Unknown"])
def test_a_pod_is_not_bound_to_a_node_that_is_not_ready_P12(ready: str) -> None:
    core = two_hosts(POD, running(POD))
    core.see(node("kn1", ready=ready))
    assert not core.binds(POD)


@pytest.mark.parametrize(("second", "bound"), [("PENDING", True), ("RUNNING", False)])
def test_a_pod_with_two_running_jobs_is_not_bound_P29(second: str, bound: bool) -> None:
    at = ("n2",) if second == "RUNNING" else ()
    twin = job(POD, state=second, job_id="9", slurm_nodes=at)
    assert bool(two_hosts(POD, running(POD), twin).binds(POD)) is bound


def test_all_members_of_a_gang_are_bound_each_to_its_own_host_or_none_G1() -> None:
    a, b = gang_pod("a"), gang_pod("b")
    core = two_hosts(a, b, running(a, b, at=("n1", "n2")))
    assert core.binds(a) == [("a", "kn1"), ("b", "kn2")]
    assert not two_hosts(a, b, running(a, b)).binds(a)


@pytest.mark.parametrize(
    "others",
    [[gang_pod("b", terminating=True)], [gang_pod("b", ended=True)], []],
    ids=["terminating", "ended", "not listed"],
)
def test_a_gang_that_lost_a_member_is_not_bound_G1(others: list[Pod]) -> None:
    a = gang_pod("a")
    assert not two_hosts(a, *others, running(a, gang_pod("b"), at=("n1", "n2"))).binds(a)


def test_one_event_says_that_the_pod_is_scheduled_P11() -> None:
    """Only if this process saw it happen, and only for five seconds."""
    core = two_hosts(POD, running(POD))
    core.see(BOUND)
    assert core.events(BOUND) == [EVENT_SCHEDULED]
    core.wait(5)
    assert not core.workload_wants(BOUND)
    assert not two_hosts(BOUND, running(BOUND)).workload_wants(BOUND)


def test_a_job_with_another_identity_binds_no_pod_P22() -> None:
    assert not two_hosts(POD, running(POD, identity=identity(pod("p9")))).binds(POD)


def test_nothing_is_bound_while_nodes_are_as_before_an_outage_P11() -> None:
    """Simulator, seed 9532803: Pods were read first, and the Node had other labels by then."""
    core = two_hosts(POD, running(POD))
    assert core.binds(POD)
    core.see(Lost("nodes", "away for a minute", blind=True))
    assert not core.binds(POD) + core.cancels(POD)
    assert "its Node cannot be read now" in core.workload_verdict(POD).because
    core.see(*listing("nodes", room("n1")[0], room("n2")[0]))
    assert core.binds(POD) == [("p1", "kn1")]
