"""docs/troubleshooting.md has an entry for each alert, Event and condition."""

import ast
import re
from pathlib import Path

import pytest
import yaml

from sunk_sync.core.model import names
from sunk_sync.core.views import topology_shown
from tests.docs.pages import DOCS, ROOT, text_of

CORE = ROOT / "sunk_sync" / "core"
ALERTS = ROOT / "deploy" / "helm" / "sunk-sync" / "files" / "alerts.yaml"
PAGE = text_of(DOCS / "troubleshooting.md")
REFERENCE = text_of(DOCS / "reference.md")
ROW = re.compile(r"^\| (?=<a id=)(?P<seen>.*?) \| (?P<means>[^|]+) \| (?P<do>[^|]+) \|$", re.M)
NO_REASON = {"True", "False", "Unknown", "Normal", "Warning", "None", "Node"}
"""Words that look like the reason of a condition: states of conditions, types of Events, what Slurm
says without a reason, and a kind."""
_NAME = re.compile(r"(?:[A-Z][a-z]+)+")


def alerts() -> set[str]:
    (group,) = yaml.safe_load(ALERTS.read_text())["groups"]
    return {rule["alert"] for rule in group["rules"]}


def events() -> set[str]:
    listed = (value for name, value in vars(names).items() if name.startswith("EVENT_"))
    return {*listed} - {names.EVENT_COMPONENT}


def types() -> set[str]:
    """Return the types of all conditions that sunk-sync sets."""
    listed = (value for name, value in vars(names).items() if name.endswith("_CONDITION"))
    return {*listed, topology_shown.TYPE, "Available", "Progressing"}


def reasons() -> set[str]:
    """Return each text that can be the reason of a condition, in the files that make conditions."""
    makers = ("Condition(", "EndPod(", "SetScheduled(")
    files = [CORE / "translate" / "job_states.py", *CORE.rglob("rules/**/*.py")]
    files += [path for path in CORE.rglob("views/*.py") if "Condition(" in path.read_text()]
    found: set[str] = set()
    for path in files:
        source = path.read_text()
        if path.stem == "job_states" or any(maker in source for maker in makers):
            found |= _constants(path)
    return found - NO_REASON - types()


def _constants(path: Path) -> set[str]:
    values = (
        node.value
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant)
    )
    return {value for value in values if isinstance(value, str) and _NAME.fullmatch(value)}


ENTRIES = sorted(alerts() | events() | types() | reasons())


@pytest.mark.parametrize("name", ENTRIES)
def test_each_alert_event_and_condition_has_an_entry(name: str) -> None:
    rows = [
        found for found in ROW.finditer(PAGE) if f'<a id="{name.lower()}"></a>' in found["seen"]
    ]
    assert len(rows) == 1
    assert re.search(rf"\b{name}\b", rows[0]["seen"])


def test_no_entry_is_about_a_name_that_is_gone() -> None:
    anchors = re.findall(r'<a id="([^"]+)">', PAGE)
    assert sorted(anchors) == sorted(name.lower() for name in ENTRIES)
    print(f"{len(anchors)} entries")


@pytest.mark.parametrize("event", sorted(events()))
def test_each_event_is_in_the_reference(event: str) -> None:
    assert f"\n| `{event}` |" in REFERENCE


@pytest.mark.parametrize("one", sorted(types()))
def test_each_condition_is_in_the_reference(one: str) -> None:
    assert re.search(rf"`{one}(?:…)?`", REFERENCE)
