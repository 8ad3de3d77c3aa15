"""The pause in the Lease: its text, its end, and what the loop is told."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
import structlog

from sunk_sync.core.model.facts import News
from sunk_sync.core.model.restraint import Paused
from sunk_sync.server.operators import PauseOrder, PauseState, Problem
from sunk_sync.service.pausing import Pause, Pausing, annotation, read_annotation
from sunk_sync.telemetry.telemetry import Telemetry

NOON = datetime(2026, 11, 26, 12, 0, tzinfo=UTC)
TELEMETRY = Telemetry(structlog.get_logger())


class Lease:
    """Stands for the part of Leadership that keeps the annotation."""

    def __init__(self) -> None:
        self.paused = ""
        self.failure = ""

    async def set_paused(self, text: str) -> str:
        if not self.failure:
            self.paused = text
        return self.failure


class Bench:
    def __init__(self, *, elects: bool = True) -> None:
        self.lease = Lease()
        self.now = NOON
        self.told: list[News] = []
        self.pausing = Pausing(
            cast(Any, self.lease) if elects else None,
            self.tell,
            alarms=TELEMETRY.alarm_gauges,
            wall_clock=lambda: self.now,
        )

    async def tell(self, news: Sequence[News]) -> None:
        self.told += news

    @property
    def metric(self) -> float:
        return TELEMETRY.figures["sunk_sync_paused"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", None),
        ("  \n", None),
        ("2026-11-26T13:00:00Z an upgrade", "paused until 2026-11-26T13:00:00Z: an upgrade"),
        ("2026-11-26T14:00:00+01:00", "paused until 2026-11-26T13:00:00Z"),
        ("2026-11-26T13:00:00", "paused until 2026-11-26T13:00:00Z"),
        ("-", "paused until resumed"),
        ("- fan broken", "paused until resumed: fan broken"),
        ("true", "paused until resumed: true"),
        ("Ask Jo first", "paused until resumed: Ask Jo first"),
        ("- " + "x" * 999, "paused until resumed: " + "x" * 298),
    ],
)
def test_each_text_of_a_person_is_a_pause(text: str, sentence: str | None) -> None:
    pause = read_annotation(text)
    assert (pause and pause.sentence()) == sentence


@pytest.mark.parametrize("pause", [Pause(NOON, "why so"), Pause(None, ""), Pause(None, "a b")])
def test_the_annotation_is_read_back(pause: Pause) -> None:
    assert read_annotation(annotation(pause)) == pause


async def test_a_pause_begins_with_the_order_and_ends_at_its_time() -> None:
    bench = Bench()
    answer = await bench.pausing.order(PauseOrder(for_s=60.0, why="upgrade\n of Slurm"))
    why = "paused until 2026-11-26T12:01:00Z: upgrade of Slurm"
    assert answer == PauseState(paused=why)
    assert bench.told == [Paused(why)]
    assert bench.metric == 1
    bench.now += timedelta(seconds=59)
    await bench.pausing.look()
    assert bench.told == [Paused(why)]
    bench.now += timedelta(seconds=1)
    await bench.pausing.look()
    assert bench.told == [Paused(why), Paused("")]
    assert bench.metric == 0


async def test_resume_ends_a_pause_that_another_replica_began() -> None:
    bench = Bench()
    bench.lease.paused = "- upgrade"
    await bench.pausing.look()
    assert await bench.pausing.order(None) == PauseState(paused="")
    assert bench.told == [Paused("paused until resumed: upgrade"), Paused("")]


async def test_a_lease_that_cannot_be_written_is_said() -> None:
    bench = Bench()
    bench.lease.failure = "Lease slurm/sunk-sync-slurm: forbidden"
    answer = await bench.pausing.order(PauseOrder())
    assert answer == Problem(502, "Lease slurm/sunk-sync-slurm: forbidden")
    assert bench.told == []


async def test_without_an_election_there_is_no_pause() -> None:
    answer = await Bench(elects=False).pausing.order(PauseOrder())
    assert isinstance(answer, Problem)
    assert "--leader-elect, which is off" in answer.why
