"""A watch lists its source: pages, WatchLists, several namespaces, relists."""

import asyncio

import pytest

from sunk_sync.core.model.facts import ListingStarted, Observed
from sunk_sync.kube.api.answers import KubeError
from sunk_sync.kube.read import watch
from tests.kit.kube_watch import (
    LISTED,
    NO_WATCH_LIST,
    PAGE,
    QUIET,
    Script,
    heard,
    lists,
    refuses,
    running,
    streams,
    without_watch_lists,
)
from tests.kit.selections import slurmd_pods
from tests.kube.recorded.server import bookmark, event, node, pod, recorded, status


async def test_a_list_is_read_page_by_page_and_watched_from_its_version() -> None:
    script = without_watch_lists(
        streams(event("MODIFIED", node("a", 8))),
        pages=[lists(node("a", 3), version=7, next_="more"), lists(node("b", 5), version=7)],
    )
    run = await heard(
        script, "ListingStarted", "Observed a", "Observed b", "ListingEnded", "Observed a"
    )
    started = run.ear.news[0]
    assert isinstance(started, ListingStarted)
    assert started.order == 7
    assert run.watched_from() == ["", "7"]
    assert [query.get("continue") for query in run.server.queries()[1:3]] == [None, "more"]


async def test_a_watch_list_is_one_listing_with_the_version_of_its_bookmark() -> None:
    gate = asyncio.Event()
    first = event("ADDED", node("a", 3))
    end = bookmark("Node", 9, ends_listing=True) + event("MODIFIED", node("a", 10))
    script = Script(lists=[NO_WATCH_LIST], watches=[streams(first, gate, end)])
    async with running(script) as run:
        await asyncio.sleep(0.05)
        assert run.ear.news == []
        gate.set()
        await run.ear.hears(*LISTED, "Observed a")
    started, _, _, live = run.ear.news
    assert isinstance(started, ListingStarted)
    assert isinstance(live, Observed)
    assert (started.order, live.order) == (9, 10)
    assert run.server.queries()[0]["sendInitialEvents"] == "true"


async def test_a_recorded_watch_list_is_a_listing() -> None:
    script = Script(lists=[NO_WATCH_LIST], watches=[streams(recorded("watchlist-nodes.json"))])
    await heard(script, "ListingStarted", "Observed g0", "Observed g1", "ListingEnded")


async def test_after_one_422_no_watch_list_is_requested_again() -> None:
    gone = streams(event("ERROR", status(410, "Expired")))
    script = without_watch_lists(gone, QUIET)
    run = await heard(script, *LISTED, "Lost", *LISTED)
    assert sum("sendInitialEvents" in query for query in run.server.queries()) == 1


async def test_after_a_broken_watch_list_pages_are_read() -> None:
    script = Script(
        lists=[PAGE], watches=[streams(event("ADDED", node("half", 2)), then="end"), QUIET]
    )
    await heard(script, *LISTED)


async def test_pages_follow_an_unfinished_watch_list(monkeypatch: pytest.MonkeyPatch) -> None:
    """With an old etcd the bookmark never comes."""
    monkeypatch.setattr(watch, "LIST_DEADLINE_S", 0.1)
    script = Script(lists=[PAGE], watches=[streams(event("ADDED", node("half", 2))), QUIET])
    await heard(script, *LISTED)


async def test_an_expired_continue_token_restarts_the_listing_F3() -> None:
    script = without_watch_lists(
        QUIET,
        pages=[
            lists(node("a", 3), version=7, next_="more"),
            refuses(410, "Expired"),
            lists(node("a", 3), version=9),
        ],
    )
    await heard(script, "ListingStarted", "Observed a", "Lost", *LISTED)


async def test_retry_after_is_awaited_F8() -> None:
    busy = refuses(429, "TooManyRequests", **{"Retry-After": "7"})
    script = without_watch_lists(QUIET, pages=[busy, PAGE])
    run = await heard(script, "Lost", *LISTED)
    assert 7.0 in run.slept_s


async def test_failures_are_retried_with_a_doubling_delay_of_at_most_5_s() -> None:
    script = without_watch_lists(pages=[refuses(503, "Unavailable")])
    async with running(script) as run:
        async with asyncio.timeout(60):
            while len(run.slept_s) < 12:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert run.ear.kinds() == ["Lost"]
    assert run.slept_s[:4] == pytest.approx([0.075, 0.15, 0.3, 0.6])
    assert max(run.slept_s) <= 5


async def test_rows_are_reported_in_slices_of_100() -> None:
    rows = [node(f"n{i}", i + 1) for i in range(500)]
    script = without_watch_lists(QUIET, pages=[lists(*rows, version=600)])
    sizes = []
    async with running(script) as run:
        tell = run.ear.tell

        async def measured(news: list[Observed]) -> None:
            sizes.append(len(news))
            await tell(news)

        run.watch._listing._tell = measured  # type: ignore[assignment]
        await run.ear.until(lambda ear: ear.kinds()[-1:] == ["ListingEnded"])
    assert sum(sizes) == 502
    assert max(sizes) == 100


async def test_several_namespaces_are_one_listing_at_one_version() -> None:
    script = Script(
        lists=[lists(pod("p", 3, "a"), version=7), lists(pod("q", 4, "b"), version=7)],
        watches=[streams(event("ADDED", pod("r", 9, "a"))), QUIET],
    )
    subject = slurmd_pods(["a", "b", "a"], selector="app=slurmd")
    async with running(script, subject) as run:
        await run.ear.hears(
            "ListingStarted", "Observed p", "Observed q", "ListingEnded", "Observed r"
        )
        async with asyncio.timeout(60):
            while run.watched_from() != ["7", "7"]:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    first, second = run.server.queries()[:2]
    assert first["labelSelector"] == "app=slurmd"
    assert "resourceVersion" not in first
    assert (second["resourceVersion"], second["resourceVersionMatch"]) == ("7", "Exact")


async def test_one_unreadable_namespace_leaves_the_listing_open() -> None:
    script = Script(
        lists=[lists(pod("p", 3, "a"), version=7), refuses(403, "Forbidden")], watches=[QUIET]
    )
    subject = slurmd_pods(["a", "b"], selector="app=slurmd")
    async with running(script, subject) as run:
        await run.ear.until(lambda ear: "Lost" in ear.kinds())
        assert "ListingEnded" not in run.ear.kinds()


async def test_a_410_in_one_namespace_lists_all_namespaces_again() -> None:
    gone = streams(event("ERROR", status(410, "Expired")))
    script = Script(lists=[lists(version=7)], watches=[gone, QUIET])
    subject = slurmd_pods(["a", "b"], selector="app=slurmd")
    async with running(script, subject) as run:
        empty = ("ListingStarted", "ListingEnded")
        await run.ear.hears(*empty, "Lost", *empty)


async def test_a_relist_is_a_complete_listing_while_the_stream_stays_open_S19() -> None:
    script = without_watch_lists(QUIET, pages=[PAGE, lists(node("a", 3), version=12)])
    async with running(script) as run:
        await run.ear.hears(*LISTED)
        assert await run.watch.relist(0.0) is None
        await run.ear.hears(*LISTED, *LISTED)
    assert run.watched_from() == ["", "7"]


async def test_a_failed_relist_says_why_and_does_not_end_S20() -> None:
    script = without_watch_lists(
        QUIET, pages=[PAGE, lists(version=12, next_="more"), refuses(500, "InternalError")]
    )
    async with running(script) as run:
        await run.ear.hears(*LISTED)
        trouble = await run.watch.relist(0.0)
    assert isinstance(trouble, KubeError)
    assert trouble.status == 500
    assert run.ear.kinds().count("ListingEnded") == 1


def test_an_asterisk_selects_every_namespace() -> None:
    assert slurmd_pods(["*"], selector="x").paths == ("/api/v1/pods",)
