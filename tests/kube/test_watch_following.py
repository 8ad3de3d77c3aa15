"""A watch survives broken streams, expired versions, outages and unreadable objects."""

import asyncio

import pytest
from aiohttp import web
from msgspec.structs import replace

from sunk_sync.core.model.facts import Confirmed, Deleted, ListingStarted, Lost
from sunk_sync.kube.api.backoff import Ambient
from sunk_sync.kube.read import watch
from sunk_sync.kube.read.watch import Watch
from tests.kit.kube_watch import (
    LISTED,
    PAGE,
    QUIET,
    Running,
    Script,
    Step,
    heard,
    lists,
    refuses,
    running,
    streams,
    without_watch_lists,
)
from tests.kit.selections import nodes
from tests.kube.recorded.server import Ear, bookmark, event, node, serving, status


async def test_a_line_in_several_packets_is_one_event_F3() -> None:
    line = event("MODIFIED", node("a", 8))
    script = without_watch_lists(streams(line[:5], line[5:40], line[40:] + line[:1]))
    await heard(script, *LISTED, "Observed a")


async def test_a_broken_stream_continues_from_its_last_version_F3() -> None:
    line = event("MODIFIED", node("a", 8))
    script = without_watch_lists(streams(line + line[:30], then="break"), streams(line))
    run = await heard(script, *LISTED, "Observed a", "Observed a")
    assert run.watched_from() == ["", "7", "8"]


async def test_a_stream_continues_from_its_last_bookmark() -> None:
    script = without_watch_lists(streams(bookmark("Node", 55), then="end"), QUIET)
    async with running(script) as run:
        await run.watches_from("55")
        assert run.ear.kinds() == LISTED


@pytest.mark.parametrize(
    "gone", [streams(event("ERROR", status(410, "Expired"))), refuses(410, "Expired")]
)
async def test_410_leads_to_a_fresh_listing_F3(gone: Step) -> None:
    script = without_watch_lists(gone, streams(event("DELETED", node("a", 9))))
    run = await heard(script, *LISTED, "Lost", *LISTED, "Deleted a")
    assert run.ear.news[-1] == Deleted("nodes", "", "a", "uid-a", 9.0)


async def test_after_an_outage_the_source_is_confirmed_without_a_listing_F3() -> None:
    """Confirmed has the time when the server last answered."""
    script = without_watch_lists(
        streams(bookmark("Node", 8), then="break"), *[refuses(503, "Unavailable")] * 2, QUIET
    )
    run = await heard(script, *LISTED, "Lost", "Confirmed")
    started, _, _, lost, confirmed = run.ear.news
    assert isinstance(started, ListingStarted)
    assert isinstance(lost, Lost)
    assert isinstance(confirmed, Confirmed)
    assert started.begun_s < confirmed.begun_s
    assert not lost.blind


async def test_after_refused_connections_the_source_is_listed_again_F3() -> None:
    """The server may have been restarted with other data."""

    async def drop(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    script = without_watch_lists(streams(bookmark("Node", 8), then="break"), *[drop] * 4, QUIET)
    await heard(script, *LISTED, "Lost", "Lost", *LISTED)


async def test_the_same_garbage_three_times_leads_to_a_listing_F4() -> None:
    script = without_watch_lists(*[streams(b"<html>\n")] * 3, QUIET)
    run = await heard(script, *LISTED, "Lost", *LISTED)
    assert run.watched_from()[:4] == ["", "7", "7", "7"]


async def test_a_stream_without_bookmarks_is_lost_F3(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "SILENCE_S", 0.1)
    script = without_watch_lists(QUIET, streams(event("ADDED", node("a", 8))))
    await heard(script, *LISTED, "Lost", *LISTED, "Observed a")


@pytest.mark.parametrize("as_watch_list", [False, True])
async def test_a_stream_that_was_silent_before_it_broke_leads_to_a_listing_F3(
    monkeypatch: pytest.MonkeyPatch, as_watch_list: bool
) -> None:
    """Meanwhile etcd may have been restored, and its version may have passed ours."""
    monkeypatch.setattr(watch, "DEAD_S", 0.1)
    silence = asyncio.Event()
    if as_watch_list:
        first = [event("ADDED", node("a", 3)), bookmark("Node", 7, ends_listing=True)]
        again = [event("ADDED", node("a", 3)), bookmark("Node", 8, ends_listing=True)]
        script = Script(
            lists=[PAGE], watches=[streams(*first, silence, then="break"), streams(*again)]
        )
    else:
        script = without_watch_lists(streams(silence, then="break"), QUIET)
    async with running(script) as run:
        await run.ear.hears(*LISTED)
        await asyncio.sleep(0.2)
        silence.set()
        await run.ear.hears(*LISTED, "Lost", *LISTED)


async def test_a_server_with_a_lower_version_was_restored_and_is_listed_again() -> None:
    """A watch from a future version stays silent."""
    script = without_watch_lists(
        streams(bookmark("Node", 5001), then="break"),
        QUIET,
        pages=[lists(node("a", 3), version=5000), lists(node("a", 2), version=20)],
    )
    async with running(script) as run:
        await run.ear.hears(*LISTED, "Lost", *LISTED)
        await run.watches_from("20")
    assert run.restores.count == 1
    again = run.ear.news[4]
    assert isinstance(again, ListingStarted)
    assert again.order == 20


async def test_a_restore_that_another_watch_noticed_leads_to_a_listing() -> None:
    runs: list[Running] = []

    async def another_notices(request: web.Request) -> web.StreamResponse:
        runs[0].restores.count += 1
        return await streams(event("ADDED", node("b", 8)))(request)

    script = without_watch_lists(
        another_notices,
        streams(event("ADDED", node("c", 13))),
        pages=[PAGE, lists(node("a", 12), version=12)],
    )
    async with running(script) as run:
        runs.append(run)
        await run.ear.hears(*LISTED, "Observed b", "Lost", *LISTED, "Observed c")
    assert run.restores.count == 1


async def test_an_unreadable_object_is_reported_and_the_others_are_read_F7() -> None:
    bad = node("bad", 8, unschedulable="perhaps")
    script = without_watch_lists(
        streams(event("ADDED", {**bad}), event("ADDED", node("b", 9))),
        pages=[lists(bad, node("a", 3), version=7)],
    )
    run = await heard(script, *LISTED, "Observed b")
    assert [(kind, name) for kind, name, _ in run.ear.bad] == [("Node", "bad")] * 2


async def test_after_a_minute_of_failures_the_loss_is_reported_as_blind() -> None:
    script = without_watch_lists(pages=[refuses(503, "Unavailable")])
    async with serving(script) as (_, client):
        ear = Ear()
        now_s = 0.0

        async def sleep(delay_s: float) -> None:
            nonlocal now_s
            now_s += delay_s
            await asyncio.sleep(0)

        ambient = Ambient(clock=lambda: now_s, sleep=sleep, random=lambda: 0.5)
        reader = Watch(client, nodes(), tell=ear.tell, on_bad=ear.on_bad, ambient=ambient)
        task = asyncio.create_task(reader.run())
        await ear.until(lambda ear: len(ear.news) == 2)
        task.cancel()
    assert [getattr(one, "blind", None) for one in ear.news] == [False, True]
    assert 60 <= now_s < 95


async def test_a_missing_kind_is_reported_once_with_its_remedy_and_found_later() -> None:
    """The optional kind NodeSet. Each look costs one request in at most 5 s."""
    missing = refuses(404, "NotFound")
    pages = [*[missing] * 40, PAGE]
    script = without_watch_lists(QUIET, pages=pages)
    async with serving(script) as (_, client):
        ear = Ear()
        slept_s: list[float] = []

        async def sleep(delay_s: float) -> None:
            slept_s.append(delay_s)
            await asyncio.sleep(0)

        ambient = Ambient(clock=lambda: sum(slept_s), sleep=sleep, random=lambda: 1.0)
        selection = replace(nodes(), missing="the kind is missing: make it")
        reader = Watch(client, selection, tell=ear.tell, on_bad=ear.on_bad, ambient=ambient)
        task = asyncio.create_task(reader.run())
        await ear.until(lambda ear: "ListingEnded" in ear.kinds())
        task.cancel()
    (lost,) = [one for one in ear.news if isinstance(one, Lost)]
    assert (lost.why, lost.blind) == ("the kind is missing: make it", False)
    assert sum(slept_s) > 120
    assert max(slept_s) <= 5
