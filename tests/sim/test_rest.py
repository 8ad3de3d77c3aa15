"""What must hold at rest, where our process knows more than the mark, and where two claim one."""

from collections.abc import Sequence

import pytest

from tests.sim import rivals, words
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
"""Slurm names the first Pod, our process saw the second, which then left the selector."""


def _play(*steps: Step, n1: str | None) -> None:
    play(Scenario(rows="S7", steps=(*RENEWED, *steps), end={"n1": n1}))


def test_S7_a_later_pod_that_our_process_saw_counts_more_than_the_mark() -> None:
    """It exists, so it is not gone (found by seed 31015)."""
    _play(n1=None)


def test_S7_a_later_pod_that_is_gone_too_is_gone() -> None:
    """The mark's Pod is not there, and the later one neither."""
    _play((9, delete_pod("n1", grace_s=0)), n1="k8s: pod terminated")


def test_S7_only_what_our_process_was_shown_excuses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """An onlooker that knows of no later Pod asks for the drain that the mark demands."""
    monkeypatch.setattr(Checks, "last_told", lambda *_: None)
    with pytest.raises(BrokenPromiseError, match="pod terminated"):
        _play(n1=None)


def _pod(name: str, *, claims: str, node: str, told: str = "", phase: str = "Running") -> Object:
    condition = {"type": rivals.CONFLICT, "status": "True", "message": told}
    return {
        "metadata": {
            "name": name,
            "namespace": "slurm",
            "uid": f"uid-{name}",
            "annotations": {words.SLURM_NODE: claims},
        },
        "spec": {"nodeName": node},
        "status": {"phase": phase, "conditions": [condition] if told else []},
    }


def _event(name: str, message: str) -> Object:
    return {
        "reason": rivals.CONFLICT,
        "message": message,
        "involvedObject": {"uid": f"uid-{name}"},
    }


BOTH = "slurm/a and slurm/b"
QUARRELS: dict[str, tuple[list[Object], list[str]]] = {
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


@pytest.mark.parametrize("case", QUARRELS)
def test_S16_who_quarrels(case: str) -> None:
    """By Slurm node."""
    pods, names = QUARRELS[case]
    assert [one.slurm_node for one in rivals.quarrels(pods)] == names


@pytest.mark.parametrize(
    ("told", "event", "missing"),
    [(BOTH, BOTH, 0), (BOTH, "slurm/a", 1), ("slurm/a", BOTH, 1), ("", "", 2)],
)
def test_S16_every_claimant_is_told_of_every_rival(told: str, event: str, missing: int) -> None:
    """By a condition and by an Event, each for itself."""
    pods = [_pod(name, claims="n1", node=f"k{name}", told=told) for name in ("a", "b")]
    (quarrel,) = rivals.quarrels(pods)
    events = [_event(name, event) for name in ("a", "b")]
    assert len(list(rivals.untold(quarrel, events))) == 2 * missing


def test_S16_an_untold_quarrel_is_no_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody is told, the simulator says so."""
    monkeypatch.setattr("sunk_sync.core.rules.host.conflict._conditions", lambda *_: ())
    quarrel = (1, add_pod("rival1", "k2", claims="n1"))
    with pytest.raises(BrokenPromiseError, match="S16"):
        play(Scenario(rows="S16", steps=(quarrel,), end={}))
