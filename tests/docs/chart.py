"""The values of the Helm chart, by which pages are checked."""

from collections.abc import Iterator
from typing import Any

import yaml

from sunk_sync.settings.model import FIELDS, key_of
from tests.docs.pages import ROOT

VALUES: dict[str, Any] = yaml.safe_load(
    (ROOT / "deploy" / "helm" / "sunk-sync" / "values.yaml").read_text()
)
FREE = {"userPolicy", "labels", "annotations", "nodes"}
"""Values whose keys the user chooses."""


def is_value(values: Any, name: str) -> bool:
    """Whether the chart has a value of this name, such as `slurm.apiBase`."""
    first, _, rest = name.partition(".")
    if first == "settings":
        return rest in {key_of(field) for field in FIELDS}
    if not isinstance(values, dict) or first not in values:
        return False
    return not rest or is_value(values[first], rest)


def is_values(text: str) -> bool:
    """Whether a YAML text begins with values of the chart."""
    (first, *_) = [*yaml.safe_load_all(text), None]
    return isinstance(first, dict) and bool(first) and first.keys() <= VALUES.keys()


def unknown(values: dict[str, Any]) -> list[str]:
    """Return the names that the chart does not have."""
    return [name for name in _names(values) if not is_value(VALUES, name)]


def _names(values: dict[str, Any], under: str = "") -> Iterator[str]:
    for name, value in values.items():
        if isinstance(value, dict) and name not in FREE:
            yield from _names(value, f"{under}{name}.")
        else:
            yield f"{under}{name}"
