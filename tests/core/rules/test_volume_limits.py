"""How many volumes a Node may attach, as kube-scheduler counts them (row P8)."""

from typing import Any

import pytest
from msgspec.structs import replace

from sunk_sync.core.model.actions import SetScheduled, UpdateJob
from sunk_sync.core.model.facts import Pod, Row
from sunk_sync.core.model.pod_spec import PodRules, PodTerm
from sunk_sync.core.model.volumes import CsiNode, Volume, VolumeClaim
from tests.core.rules.test_volumes import HOSTNAME, bound, claim, cluster, user, volume
from tests.kit.build import SMALL, Core, deleted, running

DRIVER, OTHER = "example.com/disk", "example.com/other"
"""The first one makes the volumes of class made."""


def room(node_name: str = "kn1", driver: str = DRIVER, count: int = 1) -> CsiNode:
    return CsiNode(name=node_name, uid=f"u-{node_name}", limits=((driver, count),))


def attached(name: str = "p2", driver: str = DRIVER, **fields: Any) -> list[Row]:
    """Return a Pod on Node kn1 whose volume this driver attaches."""
    there = user(name, f"c-{name}", **{"node_name": "kn1", "job_id": name[1:], **fields})
    its = volume(f"v-{name}", claim=f"ns/c-{name}", driver=driver, handle=f"h-{name}")
    return [there, bound(f"c-{name}", to=f"v-{name}"), its]


NEW: dict[str, tuple[list[Row], bool]] = {
    "a volume fills the Node": ([room(), *attached()], True),
    "so does one that is not made yet": (
        [room(), user("p2", "c-p2", node_name="kn1"), claim("c-p2")], True,
    ),
    "the Node has room for two": ([room(count=2), *attached()], False),
    "the Node says nothing": (attached(), False),
    "another driver's limit": ([room(driver=OTHER), *attached()], False),
    "another driver's volume": ([room(), *attached(driver=OTHER)], False),
    "no driver's volume": ([room(), *attached(driver="")], False),
    "a Pod that has ended": ([room(), *attached(phase="Succeeded", ended=True)], False),
    "two Pods with one volume count once": (
        [room(count=2), *attached(), user("p3", "c-p2", node_name="kn1")], False,
    ),
    "the limit of an empty Node is zero": ([room(count=0)], True),
    "a Pod is about to be bound there": (
        [room(), user("p2"), claim("c-p2"), running(user("p2"), job_id="2")], True,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", NEW)
def test_a_job_excludes_nodes_that_can_attach_no_more_volumes_P8(case: str) -> None:
    rows, full = NEW[case]
    mine = user()
    core = cluster(mine, claim(), *rows)
    assert core.submission(mine).excluded == (("n1",) if full else ())


def test_a_pod_with_too_many_volumes_for_a_node_is_told_P8() -> None:
    mine = user("p1", "c-p1", "c-p2")
    limits = [room(name) for name in ("kn1", "kn2", "kn3")]
    core = cluster(mine, claim(), claim("c-p2"), *limits)
    core.wait(2)
    assert core.submission(mine) is None
    (shown,) = core.workload_wants(mine, SetScheduled)
    assert shown.message == ("0/3 nodes are available: 3 node(s) exceed max volume count")


def test_a_pod_whose_volumes_no_node_can_attach_holds_up_nobody_P8() -> None:
    """Simulator, seed 9499062: the next Pod of the line waited for its turn for ever."""
    spec = replace(SMALL, rules=PodRules(apart=(PodTerm(HOSTNAME, ()),)))
    first = replace(user("p1"), spec=spec, created_s=1)
    second = replace(user("p2"), spec=spec, created_s=2, volume_claims=())
    limits = [room(name, count=0) for name in ("kn1", "kn2", "kn3")]
    core = cluster(first, second, claim(), *limits)
    assert core.submission(first) is None
    assert core.submission(second)
    core.see(room("kn1"))
    assert core.submission(first).excluded == ("n2", "n3")


def test_a_pod_that_no_host_suits_for_its_volumes_and_its_rule_holds_up_nobody_P8() -> None:
    """Simulator, seed 9502161: each of the two reasons left it a host, both together none."""
    spec = replace(SMALL, rules=PodRules(apart=(PodTerm(HOSTNAME, ()),)))
    there = replace(user("p0"), spec=spec, node_name="kn1", volume_claims=())
    first = replace(user("p1"), spec=spec, created_s=1)
    second = replace(user("p2"), spec=spec, created_s=2, volume_claims=())
    limits = [room("kn1"), room("kn2", count=0), room("kn3", count=0)]
    core = cluster(there, first, second, claim(), *limits)
    assert core.submission(first) is None
    assert core.submission(second).excluded == ("n1",)


def test_pods_whose_volumes_let_them_go_to_the_same_nodes_take_turns_P8() -> None:
    spec = replace(SMALL, rules=PodRules(apart=(PodTerm(HOSTNAME, ()),)))
    first = replace(user("p1"), spec=spec, created_s=1)
    second = replace(user("p2", "c-p2"), spec=spec, created_s=2)
    core = cluster(first, second, claim(), claim("c-p2"), room("kn1", count=0))
    assert core.submission(first).excluded == ("n1",)
    assert core.submission(second) is None


def test_a_volume_that_two_pods_share_is_attached_once_P8() -> None:
    there, owner, its = attached()
    assert isinstance(owner, VolumeClaim)
    mine = user("p1", "c-p2")
    core = cluster(there, replace(owner, modes=("ReadWriteMany",)), its, mine, room())
    assert core.submission(mine).excluded == ()


def two_arriving() -> tuple[Core, Pod, Pod]:
    """Two Pods whose jobs run on n1, which attaches one volume; job 7 began before job 8."""
    pods = [user(name) for name in ("p1", "p2")]
    rows: list[Row] = []
    for pod in pods:
        name = pod.volume_claims[0]
        rows.append(bound(name, to=f"v-{name}"))
        rows.append(
            volume(
                f"v-{name}", claim=f"ns/{name}", claim_uid=f"u-{name}", driver=DRIVER, handle=name
            )
        )
    core = cluster(*pods, *rows, room(), running(pods[0]), running(pods[1], job_id="8"))
    return core, pods[0], pods[1]


def test_of_two_pods_that_arrive_together_the_older_job_stays_P8() -> None:
    core, first, second = two_arriving()
    assert core.binds(first) == [("p1", "kn1")]
    assert not core.binds(second)
    assert core.cancels(second) == [("8", True)]


def waiting(*rows: Row) -> tuple[Core, Pod]:
    """A job waits and excludes n1, which is full."""
    mine = user()
    core = cluster(mine, claim(), *rows)
    submission = core.submission(mine)
    assert submission.excluded == ("n1",)
    its = running(mine, at=())
    core.see(replace(its, state=frozenset({"PENDING"}), identity=submission.identity))
    assert not core.workload_wants(mine, UpdateJob)
    return core, mine


def test_a_waiting_job_may_use_a_node_again_when_its_volume_is_gone_P8() -> None:
    there, owner, its = attached()
    assert isinstance(there, Pod)
    core, mine = waiting(room(), there, owner, its)
    core.see(deleted("pods", there))
    (update,) = core.workload_wants(mine, UpdateJob)
    assert update.excluded == ()


@pytest.mark.parametrize("change", ["it ends", "more room", "no limit", "another driver"])
def test_a_waiting_job_follows_the_room_of_a_node_P8(change: str) -> None:
    there, owner, its = attached()
    assert isinstance(there, Pod)
    assert isinstance(its, Volume)
    changes: dict[str, Row] = {
        "it ends": replace(there, phase="Succeeded", ended=True),
        "more room": room(count=2),
        "no limit": CsiNode(name="kn1", uid="u-kn1"),
        "another driver": replace(its, driver=OTHER),
    }
    core, mine = waiting(room(), there, owner, its)
    core.see(changes[change])
    (update,) = core.workload_wants(mine, UpdateJob)
    assert update.excluded == ()
