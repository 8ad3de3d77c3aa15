"""The rules that every Event of sunk-sync keeps, over the table of all of them."""

import ast
import re

import pytest

from sunk_sync.core.model import event_kinds
from sunk_sync.core.model.actions import RecordEvent
from sunk_sync.core.model.event_kinds import EVENTS, EventKind
from sunk_sync.core.model.facts import Reference
from sunk_sync.kube.write.events import event_of
from tests.docs.pages import ROOT

SOURCES = sorted((ROOT / "sunk_sync").rglob("*.py"))
POD = Reference("Pod", "team-a", "train-0", "u")
INFORMS = {
    "CreatingPods",
    "EndingPods",
    "NodeSetDeleted",
    "ScaledIn",
    "ScaledOut",
    "Scheduled",
    "SlurmJobReplaced",
    "SlurmJobsRequeued",
    "SlurmNodeNotRegistered",
    "UpdateBegun",
    "UpdateEnded",
}
"""sunk-sync goes on by itself: nobody must act."""

each_event = pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.reason)


def written(event: EventKind, message: str = "text") -> dict[str, object]:
    return event_of(RecordEvent(POD, event, message), at="2026-11-25T10:00:00Z")


@each_event
def test_an_event_has_what_kubernetes_asks_of_reason_action_and_controller(
    event: EventKind,
) -> None:
    body = written(event)
    assert re.fullmatch(r"(?:[A-Z][a-z]*)+", event.reason)
    assert len(event.reason) <= 128
    assert re.fullmatch(r"[A-Z][a-z]+ing", event.action)
    assert body["action"] == event.action
    assert body["reportingComponent"] == "sunk-sync"
    assert (body["type"], body["reason"]) == (event.type, event.reason)


@each_event
def test_only_an_event_that_somebody_must_act_on_is_a_warning(event: EventKind) -> None:
    assert (event.type == "Normal") == (event.reason in INFORMS)


@each_event
def test_a_message_has_at_most_1024_bytes_whatever_its_characters(event: EventKind) -> None:
    for long in ("x" * 5000, "ä" * 5000, "…" * 5000):
        message = str(written(event, long)["message"])
        assert 1000 < len(message.encode()) <= 1024


@each_event
def test_the_row_says_who_gets_the_event_when_it_repeats_and_what_it_means(
    event: EventKind,
) -> None:
    assert event.on
    assert event.repeats
    assert not event.repeats.endswith(".")
    assert event.text.endswith(".")


def test_no_two_events_have_one_reason() -> None:
    assert len({event.reason for event in EVENTS}) == len(EVENTS)


def test_every_event_of_the_table_is_recorded_by_a_rule_and_only_the_table_makes_kinds() -> None:
    rows = {name for name, value in vars(event_kinds).items() if isinstance(value, EventKind)}
    used: set[str] = set()
    for path in SOURCES:
        if path.stem == "event_kinds":
            continue
        assert "EventKind(" not in path.read_text(), path
        if "rules" in path.parts or path.stem == "why_waiting":
            used |= {
                node.id
                for node in ast.walk(ast.parse(path.read_text()))
                if isinstance(node, ast.Name)
            }
    assert used & rows == rows
