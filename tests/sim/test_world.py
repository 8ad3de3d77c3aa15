"""Two properties of the simulator: restores of etcd take time; records need not be respected."""

import asyncio
import random
from types import SimpleNamespace
from typing import Any

import pytest

from sunk_sync.embedded.slurm.memory import Setup
from sunk_sync.embedded.slurm.model.job import Job, JobRequest
from sunk_sync.embedded.wire import Answer, Question
from tests.kit import clock
from tests.sim.faults import Faults
from tests.sim.history import History
from tests.sim.rare import RESTORE_S, Rare
from tests.sim.wire import Exchange, Process, Wire, WireError
from tests.sim.workloads.evidence import Evidence
from tests.sim.worlds import Worlds


def test_no_api_server_runs_while_etcd_is_restored() -> None:
    """A restore without an interval would not be noticed (seed 8110066)."""
    clock.run(_restored())


async def _restored() -> None:
    history = History()
    wire = Wire(Worlds(Setup(nodes=[]), history), Faults(), history)
    rare = Rare(random.Random(1), wire)
    process, nodes = Process(1), Question(path="/api/v1/nodes")
    rare.etcd_backup()
    rare.etcd_restored()
    wire.outages.clear()
    with pytest.raises(WireError):
        await wire.ask(process, "kube", nodes)
    await asyncio.sleep(RESTORE_S[1])
    answer = await wire.ask(process, "kube", nodes)
    assert isinstance(answer, Answer)
    assert answer.status == 200


@pytest.mark.parametrize(("path", "binds"), [("jobs/", False), ("jobs/state/", True)])
def test_a_write_must_respect_listed_states_but_not_all_records(path: str, binds: bool) -> None:
    """sunk-sync reads all records only to learn why jobs wait (seed 8200446)."""
    job = Job(job_id=10, request=JobRequest(), partition="main")
    worlds: Any = SimpleNamespace(slurm=SimpleNamespace(jobs={10: job}))
    evidence = Evidence(worlds)
    exchange = Exchange(
        number=1,
        process=Process(1),
        side="slurm",
        question=Question(path=f"/slurm/v0.0.45/{path}"),
        sent_s=1.0,
        served_s=2.0,
        taken_s=3.0,
        answer=Answer(body=b"{}"),
    )
    evidence.served(exchange)
    evidence.taken(exchange)
    (sight,) = evidence.jobs[10]
    assert evidence.speaks_against(sight, sent_s=99.0, late_s=90.0) is binds
