"""What the chart takes from elsewhere is up to date, and every value is described and checked."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from sunk_sync import __version__
from sunk_sync.settings.model import FIELDS, key_of
from tools import chart

VALUES = yaml.safe_load((chart.CHART / "values.yaml").read_text(encoding="utf-8"))
SCHEMA = json.loads((chart.CHART / "values.schema.json").read_text(encoding="utf-8"))
FREE = {"type": "object"}
"""The schema of a map that Kubernetes checks."""


@pytest.mark.parametrize("path", chart.made(), ids=lambda path: path.name)
def test_a_file_that_a_tool_makes_is_up_to_date(path: Path) -> None:
    """Otherwise run `python -m tools.chart`."""
    assert path.read_text(encoding="utf-8") == chart.made()[path]


def test_the_chart_has_no_script_that_deploy_slurm_has_not() -> None:
    """Each is a copy: a chart cannot contain files of its parent folders."""
    here = {path.name for path in (chart.CHART / "files").glob("*.sh")}
    assert here == set(chart.scripts())


def test_every_value_has_a_comment_that_ends() -> None:
    """`values` raises if one has none."""
    for _, section in chart.values():
        for value in section:
            assert value.text.endswith("."), value.path


def keys(values: Any, schema: Any) -> set[str]:
    """Paths of values that stand in one of the two alone."""
    properties = schema.get("properties", {})
    if not isinstance(values, dict) or schema.get("additionalProperties", True) is not False:
        return set()
    wrong = set(values) ^ set(properties)
    for name in set(values) & set(properties):
        wrong |= {f"{name}.{below}" for below in keys(values[name], properties[name])}
    return wrong


def test_the_schema_has_exactly_the_values_of_the_chart() -> None:
    """Helm adds `global` to a chart that another chart uses. `settings` is empty by default."""
    wrong = keys(VALUES, SCHEMA)
    settings = {f"settings.{name}" for name in SCHEMA["properties"]["settings"]["properties"]}
    assert wrong == {"global"} | settings


def test_the_schema_refuses_unknown_keys_everywhere_but_in_free_maps() -> None:
    """A free map is a piece of Kubernetes, or labels."""
    open_maps = set()

    def visit(schema: Any, path: str) -> None:
        if schema.get("type") != "object" or "additionalProperties" not in schema:
            assert "properties" not in schema, path
        if schema == FREE:
            open_maps.add(path)
        for name, below in schema.get("properties", {}).items():
            visit(below, f"{path}.{name}".lstrip("."))

    visit(SCHEMA, "")
    assert open_maps == {
        *("slurm.auth.volume", "resources", "affinity", "podSecurityContext", "securityContext"),
        "global",
    }


def test_every_setting_is_a_value_or_the_chart_s_own() -> None:
    """A new setting is in `settings` after `python -m tools.chart`."""
    free = set(SCHEMA["properties"]["settings"]["properties"])
    assert free | set(chart.OWN_VALUES) == {key_of(field) for field in FIELDS}
    assert not free & set(chart.OWN_VALUES)
    paths = {value.path for _, section in chart.values() for value in section}
    for value in filter(None, chart.OWN_VALUES.values()):
        assert any(path == value or path.startswith(f"{value}.") for path in paths), value


def test_the_version_is_that_of_the_package() -> None:
    """The appVersion is the default tag of the image."""
    described = yaml.safe_load((chart.CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert described["version"] == described["appVersion"] == __version__
