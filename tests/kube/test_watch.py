"""Watch against a server that answers as a test tells it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from sunk_sync.core.model.facts import Confirmed, Deleted, ListingStarted, Lost, Observed
from sunk_sync.kube.api.answers import KubeError
from sunk_sync.kube.api.backoff import Ambient
from sunk_sync.kube.api.client import Restores
from sunk_sync.kube.read import watch
from sunk_sync.kube.read.selection import Selection
from sunk_sync.kube.read.watch import Watch
from tests.kit.selections import nodes, slurmd_pods
from tests.kube.recorded.server import (
    ApiServer,
    Ear,
    bookmark,
    event,
    node,
    page,
    pod,
    recorded,
    refusal,
    serving,
    status,
    stream,
)

Step = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Script:
    """Answers lists and watches by turns; the last of each kind stays."""

    def __init__(self, *, lists: list[Step], watches: list[Step]) -> None:
        self._lists = lists
        self._watches = watches

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        if request.query.get("limit") == "1":
            return page("Node", [], 1000)
        steps = self._watches if "watch" in request.query else self._lists
        step = steps.pop(0) if len(steps) > 1 else steps[0]
        return await step(request)


def lists(*items: dict[str, object], version: int, next_: str = "") -> Step:
    async def answer(request: web.Request) -> web.StreamResponse:
        kind = "Node" if request.path.endswith("nodes") else "Pod"
        return page(kind, items, version, next_)

    return answer


def streams(*pieces: bytes | asyncio.Event, then: str = "wait") -> Step:
    async def answer(request: web.Request) -> web.StreamResponse:
        return await stream(request, *pieces, then=then)

    return answer


def refuses(code: int, reason: str, **headers: str) -> Step:
    async def answer(_: web.Request) -> web.StreamResponse:
        return refusal(code, reason, **headers)

    return answer


NO_WATCH_LIST = refuses(422, "Invalid")
QUIET = streams()


class Running:
    """A watch that runs, its server, and an ear for its news."""

    def __init__(self, server: ApiServer, ear: Ear, reader: Watch) -> None:
        self.server = server
        self.ear = ear
        self.watch = reader
        self.slept_s: list[float] = []
        self.restores: Restores

    def watched_from(self) -> list[str]:
        """Versions from which streams were asked for; empty for a WatchList."""
        queries = [query for query in self.server.queries() if "watch" in query]
        return [query.get("resourceVersion", "") for query in queries]

    async def watches_from(self, version: str) -> None:
        """Wait until the last stream was asked for from this version."""
        async with asyncio.timeout(5):
            while self.watched_from()[-1:] != [version]:  # noqa: ASYNC110
                await asyncio.sleep(0.01)


@asynccontextmanager
async def running(
    script: Step, folder: Path, subject: Selection | None = None
) -> AsyncIterator[Running]:
    """Delays are noted, and kept short."""
    async with serving(script, folder) as (server, client):
        ear = Ear()
        slept_s: list[float] = []

        async def sleep(delay_s: float) -> None:
            slept_s.append(delay_s)
            await asyncio.sleep(min(delay_s, 0.01))

        reader = Watch(
            client,
            subject or nodes(),
            tell=ear.tell,
            on_bad=ear.on_bad,
            ambient=Ambient(sleep=sleep, random=lambda: 0.5),
        )
        made = Running(server, ear, reader)
        made.restores = client.restores
        made.slept_s = slept_s
        task = asyncio.create_task(reader.run())
        try:
            yield made
            assert not task.done(), task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


LISTED = ["ListingStarted", "Observed a", "ListingEnded"]


# Listing


async def test_a_list_is_read_page_by_page_and_followed_from_its_version(tmp_path: Path) -> None:
    """Rows of all pages, one end; the watch begins where the list stood."""
    script = Script(
        lists=[lists(node("a", 3), version=7, next_="more"), lists(node("b", 5), version=7)],
        watches=[NO_WATCH_LIST, streams(event("MODIFIED", node("a", 8)))],
    )
    async with running(script, tmp_path) as run:
        await run.ear.hears(
            "ListingStarted", "Observed a", "Observed b", "ListingEnded", "Observed a"
        )
    started = run.ear.news[0]
    assert isinstance(started, ListingStarted)
    assert started.order == 7
    assert run.watched_from() == ["", "7"]
    assert [query.get("continue") for query in run.server.queries()[1:3]] == [None, "more"]


async def test_a_watch_list_is_one_listing_with_the_order_of_its_end(tmp_path: Path) -> None:
    """Initial events wait for the bookmark that names the version of the whole."""
    gate = asyncio.Event()
    first = event("ADDED", node("a", 3))
    end = bookmark("Node", 9, ends_listing=True) + event("MODIFIED", node("a", 10))
    script = Script(lists=[NO_WATCH_LIST], watches=[streams(first, gate, end)])
    async with running(script, tmp_path) as run:
        await asyncio.sleep(0.05)
        assert run.ear.news == []
        gate.set()
        await run.ear.hears(*LISTED, "Observed a")
    started, _, _, live = run.ear.news
    assert isinstance(started, ListingStarted)
    assert isinstance(live, Observed)
    assert (started.order, live.order) == (9, 10)
    assert run.server.queries()[0]["sendInitialEvents"] == "true"


async def test_a_recorded_watch_list_is_a_listing(tmp_path: Path) -> None:
    """What 1.35 sends."""
    script = Script(lists=[NO_WATCH_LIST], watches=[streams(recorded("watchlist-nodes.json"))])
    async with running(script, tmp_path) as run:
        await run.ear.hears("ListingStarted", "Observed g0", "Observed g1", "ListingEnded")


async def test_a_server_without_watch_lists_is_asked_only_once(tmp_path: Path) -> None:
    """1.30 answers 422; the next listing comes in pages straight away."""
    gone = streams(event("ERROR", status(410, "Expired")))
    script = Script(lists=[lists(node("a", 3), version=7)], watches=[NO_WATCH_LIST, gone, QUIET])
    async with running(script, tmp_path) as run:
        await run.ear.hears(*LISTED, "Lost", *LISTED)
    assert sum("sendInitialEvents" in query for query in run.server.queries()) == 1


async def test_a_watch_list_that_breaks_off_tells_nothing(tmp_path: Path) -> None:
    """Half of the initial events are no listing; pages are read instead."""
    script = Script(
        lists=[lists(node("a", 3), version=7)],
        watches=[streams(event("ADDED", node("half", 2)), then="end"), QUIET],
    )
    async with running(script, tmp_path) as run:
        await run.ear.hears(*LISTED)


async def test_an_unfinished_watch_list_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An old etcd never sends the bookmark at the end: pages after a deadline."""
    monkeypatch.setattr(watch, "LIST_DEADLINE_S", 0.1)
    script = Script(
        lists=[lists(node("a", 3), version=7)],
        watches=[streams(event("ADDED", node("half", 2))), QUIET],
    )
    async with running(script, tmp_path) as run:
        await run.ear.hears(*LISTED)


async def test_an_expired_continue_token_begins_the_listing_anew_F3(tmp_path: Path) -> None:
    """F3: 410 on a later page; the first part never counts as complete."""
    script = Script(
        lists=[
            lists(node("a", 3), version=7, next_="more"),
            refuses(410, "Expired"),
            lists(node("a", 3), version=9),
        ],
        watches=[NO_WATCH_LIST, QUIET],
    )
    async with running(script, tmp_path) as run:
        await run.ear.hears("ListingStarted", "Observed a", "Lost", *LISTED)


async def test_retry_after_is_waited_for_F8(tmp_path: Path) -> None:
    """F8: 429 on a list; the server's desired write is longer than our back-off."""
    busy = refuses(429, "TooManyRequests", **{"Retry-After": "7"})
    script = Script(
        lists=[busy, lists(node("a", 3), version=7)],
        watches=[NO_WATCH_LIST, QUIET],
    )
    async with running(script, tmp_path) as run:
        await run.ear.hears("Lost", *LISTED)
    assert 7.0 in run.slept_s


async def test_failures_are_retried_ever_more_slowly(tmp_path: Path) -> None:
    """Doubling delays, five seconds at most, one Lost."""
    script = Script(lists=[refuses(503, "Unavailable")], watches=[NO_WATCH_LIST])
    async with running(script, tmp_path) as run:
        async with asyncio.timeout(5):
            while len(run.slept_s) < 12:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert run.ear.kinds() == ["Lost"]
    assert run.slept_s[:4] == pytest.approx([0.075, 0.15, 0.3, 0.6])
    assert max(run.slept_s) <= 5


async def test_rows_are_told_in_slices(tmp_path: Path) -> None:
    """A page of 500 never holds the loop at a stretch."""
    rows = [node(f"n{i}", i + 1) for i in range(500)]
    script = Script(lists=[lists(*rows, version=600)], watches=[NO_WATCH_LIST, QUIET])
    sizes = []
    async with running(script, tmp_path) as run:
        tell = run.ear.tell

        async def measured(news: list[Observed]) -> None:
            sizes.append(len(news))
            await tell(news)

        run.watch._listing._tell = measured  # type: ignore[assignment]
        await run.ear.until(lambda ear: ear.kinds()[-1:] == ["ListingEnded"])
    assert sum(sizes) == 502
    assert max(sizes) == 100


# Following


async def test_half_lines_wait_for_their_rest_F3(tmp_path: Path) -> None:
    """F3: packets end anywhere."""
    line = event("MODIFIED", node("a", 8))
    script = Script(
        lists=[lists(version=7)],
        watches=[NO_WATCH_LIST, streams(line[:5], line[5:40], line[40:] + line[:1])],
    )
    async with running(script, tmp_path) as run:
        await run.ear.hears("ListingStarted", "ListingEnded", "Observed a")


async def test_a_broken_stream_goes_on_where_it_broke_F3(tmp_path: Path) -> None:
    """F3: nothing is listed again and nothing is lost; half a line does not count."""
    line = event("MODIFIED", node("a", 8))
    script = Script(
        lists=[lists(version=7)],
        watches=[NO_WATCH_LIST, streams(line + line[:30], then="break"), streams(line)],
    )
    async with running(script, tmp_path) as run:
        await run.ear.hears("ListingStarted", "ListingEnded", "Observed a", "Observed a")
    assert run.watched_from() == ["", "7", "8"]


async def test_bookmarks_move_the_point_to_go_on_from(tmp_path: Path) -> None:
    """A quiet source never falls out of the server's history."""
    script = Script(
        lists=[lists(version=7)],
        watches=[NO_WATCH_LIST, streams(bookmark("Node", 55), then="end"), QUIET],
    )
    async with running(script, tmp_path) as run:
        await run.watches_from("55")
        assert run.ear.kinds() == ["ListingStarted", "ListingEnded"]


@pytest.mark.parametrize(
    "gone", [streams(event("ERROR", status(410, "Expired"))), refuses(410, "Expired")]
)
async def test_410_leads_to_a_fresh_listing_F3(tmp_path: Path, gone: Step) -> None:
    """F3: as an ERROR event in a 200 stream, and as a status."""
    script = Script(
        lists=[lists(node("a", 3), version=7)],
        watches=[NO_WATCH_LIST, gone, streams(event("DELETED", node("a", 9)))],
    )
    async with running(script, tmp_path) as run:
        await run.ear.hears(*LISTED, "Lost", *LISTED, "Deleted a")
    deleted = run.ear.news[-1]
    assert deleted == Deleted("nodes", "", "a", "uid-a", 9.0)


async def test_an_outage_is_lost_then_confirmed_without_a_listing_F3(tmp_path: Path) -> None:
    """F3: Confirmed speaks of the time when the server was last heard, not of now."""
    script = Script(
        lists=[lists(version=7)],
        watches=[
            NO_WATCH_LIST,
            streams(bookmark("Node", 8), then="break"),
            refuses(503, "Unavailable"),
            refuses(503, "Unavailable"),
            QUIET,
        ],
    )
    async with running(script, tmp_path) as run:
        await run.ear.hears("ListingStarted", "ListingEnded", "Lost", "Confirmed")
    started, _, lost, confirmed = run.ear.news
    assert isinstance(started, ListingStarted)
    assert isinstance(lost, Lost)
    assert isinstance(confirmed, Confirmed)
    assert started.begun_s < confirmed.begun_s
    assert not lost.blind


async def test_a_server_that_was_away_is_listed_again_F3(tmp_path: Path) -> None:
    """F3: nobody knows what it was restarted with; a broken stream alone does not count."""

    async def drop(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    script = Script(
        lists=[lists(node("a", 3), version=7)],
        watches=[NO_WATCH_LIST, streams(bookmark("Node", 8), then="break"), *[drop] * 4, QUIET],
    )
    async with running(script, tmp_path) as run:
        await run.ear.hears(*LISTED, "Lost", "Lost", *LISTED)


async def test_garbage_lines_end_the_stream_and_at_last_force_a_listing_F4(tmp_path: Path) -> None:
    """F4: read again from the last version; the same garbage three times over is passed by."""
    script = Script(
        lists=[lists(node("a", 3), version=7)],
        watches=[NO_WATCH_LIST, *[streams(b"<html>\n")] * 3, QUIET],
    )
    async with running(script, tmp_path) as run:
        await run.ear.hears(*LISTED, "Lost", *LISTED)
    assert run.watched_from()[:4] == ["", "7", "7", "7"]


async def test_a_silent_connection_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bookmarks come about every minute; without any nobody knows what the server did (F3)."""
    monkeypatch.setattr(watch, "SILENCE_S", 0.1)
    script = Script(
        lists=[lists(version=7)],
        watches=[NO_WATCH_LIST, QUIET, streams(event("ADDED", node("a", 8)))],
    )
    async with running(script, tmp_path) as run:
        listed = ("ListingStarted", "ListingEnded")
        await run.ear.hears(*listed, "Lost", *listed, "Observed a")


@pytest.mark.parametrize("as_watch_list", [False, True])
async def test_a_connection_that_was_silent_before_it_broke_leads_to_a_listing_F3(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_watch_list: bool
) -> None:
    """It may have been dead while etcd was restored, and the server be past our version by now."""
    monkeypatch.setattr(watch, "DEAD_S", 0.1)
    silence = asyncio.Event()
    end = bookmark("Node", 7, ends_listing=True) if as_watch_list else b""
    breaks = streams(*([end] if end else []), silence, then="break")
    relisted = streams(bookmark("Node", 8, ends_listing=True))
    script = Script(
        lists=[lists(version=7)],
        watches=[breaks, relisted] if as_watch_list else [NO_WATCH_LIST, breaks, QUIET],
    )
    async with running(script, tmp_path) as run:
        listed = ("ListingStarted", "ListingEnded")
        await run.ear.hears(*listed)
        await asyncio.sleep(0.2)
        silence.set()
        await run.ear.hears(*listed, "Lost", *listed)


async def test_a_cluster_restored_from_a_backup_is_listed_again(tmp_path: Path) -> None:
    """Its versions are lower than ours, and a watch from a future version stays silent."""
    script = Script(
        lists=[lists(node("a", 3), version=5000), lists(node("a", 2), version=20)],
        watches=[NO_WATCH_LIST, streams(bookmark("Node", 5001), then="break"), QUIET],
    )
    async with running(script, tmp_path) as run:
        await run.ear.hears(*LISTED, "Lost", *LISTED)
        await run.watches_from("20")
    assert run.restores.count == 1
    again = run.ear.news[4]
    assert isinstance(again, ListingStarted)
    assert again.order == 20


async def test_a_restore_that_another_watch_noticed_is_heeded(tmp_path: Path) -> None:
    """This one looked when the server had come past its version again."""
    runs: list[Running] = []

    async def another_notices(request: web.Request) -> web.StreamResponse:
        runs[0].restores.count += 1
        return await streams(event("ADDED", node("b", 8)))(request)

    script = Script(
        lists=[lists(node("a", 3), version=7), lists(node("a", 12), version=12)],
        watches=[NO_WATCH_LIST, another_notices, streams(event("ADDED", node("c", 13)))],
    )
    async with running(script, tmp_path) as run:
        runs.append(run)
        await run.ear.hears(*LISTED, "Observed b", "Lost", *LISTED, "Observed c")
    assert run.restores.count == 1


async def test_a_bad_object_is_told_and_the_others_go_on_F7(tmp_path: Path) -> None:
    """F7: in a list and in a stream; the stream goes on behind it."""
    bad = node("bad", 8, unschedulable="perhaps")
    script = Script(
        lists=[lists(bad, node("a", 3), version=7)],
        watches=[
            NO_WATCH_LIST,
            streams(event("ADDED", {**bad}), event("ADDED", node("b", 9))),
        ],
    )
    async with running(script, tmp_path) as run:
        await run.ear.hears(*LISTED, "Observed b")
    assert [(kind, name) for kind, name, _ in run.ear.bad] == [("Node", "bad")] * 2


async def test_a_source_unreadable_for_a_minute_is_blind(tmp_path: Path) -> None:
    """Lost is told again when what was seen must no longer be shown as true."""
    script = Script(lists=[refuses(503, "Unavailable")], watches=[NO_WATCH_LIST])
    async with serving(script, tmp_path) as (_, client):
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


# Several namespaces, and listing beside the watch


async def test_several_namespaces_are_one_listing_at_one_version(tmp_path: Path) -> None:
    """The second namespace is listed exactly where the first stood, and both are followed."""
    script = Script(
        lists=[lists(pod("p", 3, "a"), version=7), lists(pod("q", 4, "b"), version=7)],
        watches=[streams(event("ADDED", pod("r", 9, "a"))), QUIET],
    )
    subject = slurmd_pods(["a", "b", "a"], selector="app=slurmd")
    async with running(script, tmp_path, subject) as run:
        await run.ear.hears(
            "ListingStarted", "Observed p", "Observed q", "ListingEnded", "Observed r"
        )
        async with asyncio.timeout(5):
            while run.watched_from() != ["7", "7"]:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    first, second = run.server.queries()[:2]
    assert first["labelSelector"] == "app=slurmd"
    assert "resourceVersion" not in first
    assert (second["resourceVersion"], second["resourceVersionMatch"]) == ("7", "Exact")


async def test_one_unreadable_namespace_leaves_the_source_incomplete(tmp_path: Path) -> None:
    """Absence counts only once all namespaces were listed."""
    script = Script(
        lists=[lists(pod("p", 3, "a"), version=7), refuses(403, "Forbidden")], watches=[QUIET]
    )
    subject = slurmd_pods(["a", "b"], selector="app=slurmd")
    async with running(script, tmp_path, subject) as run:
        await run.ear.until(lambda ear: "Lost" in ear.kinds())
        assert "ListingEnded" not in run.ear.kinds()


async def test_one_namespace_out_of_history_lists_all_of_them_again(tmp_path: Path) -> None:
    """410 of one stream ends the other's too."""
    gone = streams(event("ERROR", status(410, "Expired")))
    script = Script(lists=[lists(version=7)], watches=[gone, QUIET])
    subject = slurmd_pods(["a", "b"], selector="app=slurmd")
    async with running(script, tmp_path, subject) as run:
        await run.ear.hears(
            "ListingStarted", "ListingEnded", "Lost", "ListingStarted", "ListingEnded"
        )


async def test_relist_lists_once_more_beside_the_watch(tmp_path: Path) -> None:
    """S19: a second complete listing, while the stream stays open."""
    script = Script(
        lists=[lists(node("a", 3), version=7), lists(node("a", 3), version=12)],
        watches=[NO_WATCH_LIST, QUIET],
    )
    async with running(script, tmp_path) as run:
        await run.ear.hears(*LISTED)
        assert await run.watch.relist(0.0) is None
        await run.ear.hears(*LISTED, *LISTED)
    assert run.watched_from() == ["", "7"]


async def test_a_relist_that_fails_says_why_and_proves_nothing(tmp_path: Path) -> None:
    """S20: half a listing is no evidence."""
    script = Script(
        lists=[
            lists(node("a", 3), version=7),
            lists(version=12, next_="more"),
            refuses(500, "InternalError"),
        ],
        watches=[NO_WATCH_LIST, QUIET],
    )
    async with running(script, tmp_path) as run:
        await run.ear.hears(*LISTED)
        trouble = await run.watch.relist(0.0)
    assert isinstance(trouble, KubeError)
    assert trouble.status == 500
    assert run.ear.kinds().count("ListingEnded") == 1


def test_star_means_every_namespace() -> None:
    """`*` is one watch over all namespaces."""
    assert slurmd_pods(["*"], selector="x").paths == ("/api/v1/pods",)
