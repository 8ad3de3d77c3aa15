"""F6: the client of slurmrestd sends a write only while this replica leads."""

import time

from sunk_sync.slurm.api.answers import SlurmError, SlurmResponse
from sunk_sync.slurm.api.requests import CALL_S, cancel_jobs, get_node, post_node
from tests.kit.slurm_client import NODE, OK, V45, connected, kind_of
from tests.slurm.recorded.server import Server, http, late, send

POST = f"POST /slurm/{V45}/node/n1"
DONE = send(http(b'{"errors":[]}'))
OPEN_S = 5.0


async def test_a_standby_sends_no_write_and_all_its_reads_F6(server: Server) -> None:
    server.answers |= {NODE: OK, POST: DONE}
    async with connected(server) as client:
        client.left_s = lambda: 0.0
        for call in (post_node("n1", b"{}"), cancel_jobs(b"{}")):
            failure = await client.call(call)
            assert isinstance(failure, SlurmError)
            assert failure.kind == "fenced"
            assert failure.nothing_done
        assert server.requests == []
        assert isinstance(await client.call(get_node("n1")), SlurmResponse)


async def test_a_fence_that_closes_while_a_connection_is_opened_stops_the_write_F6(
    server: Server,
) -> None:
    """A frozen machine wakes up there."""
    server.answers[POST] = DONE
    async with connected(server) as client:
        left = iter((OPEN_S, OPEN_S, 0.0))
        client.left_s = lambda: next(left)
        assert kind_of(await client.call(post_node("n1", b"{}"))) == "fenced"
        assert server.requests == []
        client.left_s = lambda: OPEN_S
        assert isinstance(await client.call(post_node("n1", b"{}")), SlurmResponse)


async def test_a_write_waits_no_longer_than_the_fence_is_open_F6(server: Server) -> None:
    server.answers[POST] = late(30, DONE)
    async with connected(server) as client:
        client.left_s = lambda: 0.2
        began_s = time.monotonic()
        assert kind_of(await client.call(post_node("n1", b"{}"))) == "timeout"
        assert time.monotonic() - began_s < CALL_S / 2
