"""Alerts and dashboards name metrics that exist, and each alert has its section in the docs."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from sunk_sync.telemetry.metrics import SPECS
from tools import dashboards

ROOT = Path(__file__).parents[2]
FILES = ROOT / "deploy" / "helm" / "sunk-sync" / "files"
PAGE = (ROOT / "docs" / "alerts.md").read_text()
(GROUP,) = yaml.safe_load((FILES / "alerts.yaml").read_text())["groups"]
ALERTS: list[dict[str, Any]] = GROUP["rules"]
OF_THE_CLIENT = {"process_cpu_seconds_total", "process_resident_memory_bytes"}
WORDS = re.compile(
    r"\b(?:sunk_sync|kube_sunk|slurm|workqueue|rest_client|leader_election|process)_\w+"
)


def known() -> set[str]:
    names = {spec.name for spec in SPECS}
    more = {f"{name}_bucket" for name in names}
    return names | more | OF_THE_CLIENT


def queries() -> list[tuple[str, str]]:
    """Return every query of an alert or a panel, with its place."""
    found = [(alert["alert"], alert["expr"]) for alert in ALERTS]
    for name in dashboards.DASHBOARDS:
        for panel in dashboards.dashboard(name)["panels"]:
            found += [(panel["title"], target["expr"]) for target in panel["targets"]]
    return found


@pytest.mark.parametrize(("place", "query"), queries())
def test_each_query_names_metrics_that_exist(place: str, query: str) -> None:
    asked = set(WORDS.findall(query)) - {"sunk_sync"}
    assert asked, place
    assert asked <= known()


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: str(alert["alert"]))
def test_each_alert_has_a_severity_a_sentence_and_a_section(alert: dict[str, Any]) -> None:
    name = alert["alert"]
    assert alert["labels"]["severity"] in ("critical", "warning", "info")
    assert alert["annotations"]["summary"]
    assert alert["annotations"]["description"].endswith(".")
    assert alert["annotations"]["runbook"] == f"docs/alerts.md#{name.lower()}"
    section = PAGE.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
    assert "**Do**" in section


def test_no_section_is_about_an_alert_that_is_gone() -> None:
    assert re.findall(r"^## (\w+)$", PAGE, re.M) == [alert["alert"] for alert in ALERTS]


@pytest.mark.parametrize("name", dashboards.DASHBOARDS)
def test_the_dashboards_are_made_from_the_tool(name: str) -> None:
    """Otherwise run `python -m tools.dashboards`."""
    assert (FILES / f"dashboard-{name}.json").read_text() == dashboards.made(name)


@pytest.mark.parametrize("name", dashboards.DASHBOARDS)
def test_no_two_panels_lie_upon_each_other(name: str) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in json.loads(dashboards.made(name))["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < dashboards.WIDTH
        taken |= cells
