"""The schema of the kind NodeSet, and what is wrong with an object by it."""

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import yaml

from tests.docs.pages import ROOT

CRD = ROOT / "deploy" / "nodesets" / "crd.yaml"
KINDS: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "boolean": bool,
    "number": (int, float),
}


@cache
def schema() -> Any:
    (version,) = yaml.safe_load(CRD.read_text())["spec"]["versions"]
    return version["schema"]["openAPIV3Schema"]


def mistakes(value: Any, rules: Any, *, where: str = "") -> Iterator[str]:
    """Yield each mistake, as the API server finds it by the schema; it also evaluates the rules."""
    if rules.get("x-kubernetes-int-or-string"):
        if not isinstance(value, int | str):
            yield f"{where}: neither a number nor a text"
        return
    kind = rules.get("type")
    if kind and not isinstance(value, KINDS[kind]):
        yield f"{where}: no {kind}"
        return
    if isinstance(value, dict):
        yield from _of_fields(value, rules, where)
    elif isinstance(value, list):
        for index, one in enumerate(value):
            yield from mistakes(one, rules.get("items", {}), where=f"{where}[{index}]")
    else:
        yield from _of_value(value, rules, where)


def _of_fields(value: dict[str, Any], rules: Any, where: str) -> Iterator[str]:
    known = rules.get("properties", {})
    more = rules.get("additionalProperties")
    for name in set(rules.get("required", ())) - value.keys():
        yield f"{where}.{name}: is missing"
    for name, one in value.items():
        if name in known or more:
            yield from mistakes(one, known.get(name, more), where=f"{where}.{name}")
        elif where not in ("", ".metadata") and not rules.get(
            "x-kubernetes-preserve-unknown-fields"
        ):
            yield f"{where}.{name}: unknown"


def _of_value(value: Any, rules: Any, where: str) -> Iterator[str]:
    if value not in rules.get("enum", [value]):
        yield f"{where}: {value!r} is none of {rules['enum']}"
    if isinstance(value, str) and not re.search(rules.get("pattern", ""), value):
        yield f"{where}: {value!r} has not the form {rules['pattern']}"
    if isinstance(value, int) and not (
        rules.get("minimum", value) <= value <= rules.get("maximum", value)
    ):
        yield f"{where}: {value} is out of bounds"
