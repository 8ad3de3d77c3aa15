"""The code blocks of the documentation can be read, and its manifests are valid."""

import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from sunk_sync.core.model.config import Configuration
from sunk_sync.core.translate.job_spec import Invalid, describe
from sunk_sync.service.wiring import configuration_of
from sunk_sync.settings import sources
from tests.docs import chart, crd
from tests.docs.pages import ROOT, Block, blocks, named
from tests.kit.pod_rows import row

EVERY = blocks()
CUT = "…"
"""The end of a line that a page shortens."""
PART = "part of a NodeSet"
A_JOB = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "controller": True}


def of_language(name: str) -> list[Block]:
    return [one for one in EVERY if one.language == name]


def manifests() -> Iterator[tuple[str, Any]]:
    """Yield each object in a code block or an example. A block of a spec is a part of a NodeSet."""
    for file in sorted((ROOT / "deploy" / "examples").glob("*.yaml")):
        for made in yaml.safe_load_all(file.read_text(encoding="utf-8")):
            yield named(file), made
    for block in of_language("yaml"):
        for made in yaml.safe_load_all(block.text):
            if isinstance(made, dict) and {"apiVersion", "kind"} <= made.keys():
                yield block.place, made
            elif isinstance(made, dict) and made.keys() == {"spec"}:
                yield block.place, {"kind": PART, "spec": made["spec"]}


def of_kind(kind: str) -> list[tuple[str, Any]]:
    return [(place, made) for place, made in manifests() if made["kind"] == kind]


def pods() -> Iterator[tuple[str, Any]]:
    """Yield the metadata and spec of each Pod that Slurm schedules, also inside other kinds."""
    for place, made in manifests():
        for found in _templates(made):
            if found["spec"].get("schedulerName", "").startswith("slurm-"):
                yield place, found


def _templates(made: Any) -> Iterator[Any]:
    if isinstance(made, list):
        for one in made:
            yield from _templates(one)
    if isinstance(made, dict):
        if "containers" in made.get("spec", {}):
            yield {"metadata": made.get("metadata", {}), "spec": made["spec"]}
        for one in made.values():
            yield from _templates(one)


PODS = list(pods())
NODE_SETS = [*of_kind("NodeSet"), *of_kind(PART)]
each = partial(pytest.mark.parametrize, ids=lambda one: one if isinstance(one, str) else "")


@each("block", of_language("yaml"))
def test_each_yaml_block_can_be_read(block: Block) -> None:
    assert list(yaml.safe_load_all(block.text)), block.place


@each("block", of_language("json"))
def test_each_json_block_can_be_read(block: Block) -> None:
    """A block has one JSON text, or one in each line; a line may be cut."""
    lines = [line for line in block.text.splitlines() if not line.endswith(CUT)]
    for text in [block.text] if block.text.startswith("{\n") else lines:
        assert isinstance(json.loads(text), dict), block.place


def test_no_manifest_stands_in_a_block_of_no_language() -> None:
    """Else nothing here looks at it. Commands and their outputs may show one."""
    begins = re.compile(r"(?:apiVersion|kind|spec|metadata): ?")
    assert not [one.place for one in of_language("") if begins.match(one.text)]


@each(("place", "made"), NODE_SETS)
def test_each_node_set_is_valid(place: str, made: Any) -> None:
    found = list(crd.mistakes(made, crd.schema()))
    wrong = [one for one in found if made["kind"] != PART or "is missing" not in one]
    assert not wrong, place


def test_a_wrong_node_set_is_found() -> None:
    wrong = {"spec": {"replicas": "2", "weigth": 1, "scalingMode": "Other"}}
    found = sorted(crd.mistakes(wrong, crd.schema()))
    assert [text.partition(":")[0] for text in found] == [
        ".spec.replicas",
        ".spec.scalingMode",
        ".spec.template",
        ".spec.weigth",
    ]


def default_configuration() -> Configuration:
    settings = sources.load({}, {}, "slurm")
    return configuration_of(settings, cluster_uid="uid")


@each(("place", "made"), PODS)
def test_sunk_sync_submits_a_job_for_each_pod(place: str, made: Any) -> None:
    """With the default settings. A Job controls the Pod, as it does in a Job or JobSet."""
    metadata = {"labels": {}, "ownerReferences": [A_JOB], **made["metadata"]}
    pod = row(spec=made["spec"], **metadata)
    found = describe([pod], default_configuration())
    assert not isinstance(found, Invalid), (place, found)


@each("block", [one for one in of_language("yaml") if chart.is_values(one.text)])
def test_each_block_with_values_of_the_chart_is_valid(block: Block, tmp_path: Path) -> None:
    values = yaml.safe_load(block.text)
    assert not chart.unknown(values), block.place
    file = tmp_path / "settings.yaml"
    file.write_text(yaml.safe_dump(values.get("settings", {})))
    assert sources.load({"config": str(file)}, {}, "slurm")


def test_the_pages_have_manifests() -> None:
    print(f"{len(EVERY)} code blocks, {len(NODE_SETS)} NodeSets, {len(PODS)} Pods")
    assert len(NODE_SETS) >= 4
    assert len(PODS) >= 16
