"""Annotations and conditions of a workload Pod, and its end."""

import pytest

from sunk_sync.core.model import names
from sunk_sync.core.model.condition import Condition
from sunk_sync.core.model.job_description import SETTINGS
from sunk_sync.core.translate.job_annotations import NODES_BYTES_MAX
from sunk_sync.kube.decode.strings import VALUE_LENGTH_MAX
from sunk_sync.kube.decode.wire_pods import WirePodAnnotations
from tests.kit.pod_rows import Json, asks, row, settings

OVER = {"state": {"terminated": {"exitCode": 0}}}
RUNS: Json = {"state": {"running": {}}}
NEVER = {"restartPolicy": "Never", "containers": [{"name": "a"}, {"name": "b"}]}


def test_every_annotation_of_a_setting_is_read_sorted_and_bounded_P4() -> None:
    given = {name: f"value of {name}" for name in SETTINGS}
    annotated = row(annotations={names.PREFIX + name: value for name, value in given.items()})
    assert annotated.settings == tuple(sorted(given.items()))
    fields = {name.replace("-", "_") for name in SETTINGS}
    assert fields <= set(WirePodAnnotations.__struct_fields__)
    assert row(annotations={"partition": "not ours"}).settings == ()
    long = row(annotations=settings(comment="é" * 80_000, partition=""))
    assert long.settings == (("comment", "é" * (NODES_BYTES_MAX + 1)), ("partition", ""))


def test_our_own_annotations_are_read_back_P17_P23() -> None:
    marks = {names.JOB_ID: "17", names.BOUND_FOR: "16", names.CANCELLED: "17/"}
    marked = row(annotations=marks | {names.RESUBMIT: "x" * 5000})
    assert (marked.job_id, marked.bound_for, marked.cancelled) == ("17", "16", "17/")
    assert marked.resubmit == "x" * VALUE_LENGTH_MAX
    bare = row()
    assert (bare.job_id, bare.bound_for, bare.cancelled, bare.resubmit) == ("", "", "", "")


def test_PodScheduled_and_DisruptionTarget_are_read_and_sorted_P1_P16() -> None:
    conditions = [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "m"},
        {"type": "Ready", "status": "True"},
        {"type": "DisruptionTarget", "status": "True", "reason": "r"},
    ]
    assert row(status={"conditions": conditions}).conditions == (
        Condition("DisruptionTarget", "True", "r", ""),
        Condition("PodScheduled", "False", "Unschedulable", "m"),
    )


@pytest.mark.parametrize(("created", "seconds"), [("2026-11-21T10:00:00Z", 1795255200), (None, 0)])
def test_the_time_of_creation_is_read_P26(created: str | None, seconds: int) -> None:
    assert row(creationTimestamp=created).created_s == seconds


@pytest.mark.parametrize(
    ("spec", "status", "ended"),
    [
        ({}, {"phase": "Succeeded"}, True),
        ({}, {"phase": "Failed"}, True),
        ({}, {"phase": "Unknown"}, False),
        (NEVER, {"phase": "Running", "containerStatuses": [OVER, OVER]}, True),
        (NEVER, {"phase": "Running", "containerStatuses": [OVER, RUNS]}, False),
        (NEVER, {"phase": "Running", "containerStatuses": [OVER]}, False),
        (NEVER, {"phase": "Pending"}, False),
        (NEVER, {"containerStatuses": [OVER, {"state": {"terminated": None}}]}, False),
        (NEVER | {"restartPolicy": "Always"}, {"containerStatuses": [OVER, OVER]}, False),
        (NEVER | {"restartPolicy": "OnFailure"}, {"containerStatuses": [OVER, OVER]}, False),
        (NEVER | {"initContainers": [asks("Always")]}, {"containerStatuses": [OVER, OVER]}, False),
        (
            {"restartPolicy": "Never", "containers": [asks("Always")]},
            {"containerStatuses": [OVER]},
            False,
        ),
    ],
)
def test_ended_means_that_nothing_starts_again_P14(spec: Json, status: Json, ended: bool) -> None:
    assert row(spec, status).ended is ended
