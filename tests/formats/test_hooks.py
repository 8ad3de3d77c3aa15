"""Today's hooks server answers running and installed scripts of earlier versions."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from sunk_sync.core.model.actions import AnswerGate, AnswerStop
from sunk_sync.core.model.calls import GateCall, LockCall, StopCall
from sunk_sync.core.model.lock_actions import AnswerLock
from sunk_sync.core.model.topology_file import AnswerTopology, TopologyReport
from sunk_sync.server.tokens import GATE, make_token
from sunk_sync.settings.types import Address
from tests.formats.samples import FUTURE, each
from tests.server.test_hooks import KEY, WORKLOAD, Service


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    made = Service()
    async with made.hooks.serve(Address("127.0.0.1", 0)) as address:
        made.address = address
        yield made


async def answer_waiting(service: Service, path: str) -> None:
    """Answer a call that waits, as the core does."""
    if path == "/v1/gate":
        fact = await service.seen(GateCall)
        names = fact.slurm_nodes
        await service.hooks.push([AnswerGate(fact.call, name, go=True, why="") for name in names])
    elif path == "/v1/lock":
        asked = await service.seen(LockCall)
        (name,) = asked.slurm_nodes
        await service.hooks.push([AnswerLock(asked.call, name, "kn1", go=True)])
    elif path == "/v1/topology":
        report = await service.seen(TopologyReport)
        await service.hooks.push([AnswerTopology(report.call, "0" * 64, "blk b1\n")])
    elif path == "/v1/placeholder/stopping":
        fact = await service.seen(StopCall)
        await service.hooks.push([AnswerStop(fact.call, "gone")])


@pytest.mark.parametrize("more", [{}, {FUTURE: {"deep": [1]}}], ids=["as it was", "and more"])
@each("hook-calls")
async def test_calls_of_scripts_are_answered(
    service: Service, sample: dict[str, Any], more: dict[str, Any]
) -> None:
    subject = WORKLOAD if "placeholder" in sample["path"] else GATE
    body = json.loads(sample["body"]) | more
    call = asyncio.create_task(service.post(sample["path"], body, token=make_token(KEY, subject)))
    await answer_waiting(service, sample["path"])
    status, answer = await call
    assert status == 200
    assert answer["action"] == sample["answer"]
