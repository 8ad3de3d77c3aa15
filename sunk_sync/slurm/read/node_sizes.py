"""Read how much of each node Slurm gives to jobs, for the doctor."""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from sunk_sync.slurm.api.answers import UNREADABLE, SlurmError, decoded, printable
from sunk_sync.slurm.api.client import Slurm
from sunk_sync.slurm.api.requests import list_nodes
from sunk_sync.slurm.decode.wire_node import WireNodeInUse, cpus_of, gpus_of, memory_of


class NodeSize(Struct, frozen=True, kw_only=True):
    """What jobs can get on a Slurm node. Source: GET /nodes/."""

    slurm_node: str
    cpus: int
    memory_mib: int
    gpus: int


class _WireSize(WireNodeInUse, frozen=True, kw_only=True):
    specialized_memory: int = 0


_size = msgspec.json.Decoder(_WireSize).decode


async def read_sizes(client: Slurm) -> Sequence[NodeSize] | SlurmError:
    """List all nodes once."""
    sizes: list[NodeSize] = []

    async def take(records: Sequence[bytes], _asked_s: float) -> SlurmError | None:
        try:
            sizes.extend([_size_of(decoded(_size, record)) for record in records])
        except UNREADABLE as error:
            return SlurmError("garbage", printable(f"a node is unreadable: {error}"))
        return None

    answer = await client.read_records(list_nodes(), "nodes", take)
    return answer if isinstance(answer, SlurmError) else sizes


def _size_of(node: _WireSize) -> NodeSize:
    """Leave out what CoreSpecCount and MemSpecLimit keep from jobs."""
    return NodeSize(
        slurm_node=node.name,
        cpus=cpus_of(node)[1],
        memory_mib=max(memory_of(node)[1] - node.specialized_memory, 0),
        gpus=gpus_of(node)[1],
    )
