"""`sunk-sync pause` and `resume`: the order that is sent, and what is printed."""

import io
import json

import httpx
import respx

from sunk_sync.cli.pausing import pause, resume
from sunk_sync.settings.types import Address

URL = "http://127.0.0.1:8082"
HERE = Address("127.0.0.1", 8082)


def test_an_order_is_json_and_the_answer_is_one_line(respx_mock: respx.MockRouter) -> None:
    answer = httpx.Response(200, json={"version": 1, "paused": "paused until resumed: why so"})
    route = respx_mock.post(f"{URL}/v1/pause").mock(return_value=answer)
    out = io.StringIO()
    assert pause(HERE, for_s=60.0, why="why so", out=out) == 0
    sent = route.calls.last.request
    assert json.loads(sent.content) == {"for_s": 60.0, "why": "why so"}
    assert sent.headers["Content-Type"] == "application/json"
    assert out.getvalue() == "sunk-sync: paused until resumed: why so\n"


def test_resume_says_that_it_goes_on(respx_mock: respx.MockRouter) -> None:
    answer = httpx.Response(200, json={"version": 1, "paused": ""})
    respx_mock.post(f"{URL}/v1/resume").mock(return_value=answer)
    out = io.StringIO()
    assert resume(HERE, out=out) == 0
    assert out.getvalue() == "sunk-sync: not paused\n"


def test_an_order_that_is_not_taken_is_exit_code_2_with_the_reason(
    respx_mock: respx.MockRouter,
) -> None:
    answer = httpx.Response(409, json={"status": 409, "why": "no election"})
    respx_mock.post(f"{URL}/v1/pause").mock(return_value=answer)
    errors = io.StringIO()
    assert pause(HERE, for_s=None, why="", errors=errors) == 2
    assert errors.getvalue() == "sunk-sync: 127.0.0.1:8082 answered 409: no election\n"
