"""Delete records of Slurm nodes whose Pods are gone for good (N10).

Slurm itself refuses while a job runs there. It does not refuse while a waiting job requires the
node, and on 26.05 that job fails at the next reconfigure. So all jobs are listed first.
"""

from collections.abc import Sequence
from typing import Final

import anyio
import msgspec
from msgspec import Struct

from sunk_sync.core.model.facts import Deleted
from sunk_sync.core.model.node_set_actions import DeleteNode
from sunk_sync.core.model.outcomes import Done, Outcome, Refused, Unsure
from sunk_sync.core.translate.hostlist import expand
from sunk_sync.core.translate.node_states import is_busy
from sunk_sync.slurm.api.answers import SlurmError
from sunk_sync.slurm.api.client import Slurm
from sunk_sync.slurm.api.http import Clock
from sunk_sync.slurm.api.requests import delete_node
from sunk_sync.slurm.decode.nodes import state_of
from sunk_sync.slurm.read.all_jobs import read_all_jobs
from sunk_sync.slurm.read.one_node import Seen, is_node_name, read_nodes_now

PENDING: Final = "PENDING"


class _WireJob(Struct, frozen=True):
    job_id: int = 0
    job_state: list[str] | str | None = None
    required_nodes: str | None = None


_job = msgspec.json.Decoder(_WireJob).decode
Required = dict[str, int]
"""Slurm node → a waiting job that requires it."""


class RecordPush:
    """Deletes records. Never raises."""

    def __init__(self, client: Slurm, clock: Clock) -> None:
        self._client = client
        self._clock = clock

    async def push(self, actions: Sequence[DeleteNode]) -> Sequence[Outcome]:
        """Delete each record that no job needs; return the outcomes in the order of the actions."""
        if not actions:
            return []
        required = await self._required()
        if isinstance(required, SlurmError):
            return [Unsure(action, str(required), unsent=True) for action in actions]
        names = {one.slurm_node for one in actions if is_node_name(one.slurm_node)}
        reads = await read_nodes_now(self._client, names, bulk=False, clock=self._clock)
        return await anyio.gather(
            *(self._one(one, reads.get(one.slurm_node), required) for one in actions)
        )

    async def _one(
        self, action: DeleteNode, seen: Seen | SlurmError | None, required: Required
    ) -> Outcome:
        if seen is None:
            return Refused(action, "the action does not name one Slurm node")
        if isinstance(seen, SlurmError):
            return Unsure(action, str(seen), unsent=True)
        if seen.node is None:
            return Done(action, seen.news)
        if why := _why_not(action, seen):
            return Refused(action, why, seen.news)
        if job := required.get(action.slurm_node):
            why = f"waiting job {job} requires the node"
            return Unsure(action, why, seen=seen.news, unsent=True)
        answer = await self._client.call(delete_node(action.slurm_node))
        if not isinstance(answer, SlurmError) or answer.kind == "no_such":
            return Done(action, (Deleted("slurm_nodes", "", action.slurm_node, "", self._clock()),))
        return Unsure(action, str(answer), seen=seen.news)

    async def _required(self) -> Required | SlurmError:
        """List all jobs; return the Slurm nodes that waiting ones require."""
        required: Required = {}
        failure = await read_all_jobs(
            self._client, decode=_job, note=lambda job: _note(job, required)
        )
        return required if failure is None else failure


def _note(job: _WireJob, required: Required) -> None:
    if PENDING in state_of(job.job_state) and job.required_nodes:
        for name in expand(job.required_nodes):
            required.setdefault(name, job.job_id)


def _why_not(action: DeleteNode, seen: Seen) -> str:
    """Return why the record as read must stay, or empty."""
    node = seen.node
    assert node is not None
    if seen.too_old:
        return seen.too_old
    if node.stamp != action.stamp:
        return "the record is another one than the one that was decided about"
    return "jobs run there" if is_busy(node.state) else ""
