"""Events: equal ones have one name, and one that happens again is counted."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from sunk_sync.core.model.actions import RecordEvent
from sunk_sync.core.model.event_kinds import EVENT_CONFLICT
from sunk_sync.core.model.facts import Reference
from sunk_sync.core.model.outcomes import Done, Outcome, Refused, Unsure
from sunk_sync.kube.write import events
from sunk_sync.kube.write.events import COUNT_PACE_S, EventPush, event_of
from tests.kube.recorded.server import refusal, serving

NODE = Reference("Node", "", "g0", "uid-g0")
POD = Reference("Pod", "slurm", "p", "uid-p")
NOW = "2026-11-21T10:00:00Z"
WARN = RecordEvent(NODE, EVENT_CONFLICT, "two claim one")
LATER_S = COUNT_PACE_S + 1


class Kept:
    """An API server for Events. `refusals`: its next answers, for each method; None: it obeys."""

    def __init__(self) -> None:
        self.kept: dict[str, dict[str, Any]] = {}
        self.asked: list[tuple[str, Any]] = []
        self.refusals: dict[str, list[int | None]] = {"POST": [], "PATCH": []}
        self.types: set[str] = set()

    async def answer(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.asked.append((request.method, body))
        refusals = self.refusals[request.method]
        refused = refusals.pop(0) if refusals else None
        if refused is not None:
            return refusal(refused, "Whatever")
        if request.method == "POST":
            return self._created(f"{request.path}/{body['metadata']['name']}", body)
        self.types.add(request.headers["Content-Type"])
        return self._patched(self.kept[request.path], body)

    def _created(self, path: str, body: dict[str, Any]) -> web.Response:
        if path in self.kept:
            return refusal(409, "AlreadyExists")
        body["metadata"]["resourceVersion"] = "7"
        self.kept[path] = body
        return web.json_response(body, status=201)

    def _patched(self, found: dict[str, Any], body: dict[str, Any]) -> web.Response:
        wanted = body.get("metadata", found["metadata"])["resourceVersion"]
        assert wanted == found["metadata"]["resourceVersion"]
        found.update({key: value for key, value in body.items() if key != "metadata"})
        return web.json_response(found)

    @property
    def counts(self) -> list[Any]:
        return [one["count"] for one in self.kept.values()]

    @property
    def patches(self) -> list[Any]:
        return [body for method, body in self.asked if method == "PATCH"]


class Recorder:
    """A process that records Events, at the seconds that a test gives."""

    def __init__(self, server: Kept, client: Any) -> None:
        self.server = server
        self._client = client
        self.now_s = 0.0
        self.restart()

    def restart(self) -> None:
        self._push = EventPush(
            self._client,
            clock=lambda: self.now_s,
            wall_clock=lambda: datetime(2026, 11, 21, 10, 0, int(self.now_s) % 60, tzinfo=UTC),
        )

    async def record(self, action: RecordEvent = WARN, *, after_s: float = 0.0) -> Outcome:
        self.now_s += after_s
        return await self._push.push(action)


@asynccontextmanager
async def recording() -> AsyncIterator[Recorder]:
    kept = Kept()
    async with serving(kept.answer) as (_, client):
        yield Recorder(kept, client)


async def test_equal_events_have_one_name_and_the_second_is_done_S16() -> None:
    async with recording() as recorder:
        assert await recorder.record() == Done(WARN)
        assert await recorder.record() == Done(WARN)
        ((path, event),) = recorder.server.kept.items()
    assert path.startswith("/api/v1/namespaces/default/events/g0.")
    assert event["involvedObject"]["uid"] == "uid-g0"
    assert event["firstTimestamp"] == NOW


@pytest.mark.parametrize(
    ("pauses_s", "count"),
    [
        ([], 1),
        ([LATER_S], 2),
        ([LATER_S, LATER_S, LATER_S], 4),
        ([1.0], 1),
        ([20.0] * 7, 3),
        ([LATER_S, 1.0, LATER_S], 3),
    ],
)
async def test_an_event_is_counted_each_time_it_happens_again_at_most_once_a_minute(
    pauses_s: Sequence[float], count: int
) -> None:
    async with recording() as recorder:
        for pause_s in (0.0, *pauses_s):
            assert await recorder.record(after_s=pause_s) == Done(WARN)
        assert recorder.server.counts == [count]


async def test_a_count_moves_the_last_time_and_not_the_first_and_has_the_version_it_saw() -> None:
    async with recording() as recorder:
        await recorder.record()
        await recorder.record(after_s=LATER_S)
        (event,) = recorder.server.kept.values()
        last = "2026-11-21T10:00:01Z"
        assert (event["firstTimestamp"], event["lastTimestamp"]) == (NOW, last)
        change = {"metadata": {"resourceVersion": "7"}, "count": 2, "lastTimestamp": last}
        assert recorder.server.patches == [{}, change]
        assert recorder.server.types == {"application/merge-patch+json"}


async def test_a_restart_is_no_repetition_and_keeps_the_count() -> None:
    """After it, every condition that still holds is recorded again."""
    async with recording() as recorder:
        await recorder.record()
        await recorder.record(after_s=LATER_S)
        recorder.restart()
        await recorder.record(after_s=LATER_S)
        assert recorder.server.counts == [2]
        await recorder.record(after_s=LATER_S)
        assert recorder.server.counts == [3]


async def test_an_event_that_expired_begins_with_one_again() -> None:
    async with recording() as recorder:
        await recorder.record()
        await recorder.record(after_s=LATER_S)
        recorder.server.kept.clear()
        await recorder.record(after_s=LATER_S)
        assert recorder.server.counts == [1]


async def test_an_event_of_another_text_is_not_counted() -> None:
    async with recording() as recorder:
        await recorder.record()
        await recorder.record(RecordEvent(NODE, EVENT_CONFLICT, "three"), after_s=LATER_S)
        assert recorder.server.counts == [1, 1]


async def test_an_event_without_a_count_happened_once() -> None:
    async with recording() as recorder:
        await recorder.record()
        for event in recorder.server.kept.values():
            event["count"] = None
        await recorder.record(after_s=LATER_S)
        assert recorder.server.counts == [2]


@pytest.mark.parametrize(
    ("refusals", "says"),
    [
        ([404], ""),
        ([None, 404], ""),
        ([None, 409], ""),
        ([403], "not counted again: PATCH /api/v1/namespaces/default/events/g0."),
        ([None, 403], "not counted again: "),
        ([500], "not counted again: "),
        ([None, 500], "not counted again: "),
        ([None, 422], "not counted again: "),
    ],
)
async def test_a_failed_count_is_not_tried_again_and_said_unless_it_is_a_race(
    refusals: list[int | None], says: str
) -> None:
    """The Event exists: the action is done."""
    async with recording() as recorder:
        await recorder.record()
        recorder.server.refusals["PATCH"] = list(refusals)
        outcome = await recorder.record(after_s=LATER_S)
        assert isinstance(outcome, Done)
        assert outcome.why.startswith(says)
        assert bool(outcome.why) == bool(says)
        assert recorder.server.counts == [1]
        assert len(recorder.server.patches) == len(refusals)
        assert await recorder.record(after_s=1.0) == Done(WARN)
        assert len(recorder.server.patches) == len(refusals)


@pytest.mark.parametrize(("code", "outcome"), [(403, Refused), (404, Refused), (500, Unsure)])
async def test_an_event_that_may_have_been_created_without_an_answer_is_no_repetition(
    code: int, outcome: type[Outcome]
) -> None:
    async with recording() as recorder:
        await recorder.record()
        recorder.restart()
        recorder.server.refusals["POST"] = [code]
        assert isinstance(await recorder.record(), outcome)
        assert await recorder.record(after_s=LATER_S) == Done(WARN)
        assert recorder.server.counts == [1]


async def test_only_the_events_recorded_last_are_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(events, "REMEMBERED_MAX", 2)
    async with recording() as recorder:
        one, two, three = (RecordEvent(NODE, EVENT_CONFLICT, text) for text in "abc")
        for event in (one, two, one, three):
            await recorder.record(event, after_s=LATER_S)
        await recorder.record(two, after_s=LATER_S)
        await recorder.record(three, after_s=LATER_S)
        assert recorder.server.counts == [2, 1, 2]


def test_events_are_in_the_namespace_that_kubectl_describe_reads() -> None:
    places = [
        event_of(RecordEvent(reference, EVENT_CONFLICT, "m"), at=NOW)["metadata"]["namespace"]
        for reference in (NODE, POD, Reference("Namespace", "", "slurm", ""))
    ]
    assert places == ["default", "slurm", "slurm"]


@given(st.text(max_size=300), st.text(min_size=1, max_size=300))
def test_events_of_any_text_are_bounded_and_distinct(message: str, name: str) -> None:
    reference = Reference("Node", "", name, "u")
    one = event_of(RecordEvent(reference, EVENT_CONFLICT, message * 20), at=NOW)
    two = event_of(RecordEvent(reference, EVENT_CONFLICT, message * 20 + "x"), at=NOW)
    assert len(one["message"].encode()) <= 1024
    assert len(one["metadata"]["name"]) <= 253
    assert one["metadata"]["name"] != two["metadata"]["name"]
