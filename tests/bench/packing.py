"""GPUs free in whole nodes after a day of jobs of mixed sizes, with and without packing.

The embedded Slurm takes the first node with room among those of the lowest weight, as slurmctld
26.05 does (docs/decisions/0043-packing-by-weights.md). A day has 86,400 of its seconds. The
records go through the decoder, the rule, the limits and the precondition of sunk-sync, once a
second as by its poll.
"""

import random
from collections.abc import Iterator
from statistics import fmean
from typing import Literal

from msgspec import Struct

from sunk_sync.core.model.actions import SetWeight
from sunk_sync.core.model.facts import SlurmNode
from sunk_sync.embedded.slurm.api.shapes import node_record
from sunk_sync.embedded.slurm.memory import Partition, Setup
from sunk_sync.embedded.slurm.model.job import JobRequest
from sunk_sync.embedded.slurm.model.node import Node, NodeSpec
from sunk_sync.embedded.slurm.node_update import Update
from sunk_sync.embedded.slurm.slurm import SlurmWorld
from sunk_sync.slurm.decode.nodes import read_node
from sunk_sync.slurm.write.precondition import NodeUpdate, plan
from tests.bench.figures import Figure
from tests.kit.build import Core, node

HOSTS, GPUS, CPUS, MEMORY_MB = 40, 8, 64, 512_000
DAY_S, FULL_BY_S, SAMPLE_S = 86_400, 4 * 3_600, 60
SIZES = {1: 40, 2: 25, 4: 20, 8: 15}
"""GPUs of a job → how many of a hundred jobs ask for so many."""
LASTS_S = 2 * 3_600.0
SEEDS = (1, 2, 3)
WHOLE_LEAST = 1.0
"""Packing must not be worse than Slurm alone."""
VERSION = "v0.0.45"
Way = Literal["alone", "least loaded", "packed"]


class Day(Struct, frozen=True):
    """What one day showed: one sample a minute, and all writes."""

    free: list[int]
    whole: list[int]
    """GPUs that are free in empty nodes."""
    waits_s: list[float]
    """Of the jobs that want a whole node."""
    writes: list[int]
    """Weights written, for each minute."""


def packing() -> Iterator[Figure]:
    """Run a day of jobs of 1, 2, 4 and 8 GPUs on 40 hosts; compare the free whole nodes."""
    for load in (0.5, 0.7, 0.85):
        yield from _compare(load)


def _compare(load: float) -> Iterator[Figure]:
    kinds: dict[Way, str] = {
        "alone": "Slurm alone",
        "least loaded": "the least loaded node first, as with CR_LLN",
        "packed": "--pack nodes",
    }
    days = {way: [_day(seed, load, way) for seed in SEEDS] for way in kinds}
    at = f"{load:.0%} of the GPUs asked for"
    for way, name in kinds.items():
        free = fmean(fmean(day.free) for day in days[way])
        whole = fmean(fmean(day.whole) for day in days[way])
        waits = [wait for day in days[way] for wait in day.waits_s]
        yield Figure(f"{at}, {name}: GPUs free", free, "")
        yield Figure(f"{at}, {name}: of these in whole nodes", 100 * whole / free, "%")
        yield Figure(f"{at}, {name}: mean wait for a whole node", fmean(waits), "s")
    writes = [count for day in days["packed"] for count in day.writes]
    yield Figure(f"{at}: weights written a minute", fmean(writes), "")
    yield Figure(f"{at}: at most", max(writes), "")
    shares = {way: fmean(fmean(day.whole) for day in days[way]) for way in kinds}
    gain = shares["alone"] / shares["packed"]
    yield Figure(f"{at}: whole nodes alone, of those packed", gain, "x", WHOLE_LEAST)


def _day(seed: int, load: float, way: Way) -> Day:
    names = [f"n{number:02}" for number in range(HOSTS)]
    specs = [
        NodeSpec(name=name, cpus=CPUS, memory_mb=MEMORY_MB, gres=f"gpu:{GPUS}") for name in names
    ]
    setup = Setup(nodes=specs, partitions=(Partition(name="main", default=True),))
    world = SlurmWorld(setup)
    core = Core(*map(node, names), pack="nodes") if way == "packed" else None
    due = list(_arrivals(random.Random(seed), load))
    day, seen = Day([], [], [], [0]), -1
    for second in range(DAY_S):
        world.advance(float(second))
        while due and due[-1][0] <= second:
            world.submit(due.pop()[1], now_s=float(second))
        if second % SAMPLE_S == 0:
            _sample(day, world, second)
        if way == "least loaded":
            _spread(world)
        if core is not None and (world.changes != seen or second % 10 == 0):
            day.writes[-1] += _poll(core, world, second)
            seen = world.changes
    return day


def _arrivals(rng: random.Random, load: float) -> Iterator[tuple[float, JobRequest]]:
    """Yield the jobs of a day with their seconds, the last one first."""
    mean = sum(gpus * share for gpus, share in SIZES.items()) / sum(SIZES.values())
    every_s = LASTS_S * mean / (load * HOSTS * GPUS)
    at_s, jobs = 0.0, []
    while (at_s := at_s + rng.expovariate(1 / every_s)) < DAY_S:
        (gpus,) = rng.choices(list(SIZES), list(SIZES.values()))
        lasts_s = rng.expovariate(1 / LASTS_S)
        jobs.append((at_s, _job(gpus, lasts_s)))
    yield from reversed(jobs)


def _job(gpus: int, lasts_s: float) -> JobRequest:
    share = gpus / GPUS
    return JobRequest(
        cpus=int(CPUS * share),
        cpus_per_task=int(CPUS * share),
        memory_mb=int(MEMORY_MB * share),
        tres_per_node=f"gres/gpu:{gpus}",
        duration_s=lasts_s,
    )


def _used(host: Node) -> int:
    return sum(count for _, count in host.gres_used)


def _sample(day: Day, world: SlurmWorld, second: int) -> None:
    day.writes.append(0)
    if second < FULL_BY_S:
        return
    used = [_used(host) for host in world.nodes.values()]
    day.free.append(sum(GPUS - one for one in used))
    day.whole.append(GPUS * used.count(0))
    begun_s = second - SAMPLE_S
    whole = f"gres/gpu:{GPUS}"
    day.waits_s.extend(
        job.started_s - job.submitted_s
        for job in world.jobs.values()
        if job.started_s is not None
        and begun_s <= job.started_s < second
        and job.request.tres_per_node == whole
    )


def _spread(world: SlurmWorld) -> None:
    for name, host in list(world.nodes.items()):
        if host.weight != _used(host):
            world.update(name, Update(weight=_used(host)), now_s=world.now_s)


def _poll(core: Core, world: SlurmWorld, second: int) -> int:
    """List the nodes and write the weights that sunk-sync allows; return how many."""
    world.count_all()
    core.now = 1000.0 + second
    rows = [_row(host, world) for host in world.nodes.values()]
    core.see_listing("slurm_nodes", *rows)
    writes = 0
    for row in rows:
        for action in core.allowed(row.name, SetWeight):
            update = plan(action, row)
            assert isinstance(update, NodeUpdate)
            world.update(row.name, Update(weight=update.weight), now_s=world.now_s)
            writes += 1
    return writes


def _row(host: Node, world: SlurmWorld) -> SlurmNode:
    row = read_node(node_record(host, VERSION, memory=world.memory), usage=True)
    assert isinstance(row, SlurmNode)
    return row
