"""What a slurmd registers that starts with `-Z`: a dynamic node."""

from collections.abc import Sequence

from sunk_sync.embedded.slurm.model.node import NodeSpec

FOUND_CPUS = 16
FOUND_MEMORY_MB = 64_000
"""What slurmd finds on its machine if --conf does not say."""


def registration_of(arguments: Sequence[str]) -> NodeSpec:
    """Return the node that these arguments of slurmd make.

    `CPUs=` without sockets, cores and threads is reset to what slurmd finds, as in Slurm.
    """
    keys = dict(part.split("=", 1) for part in _after("--conf", arguments).split())
    features = keys.get("Features") or keys.get("Feature", "")
    shape = [keys.get(key, "") for key in ("Sockets", "CoresPerSocket", "ThreadsPerCore")]
    cpus = FOUND_CPUS
    if all(shape):
        sockets, cores, threads = map(int, shape)
        cpus = sockets * cores * threads
    return NodeSpec(
        name=_after("-N", arguments),
        cpus=cpus,
        memory_mb=int(keys.get("RealMemory", FOUND_MEMORY_MB)),
        gres=keys.get("Gres", ""),
        features=tuple(filter(None, features.split(","))),
        weight=int(keys.get("Weight", "1")),
        topology=keys.get("Topology", ""),
    )


def _after(option: str, arguments: Sequence[str]) -> str:
    place = list(arguments).index(option)
    return arguments[place + 1]
