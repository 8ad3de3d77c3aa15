"""Events of the cluster key: rows S19, S20 and P31."""

from typing import Any

import pytest

from sunk_sync.core.model.actions import RecordEvent
from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.facts import Holding, Reference
from sunk_sync.core.model.keys import CLUSTER
from sunk_sync.core.model.names import EVENT_DRAINS_HELD, EVENT_SELECTOR
from sunk_sync.core.model.verdict import QUIET
from sunk_sync.core.rules.cluster.hold import hold
from sunk_sync.core.rules.cluster.selector import selector
from sunk_sync.core.views.parts import Cluster
from tests.kit.build import Core, marked, node, slurm_node, slurmd_pod

HERE = Configuration(namespace="slurm")
NAMESPACE = Reference("Namespace", "", "slurm", "")
NOW = 100.0


def cluster(**fields: Any) -> Cluster:
    return Cluster(**{"holding": None, "marked": 0, "unselected": 0, **fields})


def test_held_drains_are_one_warning_however_many_S19() -> None:
    some, more = (hold(cluster(holding=Holding(count, 50.0)), HERE, NOW) for count in (1, 500))
    assert some == more
    assert some.wants == (RecordEvent(NAMESPACE, "Warning", EVENT_DRAINS_HELD, some.because),)
    assert some.because.startswith(
        "Objects are missing or not ready, so sunk-sync wants more drains"
    )


def test_nothing_held_says_nothing_S19() -> None:
    assert hold(cluster(), HERE, NOW) is QUIET


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
    event = RecordEvent(NAMESPACE, "Warning", EVENT_SELECTOR, ruling.because)
    assert ruling.wants == ((event,) if wrong else ())
    assert ("check --slurmd-selector and --slurmd-namespace" in ruling.because) is wrong


def test_a_wrong_selector_makes_an_event_and_no_drain_S20() -> None:
    core = Core(*[slurm_node(name, comment=marked(name)) for name in ("n1", "n2")])
    for name in ("n1", "n2"):
        core.answer(slurmd_pod(name), "yes")
        core.answer(node(f"k{name}"), "yes")
    events = [want for want in core.decided(CLUSTER).wants if isinstance(want, RecordEvent)]
    assert [event.reason for event in events] == [EVENT_SELECTOR]
    assert not core.wants("n1")
    assert not core.wants("n2")
