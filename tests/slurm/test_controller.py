"""Pings, load and configuration of slurmctld, from recorded answers; changed bytes of listings."""

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sunk_sync.core.model.facts import ListingEnded, Lost, News, Observed, SlurmNode
from sunk_sync.slurm.api import controller
from sunk_sync.slurm.api.answers import SlurmError, SlurmResponse
from sunk_sync.slurm.api.client import Access, SlurmClient
from sunk_sync.slurm.api.requests import SlurmCall
from sunk_sync.slurm.api.token import Token
from sunk_sync.slurm.api.transport import Begin, HttpRequest, Take
from sunk_sync.slurm.read.nodes import NodePoll
from sunk_sync.slurm.read.pacing import PollTiming, Time
from tests.kit.news import NewsLog
from tests.kit.slurm_client import kind_of
from tests.slurm.recorded import RELEASES, changed, recorded
from tests.slurm.recorded.slurm_nodes import DOWN, SlurmNodes


class OneAnswer(SlurmNodes):
    """Gives one body to every request."""

    def __init__(self, body: bytes, version: str) -> None:
        super().__init__(version=version)
        self.body = body

    async def call(self, call: SlurmCall) -> SlurmResponse | SlurmError:
        self._ask(call)
        return SlurmResponse(body=self.body, version=self.version, asked_s=1.0, answered_s=2.0)


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize(("name", "responding"), [("ping", True), ("error-ctld-down-ping", False)])
async def test_pings_are_read_in_both_forms(release: str, name: str, *, responding: bool) -> None:
    pings = await controller.ping(OneAnswer(recorded(release, name), RELEASES[release]))
    assert not isinstance(pings, SlurmError)
    (ping,) = pings
    assert (ping.hostname, ping.responding, ping.primary) == ("vm", responding, True)
    assert ping.text


@pytest.mark.parametrize("release", RELEASES)
async def test_the_load_is_read_for_doctor(release: str) -> None:
    diag = await controller.diag(OneAnswer(recorded(release, "diag"), RELEASES[release]))
    assert not isinstance(diag, SlurmError)
    assert diag.server_thread_count > 0


@pytest.mark.parametrize("release", RELEASES)
async def test_the_age_of_slurmctld_is_read_in_its_own_time_N3(release: str) -> None:
    body = recorded(release, "diag")
    later = json.loads(body)
    later["statistics"]["req_time"]["number"] += 100
    ages = [
        await controller.runs_at_least_s(OneAnswer(one, RELEASES[release]))
        for one in (body, json.dumps(later).encode())
    ]
    assert ages == [0.0, 100.0], "it was recorded one second after a start"


@pytest.mark.parametrize(
    ("now", "since", "seconds"),
    [(1000, 900, 99.0), (1000, 1000, 0.0), (900, 1000, 0.0), (None, 900, None), (1000, 0, None)],
)
async def test_only_an_age_that_slurmctld_certainly_has_counts_N3(
    now: int | None, since: int, seconds: float | None
) -> None:
    body = json.dumps({"statistics": {"req_time": now, "req_time_start": since}}).encode()
    read = await controller.runs_at_least_s(OneAnswer(body, "v0.0.45"))
    assert (kind_of(read) == "garbage") if seconds is None else (read == seconds)


async def test_the_configuration_is_read() -> None:
    conf = await controller.read_conf(OneAnswer(recorded("26.05", "conf"), "v0.0.45"))
    assert conf == controller.Conf(
        kill_wait_s=30,
        message_timeout_s=10,
        prolog_slurmctld=[],
        slurm_user="slurm",
        nodes_max=5000,
    )
    body = b'{"slurm_conf":{"PrologSlurmctld":"/gate","KillWait":{"set":true,"number":5}}}'
    conf = await controller.read_conf(OneAnswer(body, "v0.0.45"))
    gate = ["/gate"]
    assert conf == controller.Conf(kill_wait_s=5, message_timeout_s=None, prolog_slurmctld=gate)


async def test_a_version_without_conf_is_not_asked_for_the_configuration() -> None:
    slurm = OneAnswer(recorded("24.11", "ping"), "v0.0.42")
    assert kind_of(await controller.read_conf(slurm)) == "unserved"
    assert slurm.asked == ["GET ping/"]


@pytest.mark.parametrize(
    "read", [controller.read_conf, controller.ping, controller.diag, controller.runs_at_least_s]
)
async def test_an_unknown_shape_is_a_value_F4(read: Callable[..., Awaitable[object]]) -> None:
    slurm = SlurmNodes()
    slurm.before = lambda _: DOWN
    assert await read(slurm) == DOWN
    strange = await read(OneAnswer(b'{"slurm_conf":3,"pings":4,"statistics":5}', "v0.0.45"))
    assert kind_of(strange) == "garbage"


def listen(body: bytes, size: int, status: int) -> list[News]:
    """Return the news of one poll of a server that answers `body` in pieces."""
    log = NewsLog()

    class Pieces:
        async def ask(self, question: HttpRequest, *, begin: Begin, take: Take) -> None:
            assert question.target.startswith("/slurm/v0.0.45/nodes/")
            begin(status)
            for start in range(0, len(body), size):
                if not await take(body[start : start + size]):
                    return

        async def aclose(self) -> None:
            pass

    async def run() -> None:
        client = SlurmClient(
            Access(addresses=("http://slurm.invalid",), version="v0.0.45"),
            Token(),
            transport=Pieces(),
            clock=lambda: 1.0,
            on_exchange=lambda _: None,
        )
        time = Time(clock=lambda: 1.0, sleep=asyncio.sleep, random=lambda: 0.0)
        await NodePoll(client, log.tell, timing=PollTiming(), time=time).poll()

    asyncio.run(run())
    return log.news


LISTINGS = [recorded("24.11", "nodes-3-idle"), recorded("26.05", "nodes-drain-mixed")]


@given(st.sampled_from(LISTINGS), st.integers(1, 9000), st.sampled_from([200, 206, 500]), st.data())
def test_a_changed_listing_is_lost_or_whole_F4(
    body: bytes, size: int, status: int, data: st.DataObject
) -> None:
    """Only a listing that ended makes nodes that it does not name count as gone."""
    bad = changed(body, data)
    news = listen(bad, size, status)
    assert isinstance(news[-1], ListingEnded | Lost)
    if isinstance(news[-1], Lost):
        return
    document = json.loads(bad.decode(errors="replace"))
    assert status == 200
    assert not document["errors"]
    rows = [each.row for each in news if isinstance(each, Observed)]
    assert [row.name for row in rows if isinstance(row, SlurmNode)] == [
        node["name"] for node in document["nodes"]
    ]


@pytest.mark.parametrize("body", LISTINGS)
def test_a_listing_cut_anywhere_is_lost_F4(body: bytes) -> None:
    ends = {*range(0, len(body), 211), len(body) - 2, len(body) - 1}
    for end in sorted(ends):
        assert isinstance(listen(body[:end], 4096, 200)[-1], Lost)
    assert isinstance(listen(body, 4096, 200)[-1], ListingEnded)
