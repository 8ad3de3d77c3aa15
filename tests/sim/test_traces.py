"""The traces of simulated Pods, with all faults and crashes of the service."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from sunk_sync.telemetry.pod_phases import ROOT
from sunk_sync.telemetry.spans import Span
from sunk_sync.telemetry.traces import PodTraces
from tests.sim import life
from tests.sim.workloads.run import run_seed

SEEDS = range(12)
EPOCH_NS = 10**18


class Log:
    """Takes the one line of a defect."""

    def __init__(self) -> None:
        self.errors: list[Any] = []

    def error(self, event: str, **fields: Any) -> None:
        self.errors.append((event, fields))


def test_the_traces_of_each_process_are_sound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Crashes begin new processes; each has at most one root for a Pod, after its other spans."""
    log, lives = Log(), list[list[Span]]()

    class Traced(life.Diary):
        def __init__(self, history: Any) -> None:
            super().__init__(history)
            clock, spans = asyncio.get_running_loop().time, list[Span]()
            lives.append(spans)
            self.traces = PodTraces(
                spans.append,
                log,  # type: ignore[arg-type]
                share=1.0,
                clock=clock,
                wall_ns=lambda: EPOCH_NS + int(clock() * 1e9),
            )

    monkeypatch.setattr(life, "Diary", Traced)
    for seed in SEEDS:
        run_seed(seed)
    assert log.errors == []
    for spans in lives:
        roots = Counter(one.uid for one in spans if one.root)
        assert set(roots.values()) <= {1}
        assert len({(one.uid, one.span_id) for one in spans}) == len(spans)
        assert all(one.start_ns <= one.end_ns for one in spans)
        ended = set[str]()
        for one in spans:
            assert one.uid not in ended, one
            ended |= {one.uid} if one.root else set()
    names = Counter(one.name for spans in lives for one in spans)
    print(names)
    assert names[ROOT] > len(SEEDS)
    assert len(names) >= 8
