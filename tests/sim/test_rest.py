"""Convergence if the mark is older than the last read, and if two Pods claim one node."""

from collections.abc import Sequence

import pytest

from tests.sim import conflicts, words
from tests.sim.checks import Checks
from tests.sim.doings import add_pod, controller, delete_pod, select
from tests.sim.history import BrokenPromiseError
from tests.sim.stage import Scenario, Step, play
from tests.sim.words import Object

RENEWED: Sequence[Step] = (
    (1, controller(up=False)),
    (1, delete_pod("n1", grace_s=0)),
    (0, add_pod("n1", "k1")),
    (3, select("n1", on=False)),
    (5, controller(up=True)),
)
"""The mark names the first Pod. The service read the second one, which then left the selector."""


def _play(*steps: Step, n1: str | None) -> None:
    play(Scenario(rows="S7", steps=(*RENEWED, *steps), end={"n1": n1}))


def test_a_later_pod_that_the_service_read_overrides_the_mark_S7() -> None:
    """Seed 31015."""
    _play(n1=None)


def test_a_later_pod_that_is_gone_counts_as_gone_S7() -> None:
    _play((9, delete_pod("n1", grace_s=0)), n1="k8s: pod terminated")


def test_without_the_later_pod_the_mark_requires_the_drain_S7(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Checks, "told_pods", lambda *_: ())
    with pytest.raises(BrokenPromiseError, match="pod terminated"):
        _play(n1=None)


def _pod(name: str, *, claims: str, node: str, message: str = "", phase: str = "Running") -> Object:
    annotations = {words.SLURM_NODE: claims}
    metadata = {"name": name, "namespace": "slurm", "uid": f"uid-{name}"}
    condition = {"type": conflicts.CONFLICT, "status": "True", "message": message}
    status = {"phase": phase, "conditions": [condition] if message else []}
    return {
        "metadata": metadata | {"annotations": annotations},
        "spec": {"nodeName": node},
        "status": status,
    }


def _event(name: str, message: str) -> Object:
    involved = {"uid": f"uid-{name}"}
    return {"reason": conflicts.CONFLICT, "message": message, "involvedObject": involved}


BOTH = "slurm/a and slurm/b"
CONFLICTS: dict[str, tuple[list[Object], list[str]]] = {
    "two claim one Slurm node": (
        [_pod("a", claims="n1", node="k1"), _pod("b", claims="n1", node="k2")], ["n1"],
    ),
    "two on one Node claim two": (
        [_pod("a", claims="n1", node="k1"), _pod("b", claims="n2", node="k1")], ["n1", "n2"],
    ),
    "each its own": (
        [_pod("a", claims="n1", node="k1"), _pod("b", claims="n2", node="k2")], [],
    ),
    "one of them ended": (
        [_pod("a", claims="n1", node="k1"), _pod("b", claims="n1", node="k2", phase="Failed")], [],
    ),
    "two that wait for a Node": (
        [_pod("a", claims="n1", node=""), _pod("b", claims="n2", node="")], [],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CONFLICTS)
def test_a_conflict_is_found_for_each_slurm_node_S16(case: str) -> None:
    pods, names = CONFLICTS[case]
    assert [one.slurm_node for one in conflicts.conflicts(pods)] == names


@pytest.mark.parametrize(
    ("condition", "event", "missing"),
    [(BOTH, BOTH, 0), (BOTH, "slurm/a", 1), ("slurm/a", BOTH, 1), ("", "", 2)],
)
def test_every_claimant_names_every_rival_in_its_condition_and_in_an_event_S16(
    condition: str, event: str, missing: int
) -> None:
    pods = [_pod(name, claims="n1", node=f"k{name}", message=condition) for name in ("a", "b")]
    (conflict,) = conflicts.conflicts(pods)
    events = [_event(name, event) for name in ("a", "b")]
    assert len(list(conflicts.unreported(conflict, events))) == 2 * missing


def test_an_unreported_conflict_is_a_deviation_S16(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sunk_sync.core.rules.host.conflict._conditions", lambda *_: ())
    conflict = (1, add_pod("rival1", "k2", claims="n1"))
    with pytest.raises(BrokenPromiseError, match="S16"):
        play(Scenario(rows="S16", steps=(conflict,), end={}))
