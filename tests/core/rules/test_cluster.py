"""The rules of the cluster key: Events about held drains and a wrong selector, and listings that
are asked for again (rows S19, S20, P31 and F3).
"""

from typing import Any

import pytest

from sunk_sync.core.model.actions import LOOK_AGAIN_S, RecordEvent, Relist
from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.event_kinds import EVENT_DRAINS_HELD, EVENT_SELECTOR
from sunk_sync.core.model.facts import (
    Contradicted,
    ListingEnded,
    ListingStarted,
    Node,
    Observed,
    Placed,
    Pod,
    Reference,
    SlurmdPod,
    Source,
    WriteEcho,
    reference_of,
)
from sunk_sync.core.model.keys import CLUSTER
from sunk_sync.core.model.restraint import Holding
from sunk_sync.core.model.verdict import QUIET
from sunk_sync.core.rules.cluster.hold import hold
from sunk_sync.core.rules.cluster.relist import relist
from sunk_sync.core.rules.cluster.selector import selector
from sunk_sync.core.tables.doubts import CALM_S, PAUSE_MAX_S, PAUSE_S, WATCH_S
from sunk_sync.core.views.parts import Cluster, Doubt
from tests.core.checks import check_oracle
from tests.kit.build import (
    BOUND,
    POD,
    Core,
    deleted,
    marked,
    node,
    room,
    slurm_node,
    slurmd_pod,
    source_of,
)

HERE = Configuration(namespace="slurm")
NOW = 100.0
NAMESPACE = Reference("Namespace", "", "slurm", "")
OBJECTS = (node(), slurmd_pod(), POD)


def cluster(**fields: Any) -> Cluster:
    return Cluster(**{"holding": None, "marked": 0, "unselected": 0, **fields})


def relists(core: Core) -> list[Relist]:
    """Return the wanted listings; a full pass must want the same."""
    check_oracle(core.reconciler, core.now)
    return [want for want in core.decided(CLUSTER).wants if isinstance(want, Relist)]


def contradict(core: Core, row: Node | SlurmdPod | Pod) -> None:
    """A write finds no object with this UID."""
    core.see(Contradicted(reference_of(row), core.now))


# Events


def test_held_drains_are_one_warning_however_many_S19() -> None:
    some, more = (hold(cluster(holding=Holding(count, 50.0)), HERE, NOW) for count in (1, 500))
    assert some == more
    assert some.wants == (RecordEvent(NAMESPACE, EVENT_DRAINS_HELD, some.because),)
    assert some.because.startswith(
        "Objects are missing or not ready, so sunk-sync wants more drains"
    )


def test_when_nothing_is_held_or_in_doubt_the_rules_are_quiet_S19() -> None:
    assert hold(cluster(), HERE, NOW) is QUIET
    assert relist(cluster(), HERE, NOW) is QUIET


@pytest.mark.parametrize("drains", [0, 3])
def test_held_ends_are_explained_beside_drains_without_an_event_S19_P31(drains: int) -> None:
    """Each Pod has its own Event."""
    ruling = hold(cluster(holding=Holding(drains, 50.0, ends=8, ends_since_s=70.0)), HERE, NOW)
    assert len(ruling.wants) == bool(drains)
    assert ("--max-drains-per-minute" in ruling.because) is bool(drains)
    assert "--max-pod-ends-per-minute" in ruling.because


@pytest.mark.parametrize(
    ("marked_pods", "unselected", "wrong"),
    [(0, 0, False), (10, 0, False), (10, 4, False), (10, 5, True), (10, 10, True), (0, 1, True)],
)
def test_a_listing_that_lacks_half_of_the_marked_pods_is_a_wrong_selector_S20(
    marked_pods: int, unselected: int, wrong: bool
) -> None:
    """The Pods exist by name, but no listing shows them."""
    ruling = selector(cluster(marked=marked_pods, unselected=unselected), HERE, NOW)
    event = RecordEvent(NAMESPACE, EVENT_SELECTOR, ruling.because)
    assert ruling.wants == ((event,) if wrong else ())
    assert ("check --slurmd-selector and --slurmd-namespace" in ruling.because) is wrong


def test_a_wrong_selector_makes_an_event_and_no_drain_S20() -> None:
    core = Core(*[slurm_node(name, comment=marked(name)) for name in ("n1", "n2")])
    for name in ("n1", "n2"):
        core.answer(slurmd_pod(name), "yes")
        core.answer(node(f"k{name}"), "yes")
    events = [want for want in core.decided(CLUSTER).wants if isinstance(want, RecordEvent)]
    assert [event.event for event in events] == [EVENT_SELECTOR]
    assert not core.wants("n1")
    assert not core.wants("n2")


# Listings for held drains and ends


DRAINS_HELD, ENDS_HELD = Holding(1, 50.0), Holding(0, 0.0, ends=8, ends_since_s=70.0)
BOTH_HELD = Holding(3, 50.0, ends=8, ends_since_s=70.0)
DOUBTS = (Doubt("nodes", "kn1", 80.0, 82.0), Doubt("pods", "ns/p1", 60.0, 62.0))


@pytest.mark.parametrize(
    ("holding", "doubts", "listings"),
    [
        (DRAINS_HELD, (), {"nodes": 50, "slurmd_pods": 50}),
        (Holding(500, 50.0), (), {"nodes": 50, "slurmd_pods": 50}),
        (ENDS_HELD, (), {"nodes": 70}),
        (BOTH_HELD, DOUBTS, {"nodes": 80, "pods": 60, "slurmd_pods": 50}),
    ],
    ids=["a drain", "many drains", "ends", "drains, ends and doubts"],
)
def test_held_drains_and_ends_and_doubts_ask_for_listings_after_the_last_of_them_S19_P31_F3(
    holding: Holding, doubts: tuple[Doubt, ...], listings: dict[Source, float]
) -> None:
    """A watch that works for days never lists."""
    ruling = relist(cluster(holding=holding, doubts=doubts), HERE, NOW)
    assert ruling.wants == tuple(Relist(*listing) for listing in listings.items())


# Listings after a contradiction


@pytest.mark.parametrize("row", OBJECTS)
def test_a_write_refused_for_another_uid_leads_to_a_listing_F3(row: Node | SlurmdPod | Pod) -> None:
    """Simulator, seed 7700275: after etcd was restored, Pods stayed stale for good."""
    core = Core(*OBJECTS)
    asked_s = core.now
    contradict(core, row)
    assert not relists(core), "the watch has time to tell"
    core.wait(WATCH_S)
    assert relists(core) == [Relist(source_of(row), asked_s)]
    assert row.name in core.decided(CLUSTER).because
    core.see_listing(source_of(row), row)
    assert not relists(core)


@pytest.mark.parametrize("row", OBJECTS)
def test_a_change_that_the_watch_reports_in_time_is_enough_F3(row: Node | SlurmdPod | Pod) -> None:
    """The object was being deleted, which is the usual race."""
    core = Core(*OBJECTS)
    contradict(core, row)
    core.see(deleted(source_of(row), row))
    core.wait(WATCH_S)
    assert not relists(core)


def test_a_listing_asked_for_after_the_write_settles_the_doubt_F3() -> None:
    core = Core(*OBJECTS)
    sent_s = core.now
    core.now += 1
    core.see(ListingStarted("nodes", core.now, 1e9))
    core.see(Contradicted(reference_of(node()), sent_s))
    core.wait(WATCH_S)
    assert not relists(core)


def test_a_row_that_has_another_uid_by_now_is_not_in_doubt_F3() -> None:
    """The watch was faster than the answer."""
    core = Core(*OBJECTS)
    core.see(Contradicted(reference_of(node(uid="old")), core.now))
    assert not core.graph.doubts.rows


@pytest.mark.parametrize(
    ("found", "uid", "doubt"),
    [("no", "", True), ("yes", "another", True), ("yes", "", False), ("unknown", "", False)],
)
def test_a_contradicting_read_leads_to_a_listing_F3(found: Any, uid: str, doubt: bool) -> None:
    core = Core(*OBJECTS)
    asked_s = core.now
    core.answer(node(), found, uid)
    assert bool(core.graph.doubts.rows) is doubt
    core.wait(WATCH_S)
    assert relists(core) == [Relist("nodes", asked_s)] * doubt


@pytest.mark.parametrize("after_the_row", [True, False])
def test_a_lower_resource_version_leads_to_a_listing_F3(after_the_row: bool) -> None:
    """A late answer to an older write is no contradiction."""
    core = Core(*OBJECTS)
    before_s, after_s = core.now, core.now + 2
    core.now += 1
    core.see(Observed(node(cordon_reason="x"), 1000.0))
    core.now = after_s
    core.see(WriteEcho(node(drain="y"), 900.0, after_s if after_the_row else before_s))
    assert bool(core.graph.doubts.rows) is after_the_row
    core.wait(WATCH_S)
    assert relists(core) == [Relist("nodes", after_s)] * after_the_row


# How often


def test_listings_for_repeated_doubts_wait_longer_each_time_F3() -> None:
    """A listing may not remove the cause."""
    core = Core(*OBJECTS)
    pauses, last_s = [], core.now
    for _ in range(8):
        core.now += 0.5
        contradict(core, node())
        while not relists(core):
            core.wait(0.5)
        pauses.append(core.now - last_s)
        last_s = core.now
        core.see_listing("nodes", node())
    doubled = [PAUSE_S * 2**power for power in range(5)]
    assert pauses == [WATCH_S + 0.5, *doubled, PAUSE_MAX_S, PAUSE_MAX_S]


def test_after_some_time_without_doubts_a_listing_follows_at_once_F3() -> None:
    core = Core(*OBJECTS)
    for _ in range(2):
        contradict(core, node())
        core.wait(PAUSE_S)
        core.see_listing("nodes", node())
    core.wait(CALM_S)
    contradict(core, node())
    core.wait(WATCH_S)
    assert relists(core)
    core.see_listing("nodes", node())
    contradict(core, node())
    core.wait(PAUSE_S)
    assert relists(core), "its pause is the first again"


def test_many_rows_in_doubt_are_one_listing_F3() -> None:
    rows = [node(f"kn{number}") for number in range(50)]
    core = Core(*rows)
    asked_s = core.now
    for row in rows:
        contradict(core, row)
        core.wait(0.1)
    assert relists(core) == [Relist("nodes", asked_s)]


def test_a_listing_that_broke_off_is_asked_for_again_F3() -> None:
    core = Core(*OBJECTS)
    contradict(core, node())
    core.wait(WATCH_S)
    wanted = relists(core)
    core.see(ListingStarted("nodes", core.now, 1e9))
    assert relists(core) == wanted
    (again,) = core.wait(LOOK_AGAIN_S)
    assert (again.key, list(again.allowed)) == (CLUSTER, wanted)


# Answers from before etcd was restored


@pytest.mark.parametrize("begun", ["under way", "complete"])
def test_an_answer_asked_for_before_a_listing_is_ignored_F3(begun: str) -> None:
    """Simulator, seed 7712041: its resourceVersion was from before etcd was restored."""
    core = Core(*OBJECTS)
    asked_s = core.now
    core.now += 1
    core.see(ListingStarted("nodes", core.now, 10.0), Observed(node(), 10.0))
    if begun == "complete":
        core.see(ListingEnded("nodes"))
    core.see(WriteEcho(node(drain="x"), 1e6, asked_s))
    assert core.graph.nodes.get("kn1") == node()


def test_a_binding_asked_for_before_a_listing_is_left_to_the_watch_F3() -> None:
    """etcd may have lost it: then no row would show the Pod unbound again."""
    core = Core(*room("n1"), POD)
    asked_s = core.now
    core.see_listing("pods", POD, after_s=1)
    core.see(Placed(reference_of(POD), "kn1", "7", "n1", asked_s))
    assert core.graph.pods.get("ns/p1") == POD
    core.see(BOUND)
    assert core.graph.pods.get("ns/p1") == BOUND
