"""P32: a host where a job was given up for want of room is avoided until there is room again.

Slurm counts more room than the Nodes have, so it gives full hosts to the Pod.
"""

from typing import Any

import pytest
from msgspec.structs import replace

from sunk_sync.core.model.actions import CancelJob, SetScheduled, UpdateJob
from sunk_sync.core.model.facts import OTHER_PODS, Pod, Row, Taken
from sunk_sync.core.model.pod_spec import PodSpec
from sunk_sync.core.rules.workload.release import START_S
from tests.core.rules.test_room_beside_others import BIG, FULL, WANTED
from tests.kit.build import (
    GIB,
    OFFER,
    WORKLOAD,
    Core,
    deleted,
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

LITTLE = PodSpec(requests=(("cpu", 1000), ("memory", GIB)), grace_s=5)
LARGE = (("cpu", 64_000), ("memory", 64 * GIB), ("pods", 110))
LATER_S = 1000.0


def filled(host: str, **fields: Any) -> list[Row]:
    """Return a Pod that takes 15 CPUs of this host, and its job."""
    number = "9" + host[1:]
    other = pod(f"on-{host}", spec=FULL, node_name=f"k{host}", job_id=number, **fields)
    return [other, running(other, at=(host,), job_id=number)]


def give_up(core: Core, host: str, *, number: int = 1, of: tuple[Pod, ...] = (WANTED,)) -> None:
    """Slurm gives the Pods this host, and sunk-sync gives it back."""
    fields: dict[str, Any] = {"job_id": str(number)}
    core.see(running(*of, at=(host,), **fields))
    assert core.workload_wants(of[0], CancelJob)
    marked = identity(*of, replaced=True)
    core.see(job(*of, state="CANCELLED", slurm_nodes=(host,), identity=marked, **fields))
    core.see_listing("jobs", *core.graph.jobs.rows())


def leave(core: Core, other: Row) -> None:
    core.see(deleted("pods", other))


def given_up_once(*rows: Row) -> Core:
    core = two_hosts(WANTED, *filled("n1"), *rows)
    give_up(core, "n1")
    return core


def test_a_full_host_is_avoided_until_a_pod_leaves_it_P32() -> None:
    """It was avoided for five minutes, however early its room was free."""
    core = given_up_once()
    assert core.submission(WANTED).excluded == ("n1",)
    core.wait(LATER_S)
    assert core.submission(WANTED).excluded == ("n1",)
    leave(core, filled("n1")[0])
    assert core.submission(WANTED).excluded == ()


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        (node("kn1", offer=replace(OFFER, allocatable=LARGE)), WANTED),
        (replace(WANTED, spec=LITTLE), replace(WANTED, spec=LITTLE)),
        (pod("on-n1", spec=LITTLE, node_name="kn1", job_id="91"), WANTED),
    ],
    ids=["the Node grows", "the Pod asks for less", "another Pod is resized"],
)
def test_a_host_has_room_again_when_P32(change: Row, wanted: Pod) -> None:
    core = given_up_once()
    core.see(change)
    assert core.submission(wanted).excluded == ()


def test_no_job_is_submitted_while_no_host_has_room_P32() -> None:
    """Slurm started one after the other in vain, with pauses of up to five minutes."""
    core = given_up_once(*filled("n2"))
    core.wait(10)
    give_up(core, "n2", number=2)
    core.wait(LATER_S)
    assert not core.submission(WANTED)
    (said,) = core.workload_wants(WANTED, SetScheduled)
    assert said.message == ("no host has room beside its other Pods; waiting for room on n1, n2")
    leave(core, filled("n2")[0])
    assert core.submission(WANTED).excluded == ("n1",)


def test_when_each_host_was_tried_those_that_are_not_full_are_allowed_again_P32() -> None:
    """After a restart the cause of earlier tries is not known. The full host was tried for ever
    (crash points)."""
    marked = identity(WANTED, replaced=True)
    fields: dict[str, Any] = {"state": "CANCELLED", "slurm_nodes": ("n2",), "identity": marked}
    core = two_hosts(WANTED, *filled("n1"), job(WANTED, job_id="3", **fields))
    core.wait(10)
    assert core.submission(WANTED).excluded == ("n2",)
    give_up(core, "n1", number=4)
    core.wait(10)
    assert core.submission(WANTED).excluded == ("n1",)


def test_a_new_host_ends_the_wait_for_room_P32() -> None:
    core = given_up_once(*filled("n2"))
    core.wait(10)
    give_up(core, "n2", number=2)
    core.wait(10)
    assert not core.submission(WANTED)
    core.see(*room("n3"))
    assert core.submission(WANTED).excluded == ("n1", "n2")


def test_a_waiting_job_may_use_the_host_as_soon_as_it_has_room_P32() -> None:
    core = given_up_once()
    action = core.submission(WANTED)
    core.see(job(WANTED, job_id="2", identity=action.identity, submitted_at=2))
    assert not core.workload_wants(WANTED, UpdateJob)
    leave(core, filled("n1")[0])
    (update,) = core.workload_wants(WANTED, UpdateJob)
    assert (update.excluded, update.change) == ((), "exclusions")


def test_a_pod_that_leaves_does_not_free_a_host_that_was_given_up_for_another_cause_P32() -> None:
    """Its Node was not ready: five minutes, or until it is ready again."""
    core = two_hosts(WANTED, *filled("n1"), node("kn1", offer=OFFER, ready="False"))
    give_up(core, "n1")
    leave(core, filled("n1")[0])
    assert core.submission(WANTED).excluded == ("n1",)


def test_pods_of_others_count_for_the_room_too_P28_P32() -> None:
    core = two_hosts(WANTED, watch_all_pods=True)
    begun, ended = listing(OTHER_PODS)
    core.see(begun, Taken("kn1", (("cpu", 1_000), ("pods", 1))), ended)
    core.see(running(WANTED, job_id="1"), Taken("kn1", (("cpu", 11_000), ("pods", 3))))
    give_up(core, "n1")
    core.see(Taken("kn1", (("cpu", 1_000), ("pods", 1))))
    assert core.submission(WANTED).excluded == ()


@pytest.mark.parametrize("how", ["its job gets another host", "its job ends", "it is gone"])
def test_a_pod_on_its_way_to_the_host_counts_for_the_room_P28_P32(how: str) -> None:
    """Its binding was not read yet when the next job was submitted, which got the same host."""
    first = pod("first", spec=FULL)
    coming = running(first, job_id="9")
    core = two_hosts(WANTED, first, coming)
    give_up(core, "n1")
    assert core.submission(WANTED).excluded == ("n1",)
    match how:
        case "its job gets another host":
            core.see(replace(coming, slurm_nodes=("n2",)))
        case "its job ends":
            core.see(replace(coming, state=frozenset({"CANCELLED"})))
        case _:
            leave(core, first)
    assert core.submission(WANTED).excluded == ()


def test_a_gang_waits_until_enough_hosts_have_room_G1_P32() -> None:
    gang = gang_pod("a", spec=BIG), gang_pod("b", spec=BIG)
    core = two_hosts(*gang, *filled("n1"))
    fields: dict[str, Any] = {"job_id": "1", "slurm_nodes": ("n1", "n2")}
    core.see(running(*gang, at=("n1", "n2"), job_id="1"))
    core.see(job(*gang, state="CANCELLED", identity=identity(*gang, replaced=True), **fields))
    core.see_listing("jobs", *core.graph.jobs.rows())
    core.wait(LATER_S)
    assert not core.submission(gang[0])
    leave(core, filled("n1")[0])
    assert core.submission(gang[0])


def test_the_cause_is_forgotten_with_the_pod_P32() -> None:
    core = given_up_once()
    leave(core, WANTED)
    submissions = core.graph.workloads.memory.submissions
    assert WORKLOAD not in submissions.of
    assert not submissions.given_up_at
    assert not submissions.full


def test_a_host_that_was_full_for_a_moment_is_avoided_for_the_cause_that_came_later_P32() -> None:
    """A script never started there. The host counted as full, so the next job could go there."""
    core = two_hosts(WANTED, *filled("n1"))
    core.see(running(WANTED, script=True, started=False, job_id="1"))
    assert core.cancels(WANTED) == [("1", True)]
    leave(core, filled("n1")[0])
    assert not core.cancels(WANTED)
    core.wait(START_S)
    assert core.cancels(WANTED) == [("1", True)]
    marked = identity(WANTED, replaced=True)
    core.see(job(WANTED, state="CANCELLED", slurm_nodes=("n1",), identity=marked, job_id="1"))
    core.see_listing("jobs", *core.graph.jobs.rows())
    assert core.submission(WANTED).excluded == ("n1",)
