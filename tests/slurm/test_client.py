"""The client against a server that answers in good and bad ways."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NoReturn

import msgspec
import pytest
from msgspec.structs import replace

from sunk_sync.slurm.api import transport
from sunk_sync.slurm.api.answers import SlurmAnswer, SlurmError
from sunk_sync.slurm.api.client import Access, SlurmClient
from sunk_sync.slurm.api.requests import (
    SlurmCall,
    allocate_job,
    get_node,
    list_nodes,
    post_node,
    submit_job,
)
from sunk_sync.slurm.api.token import Token
from sunk_sync.slurm.api.transport import CONNECTIONS_MAX, Network
from sunk_sync.slurm.api.versions import DIALECTS, NEWEST
from sunk_sync.telemetry.exchange import Exchange
from tests.slurm.recorded import RELEASES, recorded
from tests.slurm.recorded.server import UNSERVED, Server, drop, http, in_turn, late, send, serving

V45 = "v0.0.45"
NODE = f"GET /slurm/{V45}/node/n1"
NODES = f"GET /slurm/{V45}/nodes/"
OK = send(http(recorded("26.05", "node-dynamic")))
DENIED = http(recorded("26.05", "error-bad-token"), status=511, close=True)


@asynccontextmanager
async def connected(
    *servers: Server | str,
    token: Token | None = None,
    version: str = V45,
    heard: list[Exchange] | None = None,
) -> AsyncIterator[SlurmClient]:
    addresses = tuple(each if isinstance(each, str) else each.url for each in servers)
    client = SlurmClient(
        Access(addresses=addresses, version=version),
        token or Token(text="secret"),
        transport=Network(clock=time.monotonic),
        clock=time.monotonic,
        on_exchange=(heard if heard is not None else []).append,
    )
    try:
        yield client
    finally:
        await client.aclose()


@pytest.fixture
async def second() -> AsyncIterator[Server]:
    async with serving() as running:
        yield running


async def names_of(client: SlurmClient, call: SlurmCall | None = None) -> tuple[list[str], object]:
    """The names that a listing handed over, and what came of it."""
    names: list[str] = []

    async def take(records: Sequence[bytes], asked_s: float) -> SlurmError | None:
        assert asked_s <= time.monotonic()
        names.extend(msgspec.json.decode(record)["name"] for record in records)
        return None

    return names, await client.read_records(call or list_nodes(), "nodes", take)


def kind_of(answer: object) -> str:
    return answer.kind if isinstance(answer, SlurmError) else type(answer).__name__


def big_listing(count: int) -> bytes:
    whole = json.loads(recorded("26.05", "nodes-3-idle"))
    whole["nodes"] = [{**whole["nodes"][0], "name": f"n{i}"} for i in range(count)]
    return json.dumps(whole, indent=1).encode()


@pytest.mark.parametrize("release", RELEASES)
async def test_the_newest_version_of_both_is_found(server: Server, release: str) -> None:
    """Newest first; a version that is not served is a 404 in plain text."""
    version = RELEASES[release]
    server.speak(release, version, "v0.0.40")
    server.answers[f"GET /slurm/{version}/node/n1"] = send(http(recorded(release, "node-dynamic")))
    async with connected(server, version="auto") as client:
        answer = await client.call(get_node("n1"))
        again = await client.call(get_node("n1"))
    assert isinstance(answer, SlurmAnswer)
    assert isinstance(again, SlurmAnswer)
    assert answer.version == version
    assert server.lines[-3:] == [
        f"GET /slurm/{version}/ping/",
        *[f"GET /slurm/{version}/node/n1"] * 2,
    ]


async def test_calls_that_begin_together_negotiate_once(server: Server) -> None:
    """The others wait for the first."""
    server.speak("26.05", V45)
    server.answers[NODE] = OK
    async with connected(server, version="auto") as client:
        await asyncio.gather(*(client.call(get_node("n1")) for _ in range(5)))
    assert server.lines.count(f"GET /slurm/{V45}/ping/") == 1


async def test_a_server_that_fails_while_negotiating_is_a_value(server: Server) -> None:
    """Only a 404 means another version."""
    server.answers[f"GET /slurm/{NEWEST}/ping/"] = send(DENIED, close=True)
    async with connected(server, version="auto") as client:
        assert kind_of(await client.call(get_node("n1"))) == "auth"
    assert len(server.lines) == 1


async def test_a_server_of_other_versions_is_a_value(server: Server) -> None:
    """All were asked for, none is spoken."""
    async with connected(server, version="auto") as client:
        assert kind_of(await client.call(get_node("n1"))) == "unserved"
    assert len(server.lines) == len(DIALECTS)


async def test_an_older_server_is_noticed_and_negotiated_with_anew(server: Server) -> None:
    """The call itself is repeated in the version that is served now."""
    server.speak("26.05", V45)
    server.answers[NODE] = OK
    async with connected(server, version="auto") as client:
        await client.call(get_node("n1"))
        server.answers.clear()
        server.speak("24.11", "v0.0.42")
        server.answers["GET /slurm/v0.0.42/node/n1"] = OK
        answer = await client.call(get_node("n1"))
    assert isinstance(answer, SlurmAnswer)
    assert answer.version == "v0.0.42"


async def test_a_newer_release_is_noticed_though_the_old_version_is_served(server: Server) -> None:
    """After an upgrade the next call asks for the newest version again."""
    old, new = (send(http(recorded(r, "node-dynamic"))) for r in ("24.11", "26.05"))
    server.speak("24.11", "v0.0.42")
    server.answers["GET /slurm/v0.0.42/node/n1"] = in_turn(old, new)
    async with connected(server, version="auto") as client:
        await client.call(get_node("n1"))
        server.speak("26.05", V45)
        server.answers[NODE] = new
        await client.call(get_node("n1"))
        await client.call(get_node("n1"))
    assert server.lines[-1] == NODE


async def test_the_first_of_two_answers_counts_F4(server: Server) -> None:
    """26.05 sends a second one, in plain text, behind every error."""
    error = http(recorded("26.05", "error-node-unknown"), status=422, close=True)
    server.answers[f"POST /slurm/{V45}/node/n1"] = send(
        error, http(b"Invalid node name specified", status=422, close=True), close=True
    )
    async with connected(server) as client:
        answer = await client.call(post_node("n1", b"{}"))
    assert isinstance(answer, SlurmError)
    assert (answer.kind, answer.error_number) == ("no_such", 2018)


async def test_the_second_answer_is_never_that_of_the_next_question_F4(server: Server) -> None:
    """Also where the first one does not announce the end of the connection."""
    error = http(recorded("26.05", "error-node-unknown"), status=422)
    server.answers[f"POST /slurm/{V45}/node/n1"] = send(error, http(b"second", status=422))
    server.answers[NODE] = OK
    async with connected(server) as client:
        for _ in range(3):
            assert kind_of(await client.call(post_node("n1", b"{}"))) == "no_such"
            assert kind_of(await client.call(get_node("n1"))) == "SlurmAnswer"


async def test_a_connection_is_used_again(server: Server) -> None:
    """A hundred questions one after the other need one."""
    server.answers[NODE] = OK
    async with connected(server) as client:
        for _ in range(100):
            assert isinstance(await client.call(get_node("n1")), SlurmAnswer)
    assert server.accepted == 1


HALF = recorded("26.05", "nodes-3-idle")[:3000]
SMALL = recorded("26.05", "node-dynamic")


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (send(http(b"<html>busy</html>")), "garbage"),
        (send(http(b"<html>busy</html>", status=502)), "garbage"),
        (send(http(b"")), "garbage"),
        (send(http(b"{}")), "garbage"),
        (send(http(b"", status=302)), "garbage"),
        (send(http(SMALL, status=500)), "garbage"),
        (send(http(SMALL[:900])), "garbage"),
        (send(http(SMALL[:900], length=len(SMALL)), close=True), "broken"),
        (send(b"no http at all\r\n\r\n", close=True), "broken"),
        (send(b"HTTP/1.1 200 OK\r\nContent-Le", close=True), "broken"),
        (drop(), "broken"),
        (late(5, OK), "timeout"),
        (UNSERVED, "unserved"),
        (send(http(b"Authentication failure", status=401, close=True), close=True), "auth"),
        (send(DENIED, close=True), "auth"),
        (send(http(recorded("26.05", "error-ctld-down-nodes"), status=502)), "controller_down"),
        (send(http(recorded("26.05", "error-get-node-unknown"))), "no_such"),
        (send(http(b'"' + b"x" * 5_000_000 + b'"')), "too_large"),
        (send(http(b"", status=304)), "SlurmAnswer"),
        (OK, "SlurmAnswer"),
    ],
)
async def test_every_answer_is_a_value_F4(server: Server, answer: object, kind: str) -> None:
    """HTML, half an answer, garbage, slow, oversized, errors with any status: never raised."""
    server.answers[NODE] = answer  # type: ignore[assignment]
    heard: list[Exchange] = []
    async with connected(server, heard=heard) as client:
        call = msgspec.structs.replace(get_node("n1"), deadline_s=0.5)
        assert kind_of(await client.call(call)) == kind
    assert heard
    assert {exchange.path for exchange in heard} == {"/slurm/node/{name}"}


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (send(http(HALF)), "garbage"),
        (send(http(HALF, length=9000), close=True), "broken"),
        (send(http(recorded("26.05", "error-ctld-down-nodes"), status=502)), "controller_down"),
        (send(http(recorded("26.05", "error-ctld-down-nodes"))), "controller_down"),
        (send(http(b'{"nodes":null,"errors":[],"meta":{}}')), "garbage"),
        (send(http(b'{"nodes":[{"name":"n1"}],"errors":[{"error_number":2002}]}')), "refused"),
        (send(http(b'{"nodes":[{"name":"n1"}]}')), "garbage"),
        (send(http(b"<html>")), "garbage"),
        (send(http(b'{"nodes":[], "errors":[],"meta":{}}')), "SlurmAnswer"),
        (send(http(recorded("26.05", "nodes-3-idle"))), "SlurmAnswer"),
    ],
)
async def test_a_listing_is_complete_only_without_any_error_F4(
    server: Server, answer: object, kind: str
) -> None:
    """200 with errors, no array, half an array: the rows may be true, but they are not all."""
    server.answers[NODES] = answer  # type: ignore[assignment]
    async with connected(server) as client:
        _, outcome = await names_of(client)
    assert kind_of(outcome) == kind


async def test_a_listing_that_broke_is_not_handed_over_twice(server: Server) -> None:
    """What was told is told; the poll asks again by itself."""
    whole = big_listing(200)
    broken = send(http(whole[:200_000], length=len(whole)), close=True)
    server.answers[NODES] = in_turn(broken, send(http(whole)))
    async with connected(server) as client:
        names, outcome = await names_of(client)
        assert kind_of(outcome) == "broken"
        assert 0 < len(names) < 200
        names, outcome = await names_of(client)
    assert names == [f"n{i}" for i in range(200)]
    assert isinstance(outcome, SlurmAnswer)


async def test_reading_a_big_listing_lets_others_run(server: Server) -> None:
    """10,000 nodes, 20 MB: the loop turns between slices."""
    server.answers[NODES] = send(http(big_listing(10_000)))
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async with connected(server) as client:
        running = asyncio.ensure_future(others())
        names, outcome = await names_of(client)
        running.cancel()
    assert len(names) == 10_000
    assert isinstance(outcome, SlurmAnswer)
    assert len(outcome.body) < 2_000
    assert turns > 200


async def test_unchanged_is_an_answer_of_its_own(server: Server) -> None:
    """304 to `update_time`."""
    server.answers[f"{NODES}?update_time=17"] = send(http(b"", status=304))
    async with connected(server) as client:
        names, outcome = await names_of(client, list_nodes(changed_since_s=17))
    assert isinstance(outcome, SlurmAnswer)
    assert outcome.unchanged
    assert names == []


async def test_a_dead_address_is_passed_over_and_the_living_one_kept(server: Server) -> None:
    """The first in order is asked once, then no more while the second works."""
    server.answers[NODE] = OK
    heard: list[Exchange] = []
    async with connected("http://127.0.0.1:1", server, heard=heard) as client:
        for _ in range(3):
            assert isinstance(await client.call(get_node("n1")), SlurmAnswer)
        assert client.endpoint.address == server.url
    assert [exchange.status for exchange in heard] == ["connection", "200", "200", "200"]


async def test_the_first_address_is_asked_again_when_the_second_fails(
    server: Server, second: Server
) -> None:
    """There and back."""
    server.answers[NODE] = in_turn(drop(), drop(), OK)
    second.answers[NODE] = in_turn(OK, drop(), drop())
    async with connected(server, second) as client:
        addresses = []
        for _ in range(3):
            assert isinstance(await client.call(get_node("n1")), SlurmAnswer)
            addresses.append(client.endpoint.address)
    assert addresses == [second.url, server.url, server.url]


async def test_after_a_time_out_the_next_call_goes_elsewhere(
    server: Server, second: Server
) -> None:
    """A server that hangs costs one deadline, not one for each call."""
    server.answers[NODE] = late(5, OK)
    second.answers[NODE] = OK
    call = msgspec.structs.replace(get_node("n1"), deadline_s=0.2)
    async with connected(server, second) as client:
        assert kind_of(await client.call(call)) == "timeout"
        assert kind_of(await client.call(call)) == "SlurmAnswer"


@pytest.mark.parametrize("answer", [drop(), send(http(b"<html>", status=502))])
async def test_a_write_that_may_have_happened_is_not_sent_again(
    server: Server, second: Server, answer: object
) -> None:
    """The caller reads first; only an address that was never reached is passed over."""
    post = f"POST /slurm/{V45}/node/n1"
    server.answers[post] = answer  # type: ignore[assignment]
    second.answers[post] = send(http(b'{"errors":[]}'))
    async with connected(server, second) as client:
        assert kind_of(await client.call(post_node("n1", b"{}"))) in ("broken", "garbage")
    assert (len(server.requests), len(second.requests)) == (1, 0)
    async with connected("http://127.0.0.1:1", second) as client:
        assert isinstance(await client.call(post_node("n1", b"{}")), SlurmAnswer)


PROBE = f"GET /slurm/{V45}/jobs/state/?job_id=1"
SUBMIT = f"POST /slurm/{V45}/job/submit"
THERE = send(http(b'{"jobs":[],"errors":[]}'))
MADE = send(http(b'{"job_id":7,"errors":[]}'))
BAD_GATEWAY = send(http(b"<html>502 Bad Gateway</html>", status=502))
AWAY = send(http(b'{"errors":[{"error_number":1800,"error":"connect failure"}]}', status=502))


def submission() -> SlurmCall:
    """One that is wanted from now on."""
    return submit_job(b"{}", since_s=time.monotonic())


async def test_a_submission_is_not_sent_where_slurmctld_does_not_answer_F2(server: Server) -> None:
    """Behind a proxy without slurmrestd, or without slurmctld: nothing is done or waited for."""
    server.answers[PROBE] = in_turn(BAD_GATEWAY, drop(), drop(), AWAY)
    async with connected(server) as client:
        for kind in ("garbage", "broken", "controller_down"):
            failure = await client.call(submission())
            assert kind_of(failure) == kind
            assert isinstance(failure, SlurmError)
            assert failure.nothing_done
    assert SUBMIT not in server.lines


async def test_of_submissions_that_begin_together_one_probe_is_enough_F2(server: Server) -> None:
    """What begins later needs a later answer of slurmctld."""
    server.answers = {PROBE: THERE, SUBMIT: MADE}
    async with connected(server) as client:
        calls = [submission() for _ in range(3)]
        answers = await asyncio.gather(*map(client.call, calls))
        assert all(isinstance(answer, SlurmAnswer) for answer in answers)
        assert server.lines == [PROBE, *[SUBMIT] * 3]
        await client.call(allocate_job(b"{}", since_s=time.monotonic()))
    assert server.lines[4:] == [PROBE, f"POST /slurm/{V45}/job/allocate"]


async def test_after_a_failure_the_next_submission_asks_first_F2(server: Server) -> None:
    """However short ago the address answered."""
    server.answers = {PROBE: THERE, SUBMIT: BAD_GATEWAY}
    async with connected(server) as client:
        failure = await client.call(submission())
        assert isinstance(failure, SlurmError)
        assert not failure.nothing_done
        await client.call(submission())
    assert server.lines == [PROBE, SUBMIT] * 2


async def test_a_submission_before_any_version_is_agreed_is_not_sent_F2(server: Server) -> None:
    """The ping failed: its failure is told as that of the submission, which nobody received."""
    server.answers[f"GET /slurm/{V45}/ping/"] = BAD_GATEWAY
    async with connected(server, version="auto") as client:
        failure = await client.call(submission())
    assert isinstance(failure, SlurmError)
    assert failure.nothing_done
    assert failure.kind == "garbage"


async def test_a_refused_probe_is_an_answer_of_slurmctld_F2(server: Server) -> None:
    """No job has that number."""
    refused = b'{"errors":[{"error_number":2017,"error":"Invalid job id"}]}'
    server.answers = {PROBE: send(http(refused)), SUBMIT: MADE}
    async with connected(server) as client:
        assert isinstance(await client.call(submission()), SlurmAnswer)


async def test_a_submission_goes_to_the_address_that_answers(
    server: Server, second: Server
) -> None:
    """It was not sent to the first one."""
    server.answers[PROBE] = BAD_GATEWAY
    second.answers = {PROBE: THERE, SUBMIT: MADE}
    async with connected(server, second) as client:
        assert isinstance(await client.call(submission()), SlurmAnswer)


@pytest.mark.parametrize(
    ("failure", "nothing_done"),
    [
        (SlurmError("unreachable", "connection refused"), True),
        (SlurmError("unserved", "404"), True),
        (SlurmError("auth", "", 1007), True),
        (SlurmError("unwanted", ""), True),
        (SlurmError("controller_down", "connect failure", 1800), True),
        (SlurmError("controller_down", "connect failure", 1001), True),
        (SlurmError("controller_down", "too many", 1804), True),
        (SlurmError("controller_down", "too many", 1805), True),
        (SlurmError("controller_down", "standby", 2027), True),
        (SlurmError("controller_down", "standby", 2131), True),
        (SlurmError("controller_down", "receive failure", 1802), False),
        (SlurmError("controller_down", "Unspecified error", -1), False),
        (SlurmError("broken", ""), False),
        (SlurmError("timeout", ""), False),
        (SlurmError("garbage", "502 of a proxy"), False),
        (SlurmError("too_large", ""), False),
        (SlurmError("timeout", "", sent=False), True),
        (SlurmError("garbage", "", sent=False), True),
        (SlurmError("auth", "", 1007, job_id=7), False),
    ],
    ids=str,
)
def test_only_proof_counts_as_nothing_done_F2(failure: SlurmError, nothing_done: bool) -> None:
    """All else may have reached slurmctld, or may still reach it."""
    assert failure.nothing_done is nothing_done


async def test_a_rotated_token_is_read_again_and_the_call_repeated_F5(
    server: Server, tmp_path: Path
) -> None:
    """Once, and also where the file's time did not change."""
    path = tmp_path / "token"
    path.write_text("old")
    server.answers[NODE] = in_turn(late(0.05, send(DENIED, close=True)), OK)
    async with connected(server, token=Token(path=str(path))) as client:
        asked = asyncio.ensure_future(client.call(get_node("n1")))
        await asyncio.sleep(0.02)
        path.write_text("new")
        assert isinstance(await asked, SlurmAnswer)
    assert [each.headers["x-slurm-user-token"] for each in server.requests] == ["old", "new"]


async def test_a_token_that_is_not_taken_is_not_offered_twice_F5(
    server: Server, tmp_path: Path
) -> None:
    """The file holds nothing newer: one refusal is enough."""
    path = tmp_path / "token"
    path.write_text("old")
    server.answers[NODE] = send(DENIED, close=True)
    async with connected(server, token=Token(path=str(path))) as client:
        assert kind_of(await client.call(get_node("n1"))) == "auth"
    assert len(server.requests) == 1


async def test_what_has_come_meanwhile_is_not_asked_for_with_the_newer_token_F2(
    server: Server, tmp_path: Path
) -> None:
    """A submission was refused for its token, and its job has been read since (541931)."""
    path = tmp_path / "token"
    path.write_text("old")
    server.answers["POST /slurm/" + V45 + "/node/n1"] = late(0.05, send(DENIED, close=True))
    wanted = True
    async with connected(server, token=Token(path=str(path))) as client:
        call = replace(post_node("n1", b"{}"), wanted=lambda: wanted)
        asked = asyncio.ensure_future(client.call(call))
        await asyncio.sleep(0.02)
        path.write_text("new")
        wanted = False
        assert kind_of(await asked) == "unwanted"
        assert kind_of(await client.call(call)) == "unwanted"
    assert len(server.requests) == 1


async def test_the_user_name_is_sent_only_where_one_is_given(server: Server) -> None:
    """Without it the identity is the token's."""
    server.answers[NODE] = OK
    async with connected(server) as client:
        await client.call(get_node("n1"))
    access = Access(addresses=(f"{server.url}/",), version=V45, user_name="slurm")
    heard: list[Exchange] = []
    named = SlurmClient(
        access,
        Token(),
        transport=Network(clock=time.monotonic),
        clock=time.monotonic,
        on_exchange=heard.append,
    )
    await named.call(get_node("n1"))
    await named.aclose()
    first, last = server.requests
    assert "x-slurm-user-name" not in first.headers
    assert last.headers["x-slurm-user-name"] == "slurm"
    assert "x-slurm-user-token" not in last.headers


async def test_eight_connections_and_two_of_them_for_what_is_urgent(server: Server) -> None:
    """Twenty slow listings never keep a drain waiting."""
    late_s = 2.0
    server.answers[NODES] = late(late_s, send(http(recorded("26.05", "nodes-3-idle"))))
    server.answers[NODE] = OK
    async with connected(server) as client:
        listings = [asyncio.ensure_future(names_of(client)) for _ in range(20)]
        async with asyncio.timeout(late_s):
            while server.open_now < 6:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        began = time.monotonic()
        answers = await asyncio.gather(*(client.call(get_node("n1")) for _ in range(10)))
        assert time.monotonic() - began < late_s / 2
        assert {kind_of(answer) for answer in answers} == {"SlurmAnswer"}
        await asyncio.gather(*listings)
    assert server.open_most <= 8


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("http://127.0.0.1:1", "unreachable"),
        ("http://nosuch.invalid:6820", "unreachable"),
        ("ftp://127.0.0.1:6820", "unreachable"),
        ("http://127.0.0.1:99999", "unreachable"),
        ("http://[bad", "unreachable"),
        ("not an address", "unreachable"),
    ],
)
async def test_an_address_where_nothing_is_is_a_value_F4(address: str, kind: str) -> None:
    """Refused, unknown, mistyped."""
    async with connected(address) as client:
        assert kind_of(await client.call(get_node("n1"))) == kind


async def test_a_server_without_tls_is_a_value(server: Server) -> None:
    """https:// to a plain port."""
    async with connected(server.url.replace("http", "https")) as client:
        assert kind_of(await client.call(get_node("n1"))) == "unreachable"


async def test_an_address_that_swallows_connections_is_left_soon(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not the whole deadline: the next address has its turn."""

    async def swallow(*_: object, **__: object) -> NoReturn:
        await asyncio.sleep(3600)
        raise AssertionError

    monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", swallow)
    monkeypatch.setattr(transport, "CONNECT_S", 0.05)
    heard: list[Exchange] = []
    client = SlurmClient(
        Access(addresses=("http://a.invalid", "http://b.invalid"), version=V45),
        Token(),
        transport=Network(clock=time.monotonic),
        clock=time.monotonic,
        on_exchange=heard.append,
    )
    failure = await client.call(post_node("n1", b"{}"))
    assert failure == SlurmError("unreachable", "no connection within 0.05 s")
    assert [exchange.status for exchange in heard] == ["connection", "connection"]
    assert server.requests == []


async def test_waiting_for_a_connection_counts_into_the_deadline(server: Server) -> None:
    """Nothing waits for ever behind slow calls, nor longer than it would alone."""
    server.answers[NODE] = late(0.6, OK)
    call = msgspec.structs.replace(get_node("n1"), deadline_s=0.8)
    async with connected(server) as client:
        answers = await asyncio.gather(*(client.call(call) for _ in range(2 * CONNECTIONS_MAX)))
    unanswered = [answer for answer in answers if isinstance(answer, SlurmError)]
    assert len(unanswered) >= CONNECTIONS_MAX
    assert {kind_of(answer) for answer in unanswered} == {"timeout"}


async def test_a_name_cannot_reach_another_path(server: Server) -> None:
    """Annotations are written by people."""
    async with connected(server) as client:
        await client.call(get_node("../jobs/?x=1#y"))
    assert server.lines == [f"GET /slurm/{V45}/node/..%2Fjobs%2F%3Fx%3D1%23y"]
