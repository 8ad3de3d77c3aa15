"""The Slurm client with real slurmctld and slurmrestd, 26.05 and 24.11."""

import asyncio
import os
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from sunk_sync.core.model.actions import Action, Drain, RewriteReason, SetComment, Undrain
from sunk_sync.core.model.facts import Confirmed, ListingEnded, Lost, News, Observed, SlurmNode
from sunk_sync.core.model.node_mark import Mark, mark_text
from sunk_sync.core.model.outcomes import Done, Outcome, Refused, Unsure
from sunk_sync.core.translate.node_states import sanitise_reason
from sunk_sync.slurm.api import controller
from sunk_sync.slurm.api.answers import SlurmError, SlurmResponse
from sunk_sync.slurm.api.client import Access, SlurmClient
from sunk_sync.slurm.api.requests import get_node, post_node
from sunk_sync.slurm.api.token import Token
from sunk_sync.slurm.api.transport import Network
from sunk_sync.slurm.api.versions import dialect_of
from sunk_sync.slurm.decode.nodes import read_nodes
from sunk_sync.slurm.read.nodes import NodePoll
from sunk_sync.slurm.read.pacing import PollTiming, Time
from sunk_sync.slurm.write.nodes import SlurmPush
from sunk_sync.telemetry.exchange import Exchange
from tests.real.conftest import for_each_slurm
from tests.real.testbed import SlurmConf, SlurmServer

pytestmark = [
    pytest.mark.real,
    pytest.mark.both_slurms("each version speaks its own releases of the API"),
]

CORDONED = "k8s: node cordoned"
LIFTED = "lifted, was k8s: node cordoned"
MARK = mark_text(Mark(cluster="ours", node="n1"))


class Reader:
    """A poll of a real server, and its facts."""

    def __init__(self, client: SlurmClient) -> None:
        self.news: list[News] = []
        moments = Time(clock=time.monotonic, sleep=asyncio.sleep, random=Random(1).random)
        self.poll = NodePoll(client, self.tell, timing=PollTiming(), time=moments)

    async def tell(self, news: Sequence[News]) -> None:
        self.news.extend(news)

    async def list(self) -> dict[str, SlurmNode] | None:
        """Make one listing; return the nodes, or None if nothing has changed."""
        self.news.clear()
        assert await self.poll.poll() is None
        if isinstance(self.news[-1], Confirmed):
            return None
        assert isinstance(self.news[-1], ListingEnded)
        rows = [news.row for news in self.news if isinstance(news, Observed)]
        return {row.name: row for row in rows if isinstance(row, SlurmNode)}


@asynccontextmanager
async def connected(
    server: SlurmServer,
    *,
    token: Token | None = None,
    heard: list[Exchange] | None = None,
    version: str = "auto",
) -> AsyncIterator[SlurmClient]:
    client = SlurmClient(
        Access(addresses=(server.url,), version=version),
        token or Token(text=server.token()),
        transport=Network(clock=time.monotonic),
        clock=time.monotonic,
        on_exchange=([] if heard is None else heard).append,
    )
    try:
        yield client
    finally:
        await client.aclose()


crowd = for_each_slurm(
    lambda version: SlurmServer(version, SlurmConf(slurmds=1, external_nodes=60)), kube=None
)


own_server = for_each_slurm(
    lambda version: SlurmServer(version, SlurmConf(slurmds=2)), scope="function", kube=None
)
"""A server that a test may break."""


@pytest.fixture
async def client(slurm: SlurmServer) -> AsyncIterator[SlurmClient]:
    async with connected(slurm) as connection:
        yield connection
    for name, state in slurm.states().items():
        slurm.update_slurm_node(name, comment="")
        if "DRAIN" in state:
            slurm.update_slurm_node(name, state=["UNDRAIN"], reason="put back")
        if "DOWN" in state:
            slurm.update_slurm_node(name, state=["RESUME"])
    slurm.wait_until_idle()


async def do(client: SlurmClient, *actions: Action) -> list[Outcome]:
    return list(await SlurmPush(client, time.monotonic).push(actions))


async def fails(client: SlurmClient, request: Any, kind: str) -> SlurmError:
    answer = await client.call(request)
    assert isinstance(answer, SlurmError)
    assert answer.kind == kind
    return answer


async def read(client: SlurmClient, name: str) -> SlurmNode:
    answer = await client.call(get_node(name))
    assert isinstance(answer, SlurmResponse)
    nodes = read_nodes(answer.body)
    assert not isinstance(nodes, SlurmError)
    return nodes[0]


async def test_the_newest_version_is_negotiated(slurm: SlurmServer, client: SlurmClient) -> None:
    await read(client, "n1")
    assert client.endpoint.version == slurm.api_version
    assert client.endpoint.release.startswith(slurm.version)


async def test_the_answer_after_an_error_belongs_to_its_request_F4(client: SlurmClient) -> None:
    """26.05 sends two responses to an invalid request."""
    for _ in range(5):
        wrong = post_node("nosuch", b'{"state":["DRAIN"],"reason":"k8s: x"}')
        assert (await fails(client, wrong, "no_such")).error_number == 2018
        await fails(client, get_node("nosuch"), "no_such")
        assert (await read(client, "n1")).name == "n1"


async def test_a_listing_contains_every_node(slurm: SlurmServer, client: SlurmClient) -> None:
    nodes = await Reader(client).list()
    assert nodes is not None
    assert {name: set(node.state) for name, node in nodes.items()} == {
        name: set(state) for name, state in slurm.states().items()
    }


async def test_an_unchanged_cluster_is_confirmed_by_304_if_supported(
    slurm: SlurmServer, client: SlurmClient
) -> None:
    reader = Reader(client)
    quiet = dialect_of(slurm.api_version).conditional_nodes
    for _ in range(8):
        nodes = await reader.list()
        if nodes is None or not quiet:
            break
        await asyncio.sleep(1)
    assert (nodes is None) == quiet


async def test_no_change_is_missed_with_304(slurm: SlurmServer, client: SlurmClient) -> None:
    """update_time has whole seconds, so changes come at any moment around a listing."""
    reader = Reader(client)
    random = Random(7)
    known = await reader.list() or {}
    for number in range(16):
        await asyncio.sleep(random.uniform(0, 1.2))
        slurm.update_slurm_node("n2", comment=f"change {number}")
        known = await reader.list() or known
        assert known["n2"].comment == f"change {number}"


async def test_a_drain_is_set_changed_and_lifted_S1_S2_S9_S14(
    slurm: SlurmServer, client: SlurmClient
) -> None:
    drains = Drain("n1", CORDONED), Drain("n1", "k8s: pod terminating")
    for action in (*drains, Undrain("n1", LIFTED)):
        (outcome,) = await do(client, action)
        assert isinstance(outcome, Done)
        (news,) = outcome.seen
        assert isinstance(news, Observed)
        assert isinstance(news.row, SlurmNode)
        after = await read(client, "n1")
        assert (after.state - {"NOT_RESPONDING"}, after.reason) == (news.row.state, news.row.reason)
        assert isinstance((await do(client, action))[0], Done)
    clears = dialect_of(slurm.api_version).undrain_clears_reason
    assert after.reason == ("" if clears else LIFTED)


async def test_a_foreign_drain_is_not_changed_S11_S15(
    slurm: SlurmServer, client: SlurmClient
) -> None:
    slurm.update_slurm_node("n1", state=["DRAIN"], reason="bad disk")
    slurm.update_slurm_node("n2", state=["DRAIN"])
    before = [await read(client, name) for name in ("n1", "n2")]
    actions = [kind(name, LIFTED) for name in ("n1", "n2") for kind in (Drain, Undrain)]
    assert {type(outcome) for outcome in await do(client, *actions)} == {Refused}
    assert [await read(client, name) for name in ("n1", "n2")] == before


async def test_a_remaining_reason_of_ours_is_rewritten_S2(
    slurm: SlurmServer, client: SlurmClient
) -> None:
    """24.11 keeps the reason of an undrained node; 26.05 does not."""
    slurm.update_slurm_node("n1", state=["DRAIN"], reason="k8s: old")
    slurm.update_slurm_node("n1", state=["UNDRAIN"])
    (outcome,) = await do(client, RewriteReason("n1", LIFTED))
    after = await read(client, "n1")
    clears = dialect_of(slurm.api_version).undrain_clears_reason
    assert (type(outcome), after.reason) == ((Refused, "") if clears else (Done, LIFTED))
    assert "DRAIN" not in after.state


async def test_a_reason_is_read_back_unchanged_S17(client: SlurmClient) -> None:
    texts = ["größer µ 中文 🙂", 'say "no" \\ #1 a=b, c;d', "x" * 400, "a\tb\nc", "<&>'`$(x)|%s%n"]
    for text in texts:
        reason = sanitise_reason(f"k8s: {text}")
        assert isinstance((await do(client, Drain("n1", reason)))[0], Done)
        assert (await read(client, "n1")).reason == reason


async def test_a_mark_replaces_only_an_empty_comment_or_ours_M8(
    slurm: SlurmServer, client: SlurmClient
) -> None:
    newer = mark_text(Mark(cluster="ours", node="n1", pod="p"))
    for text in (MARK, newer):
        assert isinstance((await do(client, SetComment("n1", text)))[0], Done)
        assert (await read(client, "n1")).comment == text
    slurm.update_slurm_node("n1", comment="rack 7")
    assert isinstance((await do(client, SetComment("n1", MARK)))[0], Refused)
    assert (await read(client, "n1")).comment == "rack 7"


async def test_many_drains_with_one_reason_are_one_request(slurm: SlurmServer) -> None:
    heard: list[Exchange] = []
    async with connected(slurm, heard=heard) as client:
        names = ["n1", "n2", "n3", "nosuch"]
        outcomes = await do(client, *(Drain(name, CORDONED) for name in names))
        assert [type(outcome) for outcome in outcomes] == [Done, Done, Done, Refused]
        assert [each.path for each in heard if each.method == "POST"] == ["/slurm/nodes/"]
        await do(client, *(Undrain(name, LIFTED) for name in names))
    slurm.wait_until_idle()


async def test_one_listing_precedes_more_than_50_drains_S0(crowd: SlurmServer) -> None:
    names = crowd.conf.external_names
    heard: list[Exchange] = []
    async with connected(crowd, heard=heard) as client:
        outcomes = await do(client, *(Drain(name, CORDONED) for name in names))
        assert [type(outcome) for outcome in outcomes] == [Done] * 60
        asked = [(each.method, each.path) for each in heard if "node" in each.path]
        assert asked == [("GET", "/slurm/nodes/"), ("POST", "/slurm/nodes/")]
        await do(client, *(Undrain(name, LIFTED) for name in names))


async def test_the_configuration_of_slurmctld_is_read(
    slurm: SlurmServer, client: SlurmClient
) -> None:
    conf = await controller.read_conf(client)
    if dialect_of(slurm.api_version).conf:
        assert not isinstance(conf, SlurmError)
        assert (conf.kill_wait_s, conf.message_timeout_s) == (slurm.conf.kill_wait_s, 10)
    else:
        assert isinstance(conf, SlurmError)
        assert conf.kind == "unserved"
    pings = await controller.ping(client)
    assert not isinstance(pings, SlurmError)
    assert [ping.responding for ping in pings] == [True]
    assert not isinstance(await controller.diag(client), SlurmError)


async def test_an_expired_token_is_reported_and_a_new_one_is_used_F5(
    slurm: SlurmServer, tmp_path: Path
) -> None:
    path = tmp_path / "token"
    path.write_text(slurm.token(lifespan_s=1))
    token = Token(path=str(path))
    async with connected(slurm, token=token) as client:
        expires_at_s = token.current() and token.expires_at_s
        assert expires_at_s
        await asyncio.sleep(max(0.0, float(expires_at_s) - time.time()) + 1.1)
        await fails(client, get_node("n1"), "auth")
        path.write_text(slurm.token())
        assert isinstance(await client.call(get_node("n1")), SlurmResponse)


async def test_slurmctld_down_is_reported_and_recovers_F4(own_server: SlurmServer) -> None:
    async with connected(own_server) as client:
        reader = Reader(client)
        running = asyncio.ensure_future(reader.poll.run())
        await until(lambda: ListingEnded("slurm_nodes") in reader.news)
        await asyncio.to_thread(own_server.stop_slurmctld)
        (outcome,) = await do(client, Drain("n1", CORDONED))
        assert isinstance(outcome, Unsure)
        assert outcome.why.startswith("controller down")
        await until(lambda: any(isinstance(news, Lost) for news in reader.news))
        reader.news.clear()
        await asyncio.to_thread(own_server.start_slurmctld)
        await until(lambda: ListingEnded("slurm_nodes") in reader.news)
        running.cancel()


async def test_slurmrestd_down_is_reported_at_once_and_recovers_F4(own_server: SlurmServer) -> None:
    async with connected(own_server) as client:
        await read(client, "n1")
        await asyncio.to_thread(own_server.stop_slurmrestd)
        began_s = time.monotonic()
        await fails(client, get_node("n1"), "unreachable")
        assert time.monotonic() - began_s < 1
        await asyncio.to_thread(own_server.start_slurmrestd)
        assert (await read(client, "n1")).name == "n1"


async def test_a_reason_in_another_encoding_does_not_break_the_listing_F4(
    own_server: SlurmServer,
) -> None:
    """scontrol accepts Latin-1, and slurmrestd returns it, which is no UTF-8."""
    command = own_server.in_root("scontrol", "update", "nodename=n1", "state=drain")
    await asyncio.to_thread(
        subprocess.run, [*map(os.fsencode, command), b"reason=d\xe9faillant"], check=True
    )
    async with connected(own_server) as client:
        nodes = await Reader(client).list()
        assert nodes is not None
        assert nodes["n1"].reason == "d\ufffdfaillant"
        assert (await read(client, "n1")) == nodes["n1"]


async def test_the_next_listing_shows_a_reconfigure_F11(own_server: SlurmServer) -> None:
    async with connected(own_server) as client:
        await do(client, SetComment("n1", MARK), Drain("n1", CORDONED))
        reader = Reader(client)
        await reader.list()
        await asyncio.to_thread(own_server.reconfigure)
        nodes = await reader.list()
        assert nodes is not None
        assert nodes["n1"].comment == (await read(client, "n1")).comment
        assert nodes["n1"].reason == CORDONED


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.02)
