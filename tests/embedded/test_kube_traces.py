"""The embedded API server against recorded responses of a real one (kube_traces.json)."""

import json
from typing import Any

import pytest

from tests.embedded.kube_random import random_scenario
from tests.embedded.kube_trace import RECORDED, Embedded, Step, trace
from tests.embedded.kube_workloads import SCENARIOS

Json = Any


@pytest.fixture(scope="module")
def recorded() -> dict[str, Json]:
    told: dict[str, Json] = json.loads(RECORDED.read_text())
    return told


def test_every_scenario_was_recorded(recorded: dict[str, Json]) -> None:
    assert list(recorded) == list(SCENARIOS)


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_embedded_server_answers_as_the_recorded_real_one(
    recorded: dict[str, Json], name: str
) -> None:
    told = trace(Embedded(), SCENARIOS[name])
    for number, (ours, theirs) in enumerate(zip(told, recorded[name], strict=True)):
        assert ours == theirs, f"step {number}: {SCENARIOS[name][number]}"


@pytest.mark.parametrize("seed", range(20))
def test_returned_objects_never_change(seed: int) -> None:
    """Responses, events and snapshots share parts, so a write must copy what it changes."""
    server = Embedded()
    frozen: list[tuple[Json, str]] = []
    for step in random_scenario(seed):
        trace(
            server,
            [Step(path="/version")] if "$" in json.dumps([step.body, step.query]) else [step],
        )
        for plural in ("nodes", "pods"):
            for row in server.kube.backup().rows[plural].values():
                frozen.append((row.an_object, json.dumps(row.an_object)))
    assert all(json.dumps(an_object) == text for an_object, text in frozen)
