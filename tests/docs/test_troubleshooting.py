"""docs/troubleshooting.md has an entry for each alert, Event, condition and warning in the log."""

import re

import pytest
import yaml

from sunk_sync.core.model.condition_kinds import CONDITIONS
from sunk_sync.core.model.event_kinds import EVENTS
from sunk_sync.telemetry.log_events import LOG_EVENTS
from tests.docs.pages import DOCS, ROOT, text_of
from tools.reference import log_anchor

ALERTS = ROOT / "deploy" / "helm" / "sunk-sync" / "files" / "alerts.yaml"
PAGE = text_of(DOCS / "troubleshooting.md")
ROW = re.compile(r"^\| (?=<a id=)(?P<seen>.*?) \| (?P<means>[^|]+) \| (?P<do>[^|]+) \|$", re.M)


def alerts() -> set[str]:
    (group,) = yaml.safe_load(ALERTS.read_text())["groups"]
    return {rule["alert"] for rule in group["rules"]}


def events() -> set[str]:
    return {event.reason for event in EVENTS}


def types() -> set[str]:
    return {kind.type for kind in CONDITIONS}


def reasons() -> set[str]:
    return {meaning.reason for kind in CONDITIONS for meaning in kind.meanings}


def loud() -> set[str]:
    """Return each log event that can be a warning or an error."""
    return {one.name for one in LOG_EVENTS if {"warning", "error"} & {*one.levels}}


ENTRIES = sorted(alerts() | events() | types() | reasons())
LOUD = sorted(loud())


def row_of(anchor: str) -> re.Match[str]:
    (row,) = [one for one in ROW.finditer(PAGE) if f'<a id="{anchor}"></a>' in one["seen"]]
    return row


@pytest.mark.parametrize("name", ENTRIES)
def test_each_alert_event_and_condition_has_an_entry(name: str) -> None:
    assert re.search(rf"\b{name}\b", row_of(name.lower())["seen"])


@pytest.mark.parametrize("name", LOUD)
def test_each_log_event_of_level_warning_and_above_has_an_entry(name: str) -> None:
    assert f"`{name}`" in row_of(log_anchor(name))["seen"]


def test_no_entry_is_about_a_name_that_is_gone() -> None:
    anchors = re.findall(r'<a id="([^"]+)">', PAGE)
    known = [*(name.lower() for name in ENTRIES), *map(log_anchor, LOUD)]
    assert sorted(anchors) == sorted(known)
    print(f"{len(anchors)} entries")


def sections_of_doctor() -> list[str]:
    """A finding of doctor leads to its section (`tests/cli/test_doctor.py`)."""
    return text_of(DOCS / "doctor.md").split("\n## ")[1:]


@pytest.mark.parametrize("section", sections_of_doctor(), ids=lambda text: text.splitlines()[0])
def test_each_section_of_doctor_leads_to_an_entry(section: str) -> None:
    anchors = re.findall(r"troubleshooting\.md#([\w-]+)", section)
    headings = {found.lower().replace(" ", "-") for found in re.findall(r"^## (.+)$", PAGE, re.M)}
    assert anchors
    assert {*anchors} <= {*re.findall(r'<a id="([^"]+)">', PAGE)} | headings


def test_each_link_of_the_generated_tables_leads_to_an_entry() -> None:
    links = re.findall(r"\(troubleshooting\.md#([\w-]+)\)", text_of(DOCS / "reference.md"))
    assert {*links} <= {*re.findall(r'<a id="([^"]+)">', PAGE)}
    assert len(links) > 80
