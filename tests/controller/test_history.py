"""The last things that happened to a key, in bounded memory."""

from sunk_sync.controller.history import KEPT, KEYS_MAX, History
from sunk_sync.core.model.actions import Drain
from sunk_sync.core.model.facts import Reference
from sunk_sync.core.model.keys import host_key
from sunk_sync.core.model.lock_actions import GetNodePods
from sunk_sync.core.model.outcomes import Done
from sunk_sync.core.model.verdict import Kept

KEY = host_key("n1")
DRAIN = Drain("n1", "k8s: node cordoned")


def test_only_a_changed_decision_is_noted() -> None:
    history = History()
    for now, because in enumerate(("in sync", "drained", "drained", "in sync")):
        history.decided(KEY, because, now=now)
    assert [(one.at_s, one.what) for one in history.of(KEY)] == [(1, "drained"), (3, "in sync")]


def test_held_and_answered_writes_are_noted_with_their_action() -> None:
    history = History()
    history.held(KEY, Kept(DRAIN, "dry run"), now=1.0)
    history.answered(KEY, Done(DRAIN), now=2.0)
    assert [one.what for one in history.of(KEY)] == [Kept(DRAIN, "dry run"), Done(DRAIN)]


def test_a_read_that_is_repeated_while_a_lock_waits_is_noted_once() -> None:
    history, node = History(), Reference("Node", "", "n1", "u")
    history.answered(KEY, Done(DRAIN), now=0.0)
    for now in range(1, 100):
        history.answered(KEY, Done(GetNodePods(node, "", "", float(now))), now=float(now))
    assert [one.at_s for one in history.of(KEY)] == [0.0, 99.0]
    assert len(history.recent) == 2


def test_the_last_ten_of_a_key_are_kept() -> None:
    history = History()
    for now in range(KEPT + 5):
        history.decided(KEY, f"decision {now}", now=now)
    assert [one.at_s for one in history.of(KEY)] == list(range(5, KEPT + 5))


def test_of_too_many_keys_the_quietest_is_forgotten() -> None:
    history = History()
    for number in range(KEYS_MAX):
        history.decided(("host", str(number)), "drained", now=0.0)
    history.decided(("host", "0"), "undrained", now=1.0)
    history.decided(("host", "new"), "drained", now=2.0)
    assert history.of(("host", "1")) == ()
    assert len(history.of(("host", "0"))) == 2


def test_a_key_without_news_costs_no_memory() -> None:
    history = History()
    history.decided(KEY, "in sync", now=1.0)
    assert history.of(KEY) == ()
