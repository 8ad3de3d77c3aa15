"""A small embedded Slurm for tests, and short calls of it."""

from collections.abc import Sequence
from typing import Any, Literal

import pytest

from sunk_sync.embedded.slurm.memory import Knobs, Partition, Setup
from sunk_sync.embedded.slurm.model.job import JobRequest, states_of
from sunk_sync.embedded.slurm.model.node import NodeSpec, state_of
from sunk_sync.embedded.slurm.model.release import SlurmError
from sunk_sync.embedded.slurm.slurm import SlurmWorld

Generation = Literal["26.05", "24.11"]
BOTH = pytest.mark.parametrize("generation", ["26.05", "24.11"])
PARTITIONS = (
    Partition(name="main", default=True, tier=5),
    Partition(name="low", preempt_mode="CANCEL"),
    Partition(name="graced", preempt_mode="CANCEL", grace_s=40),
    Partition(name="again", preempt_mode="REQUEUE"),
    Partition(name="high", tier=10),
)


def slurm_of(*, nodes: int = 3, generation: Generation = "26.05", **knobs: Any) -> SlurmWorld:
    """Start a Slurm with nodes n1, n2, … of four GPUs each."""
    specs = [NodeSpec(name=f"n{number}", gres="gpu:4") for number in range(1, nodes + 1)]
    return SlurmWorld(
        Setup(nodes=specs, partitions=PARTITIONS, generation=generation, knobs=Knobs(**knobs))
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
