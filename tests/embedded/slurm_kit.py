"""A small embedded Slurm for tests, and short calls of it."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import pytest

from sunk_sync.embedded.slurm.api.reply import SlurmAnswer
from sunk_sync.embedded.slurm.api.rest import SlurmRest
from sunk_sync.embedded.slurm.memory import Knobs, Partition, Setup
from sunk_sync.embedded.slurm.model.job import JobRequest, states_of
from sunk_sync.embedded.slurm.model.node import NodeSpec, state_of
from sunk_sync.embedded.slurm.model.release import SlurmError
from sunk_sync.embedded.slurm.model.tokens import Pass, Tokens
from sunk_sync.embedded.slurm.slurm import SlurmWorld
from sunk_sync.embedded.wire import Question

Generation = Literal["26.05", "24.11"]
BOTH = pytest.mark.parametrize("generation", ["26.05", "24.11"])
PARTITIONS = (
    Partition(name="main", default=True, tier=5),
    Partition(name="low", preempt_mode="CANCEL"),
    Partition(name="graced", preempt_mode="CANCEL", grace_s=40),
    Partition(name="again", preempt_mode="REQUEUE"),
    Partition(name="high", tier=10),
)


PLACE = {"current_working_directory": "/", "environment": ["A=b"]}
TOKENS = {"root": Pass("root"), "old": Pass("root", 1.0), "nobody": Pass("nobody")}
SCRIPT = "#!/bin/sh\nexec sleep 6000\n"


def slurm_of(
    *,
    nodes: int = 3,
    generation: Generation = "26.05",
    partitions: Sequence[Partition] = PARTITIONS,
    **knobs: Any,
) -> SlurmWorld:
    """Start a Slurm with nodes n1, n2, … of four GPUs each."""
    names = [f"n{number}" for number in range(1, nodes + 1)]
    return SlurmWorld(
        Setup(
            nodes=[NodeSpec(name=name, gres="gpu:4", features=("a100",)) for name in names],
            partitions=partitions,
            generation=generation,
            cluster="c1",
            knobs=Knobs(**knobs),
        )
    )


def asking(**fields: Any) -> JobRequest:
    """Make a request for 1000 MB without an end."""
    return JobRequest(**{"memory_mb": 1000, "duration_s": None, **fields})


def submitted(slurm: SlurmWorld, *, now_s: float = 0.0, **fields: Any) -> int:
    """Return the id of the new job."""
    job_id = slurm.submit(asking(**fields), now_s=now_s)
    assert isinstance(job_id, int)
    return job_id


def allocated(slurm: SlurmWorld, *, now_s: float = 0.0, **fields: Any) -> int | SlurmError:
    return slurm.allocate(asking(kind="allocation", **fields), now_s=now_s)


def job_states(slurm: SlurmWorld, *, at: float | None = None) -> Sequence[str]:
    slurm.advance(slurm.now_s if at is None else at)
    return ["+".join(states_of(job)) for job in slurm.jobs.values()]


def node_state(slurm: SlurmWorld, name: str = "n1", *, at: float | None = None) -> str:
    """Return the state as a listing shows it."""
    slurm.advance(slurm.now_s if at is None else at)
    slurm.count_all()
    return "+".join(state_of(slurm.nodes[name]))


def number(error: object) -> int | None:
    return error.number if isinstance(error, SlurmError) else None


class Asker:
    """Sends requests to the slurmrestd of one Slurm, at a time that the test sets."""

    def __init__(self, generation: Generation = "26.05", **setup: Any) -> None:
        main = (Partition(name="main", default=True),)
        self.slurm = slurm_of(generation=generation, partitions=main, **setup)
        self.rest = SlurmRest(self.slurm, Tokens(TOKENS))
        self.version = self.slurm.setup.release.versions[0]
        self.now_s = 1.0

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str = "root",
        headers: Mapping[str, str] | None = None,
    ) -> SlurmAnswer:
        path, _, query = path.partition("?")
        given = {"x-slurm-user-token": token, "content-type": "application/json"}
        if not isinstance(body, bytes):
            body = b"" if body is None else json.dumps(body).encode()
        question = Question(
            method=method,
            path=path if path.startswith("/") else f"/slurm/{self.version}/{path}",
            query=dict([query.split("=")]) if query else {},
            headers=given if headers is None else headers,
            body=body,
        )
        return self.rest.answer(question, self.now_s)

    def get(self, path: str, **more: Any) -> Any:
        return json.loads(self.ask("GET", path, **more).body)

    def node(self, name: str = "n1") -> Any:
        return self.get(f"node/{name}")["nodes"][0]

    def submit(self, *, script: str | None = SCRIPT, **job: Any) -> SlurmAnswer:
        whole = {"name": "j", "memory_per_node": "10M", **PLACE, **job}
        body = {"job": whole, **({"script": script} if script is not None else {})}
        return self.ask("POST", "job/submit", body)

    def allocate(self, **job: Any) -> SlurmAnswer:
        whole = {"name": "j", "immediate": True, "memory_per_node": "10M", **PLACE, **job}
        return self.ask("POST", "job/allocate", {"job": whole})

    def wait(self, seconds: float) -> None:
        self.now_s += seconds
