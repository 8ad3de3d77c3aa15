"""The operators' server: who may ask, what a wrong question gets, and the status page."""

import contextlib
import http.client
import json
import re
from collections.abc import AsyncIterator
from typing import Any

import anyio.to_thread
import httpx
import pytest

from sunk_sync.core.explain.account import Unknown
from sunk_sync.server.live import PAGES_MAX, Feed
from sunk_sync.server.operators import Operators, PauseOrder, Questions
from sunk_sync.settings.types import Address, parse_loopback


class Answers:
    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.orders: list[PauseOrder | None] = []
        self.hosts = {"n1": ["n1", "idle"], "n2": ["n2", "busy"]}
        self.last = [{"about": "host n1"}]

    def explain(self, kind: str, name: str) -> Any:
        self.asked.append((kind, name))
        return Unknown("no such host", ("n1",)) if name == "n2" else {"name": name}

    async def diff(self) -> Any:
        return {"total": 0}

    async def status(self) -> Any:
        return {"leads": True}

    async def tiles(self) -> Any:
        return dict(self.hosts)

    async def pause(self, order: PauseOrder | None) -> Any:
        self.orders.append(order)
        return {"paused": ""}


@pytest.fixture
def answers() -> Answers:
    return Answers()


@pytest.fixture
async def address(answers: Answers) -> AsyncIterator[str]:
    questions = Questions(
        explain=answers.explain,
        text=lambda answer: f"text of {answer['name']}",
        diff=answers.diff,
        status=answers.status,
        pause=answers.pause,
        feed=Feed(answers.tiles, answers.status, lambda: answers.last),
    )
    async with Operators(questions).serve(Address("127.0.0.1", 0)) as bound:
        yield bound


async def ask(
    address: str, path: str, *, method: str = "GET", host: str = "", body: str = "", kind: str = ""
) -> tuple[int, Any]:
    def call() -> tuple[int, Any]:
        connection = http.client.HTTPConnection(address, timeout=5)
        headers = {"Host": host, "Content-Type": kind}
        given = {name: value for name, value in headers.items() if value}
        connection.request(method, path, body=body or None, headers=given)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())

    return await anyio.to_thread.run_sync(call)


async def test_a_name_with_a_slash_reaches_the_service(address: str, answers: Answers) -> None:
    assert await ask(address, "/v1/explain/pod/ns/p1") == (200, {"name": "ns/p1"})
    assert await ask(address, "/v1/explain/pod/ns%2Fp1") == (200, {"name": "ns/p1"})
    assert answers.asked == [("pod", "ns/p1")] * 2


async def test_an_overview_has_a_path_of_its_own(address: str) -> None:
    assert await ask(address, "/v1/diff") == (200, {"total": 0})
    assert await ask(address, "/v1/status") == (200, {"leads": True})


async def test_an_unknown_object_is_404_with_similar_names(address: str) -> None:
    assert await ask(address, "/v1/explain/host/n2") == (
        404,
        {"why": "no such host", "similar": ["n1"]},
    )


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [
        ("/nothing", "GET", 404),
        ("/v1/explain/host/n1", "POST", 405),
        ("/v1/explain/thing/n1", "GET", 400),
        ("/v1/explain/host/", "GET", 400),
        ("/v1/explain/host", "GET", 400),
        (f"/v1/explain/host/{'x' * 601}", "GET", 400),
    ],
)
async def test_a_wrong_question_is_refused_with_a_sentence(
    address: str, answers: Answers, path: str, method: str, status: int
) -> None:
    got, body = await ask(address, path, method=method)
    assert got == status
    assert body["why"]
    assert not answers.asked


@pytest.mark.parametrize("host", ["evil.example:8082", "127.evil.example", "10.0.0.1:8082"])
async def test_a_page_of_another_site_gets_no_answer(
    address: str, answers: Answers, host: str
) -> None:
    status, _ = await ask(address, "/v1/explain/host/n1", host=host)
    assert status == 403
    assert not answers.asked


@pytest.mark.parametrize("host", ["localhost:8082", "127.0.0.1", "[::1]:8082"])
async def test_each_name_of_this_machine_may_ask(address: str, host: str) -> None:
    status, _ = await ask(address, "/v1/explain/host/n1", host=host)
    assert status == 200


@pytest.mark.parametrize("text", [":8082", "0.0.0.0:8082", "10.0.0.1:80", "[::]:8082", "node1:80"])
def test_no_other_machine_can_be_let_in(text: str) -> None:
    with pytest.raises(ValueError, match="an address of this machine alone"):
        parse_loopback(text)


@pytest.mark.parametrize("text", ["127.0.0.1:0", "[::1]:8082", "localhost:8082", ""])
def test_an_address_of_this_machine_is_taken(text: str) -> None:
    assert str(parse_loopback(text) or "") == text


JSON = "application/json"


async def test_an_order_to_pause_or_resume_is_a_post_of_json(
    address: str, answers: Answers
) -> None:
    body = '{"for_s": 60, "why": "upgrade"}'
    for path, sent in (("/v1/pause", body), ("/v1/pause", "{}"), ("/v1/resume", "")):
        assert await ask(address, path, method="POST", body=sent, kind=JSON) == (
            200,
            {"paused": ""},
        )
    assert answers.orders == [PauseOrder(60.0, "upgrade"), PauseOrder(), None]


@pytest.mark.parametrize(
    ("method", "kind", "body", "status"),
    [
        ("GET", JSON, "", 405),
        ("POST", "text/plain", "{}", 405),
        ("POST", "", "{}", 405),
        ("POST", JSON, "{", 400),
        ("POST", JSON, '{"for_s": -1}', 400),
        ("POST", JSON, '{"for_s": 1e9}', 400),
        ("POST", JSON, '{"form": 1}', 400),
        ("POST", JSON, '{"why": 5}', 400),
    ],
)
async def test_a_wrong_order_changes_nothing(
    address: str, answers: Answers, method: str, kind: str, body: str, status: int
) -> None:
    got, answer = await ask(address, "/v1/pause", method=method, kind=kind, body=body)
    assert got == status
    assert answer["why"]
    assert not answers.orders


async def test_an_explanation_is_text_for_the_page(address: str) -> None:
    assert await ask(address, "/v1/explain/host/n1?text") == (200, {"text": "text of n1"})
    status, answer = await ask(address, "/v1/explain/host/n2?text")
    assert (status, answer["similar"]) == (404, ["n1"])


async def test_the_page_is_one_file_that_asks_nobody_else(address: str) -> None:
    async with httpx.AsyncClient() as client:
        answer = await client.get(f"http://{address}/")
    assert answer.headers["Content-Type"].startswith("text/html")
    assert "default-src 'self'" in answer.headers["Content-Security-Policy"]
    assert not re.findall(r"(?:src|href)=(?!\"data:)|https?://", answer.text)


class Page:
    """An open page: it collects events."""

    def __init__(self, lines: AsyncIterator[str]) -> None:
        self._lines = lines

    async def next(self, wanted: str) -> Any:
        """Return the content of the next event of this name."""
        async for line in self._lines:
            if line == f"event: {wanted}":
                return json.loads((await anext(self._lines)).removeprefix("data: "))
        raise AssertionError("the stream has ended")


@contextlib.asynccontextmanager
async def opened(address: str) -> AsyncIterator[Page]:
    async with (
        httpx.AsyncClient(timeout=5.0) as client,
        client.stream("GET", f"http://{address}/v1/live") as answer,
    ):
        assert answer.headers["Content-Type"] == "text/event-stream"
        yield Page(answer.aiter_lines())


async def test_a_page_gets_all_hosts_and_then_only_those_that_changed(
    address: str, answers: Answers
) -> None:
    async with opened(address) as page:
        first = await page.next("hosts")
        assert first == {"hosts": [["n1", "idle"], ["n2", "busy"]], "gone": []}
        assert await page.next("last") == [{"about": "host n1"}]
        assert await page.next("status") == {"leads": True}
        answers.hosts = {"n1": ["n1", "drained"]}
        assert await page.next("hosts") == {"hosts": [["n1", "drained"]], "gone": ["n2"]}


async def test_more_than_ten_pages_are_refused(address: str) -> None:
    async with contextlib.AsyncExitStack() as stack:
        pages = [await stack.enter_async_context(opened(address)) for _ in range(PAGES_MAX)]
        for page in pages:
            await page.next("status")
        assert await ask(address, "/v1/live") == (
            503,
            {"status": 503, "why": "too many pages are open"},
        )
