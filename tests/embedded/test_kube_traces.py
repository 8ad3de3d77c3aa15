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
    traces: dict[str, Json] = json.loads(RECORDED.read_text())
    return traces


def test_every_scenario_was_recorded(recorded: dict[str, Json]) -> None:
    assert list(recorded) == list(SCENARIOS)


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_embedded_server_answers_as_the_recorded_real_one(
    recorded: dict[str, Json], name: str
) -> None:
    answers = trace(Embedded(), SCENARIOS[name])
    for number, (ours, theirs) in enumerate(zip(answers, recorded[name], strict=True)):
        assert ours == theirs, f"step {number}: {SCENARIOS[name][number]}"


@pytest.mark.parametrize("seed", range(20))
def test_returned_objects_never_change(seed: int) -> None:
    """Responses, events and snapshots share parts of objects."""
    server = Embedded()
    frozen: list[tuple[Json, str]] = []
    for step in random_scenario(seed):
        depends = "$" in json.dumps([step.body, step.query])  # on earlier responses
        trace(server, [Step(path="/version") if depends else step])
        rows = server.kube.backup().rows
        for row in (*rows["nodes"].values(), *rows["pods"].values()):
            frozen.append((row.an_object, json.dumps(row.an_object)))
    assert all(json.dumps(an_object) == text for an_object, text in frozen)
