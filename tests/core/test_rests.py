"""A NodeSet of many Pods is decided at its first change, and then after a rest."""

import pytest

from sunk_sync.core.model.keys import Key, node_set_key
from sunk_sync.core.model.node_set_actions import Condemn, SetStatus
from sunk_sync.core.rests import MANY, REST_S, Rests
from tests.kit.build import Core
from tests.kit.node_sets import members, node_set, set_pod, wants

KEY: Key = node_set_key("slurm/cpu")


def core_of(replicas: int) -> Core:
    """Return a core with a NodeSet in use that has rested."""
    spec = node_set(replicas)
    core = Core(spec, *members(*range(replicas), spec=spec), node_sets=True)
    core.wait(60)
    core.now += 1
    return core


def decided(core: Core, *rows: object) -> int:
    """Return how often the NodeSet is decided when these rows come one by one, at one time."""
    keys = [one.key for row in rows for one in core.see(row)]  # type: ignore[arg-type]
    return keys.count(KEY)


@pytest.mark.parametrize(("replicas", "times"), [(MANY - 1, 3), (MANY, 1), (3 * MANY, 1)])
def test_changes_during_a_rest_are_decided_together(replicas: int, times: int) -> None:
    core = core_of(replicas)
    spec = node_set(replicas)
    unready = [set_pod(number, spec, ready=False) for number in range(3)]
    assert decided(core, *unready) == times
    core.wait(replicas * REST_S)
    (status,) = wants(core, SetStatus)
    assert status.counts.ready == replicas - 3


def test_a_change_after_a_rest_is_decided_at_once() -> None:
    """A user who scales waits for nothing."""
    core = core_of(2 * MANY)
    core.see(node_set(2 * MANY - 1, generation=2))
    assert len(wants(core, Condemn)) == 1


def test_the_end_of_a_rest_is_a_timer() -> None:
    core = core_of(MANY)
    spec = node_set(MANY)
    decided(core, set_pod(0, spec, ready=False), set_pod(1, spec, ready=False))
    assert core.reconciler.next_timer_s() == pytest.approx(core.now + MANY * REST_S)
    assert not core.reconciler.pending


def test_the_audit_waits_for_the_end_of_a_rest() -> None:
    """A verdict that is about to be decided again is no wrong one."""
    core = core_of(MANY)
    spec = node_set(MANY)
    decided(core, set_pod(0, spec, ready=False), set_pod(1, spec, ready=False))
    for _ in range(2):
        surprises, _ = core.reconciler.audit(now=core.now, limit=10 * MANY)
        assert not surprises


def test_nothing_is_kept_of_a_node_set_that_is_gone() -> None:
    rests = Rests()
    rests.begin(KEY, rows=MANY, now=10.0)
    assert rests.puts_off(KEY, now=10.0)
    assert rests.end(now=11.0) == [KEY]
    rests.begin(KEY, rows=0, now=11.0)
    assert not rests.puts_off(KEY, now=11.0)
    assert rests.next_s() is None
