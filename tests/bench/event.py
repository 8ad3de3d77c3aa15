"""CPU time of one event from bytes to verdict, and its growth with ten times as many hosts."""

import gc
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from sunk_sync.controller.loop import KEYS_PER_STEP
from sunk_sync.core.model.facts import Observed
from sunk_sync.kube.decode.source_decoder import (
    NODES,
    OFFERING_NODES,
    PODS,
    SLURMD_PODS,
    SourceDecoder,
)
from sunk_sync.service import gc_pauses
from sunk_sync.slurm.api.json_stream import Cutter
from tests.bench.core import NOW_S
from tests.bench.figures import Figure
from tests.bench.host_core import HostCore, read_slurm_node
from tests.bench.running import BenchError
from tests.bench.shapes import event as event_line

MANY, FEW = 10_000, 1_000
EVENTS = 1000
ROUNDS = 12
PIECE_BYTES = 64 << 10
LIMIT_US = 60.0
GROWTH_MAX = 1.5

Events = Sequence[bytes]
Make = Callable[[HostCore, Sequence[bytes], bool], Events]
"""Makes an event of each host: the change, or its reverse."""
Feed = Callable[[HostCore, Events, float], None]
"""Reads the events and decides; the number is the order of facts from Slurm."""


def event() -> Iterator[Figure]:
    """Each kind of event that changes a verdict, and the one that changes nothing."""
    cores = {count: HostCore(count) for count in (FEW, MANY)}
    with gc_pauses.in_pieces():  # as the service runs
        for what, (make, feed) in KINDS.items():
            cost_us = _costs_us(cores, make, feed)
            yield Figure(f"{what}, {FEW:,} hosts", cost_us[FEW], "µs")
            yield Figure(f"{what}, {MANY:,} hosts", cost_us[MANY], "µs", LIMIT_US)
            growth = cost_us[MANY] / cost_us[FEW]
            yield Figure(f"{what}, ten times as many hosts", growth, "x", GROWTH_MAX)


def _costs_us(cores: Mapping[int, HostCore], make: Make, feed: Feed) -> dict[int, float]:
    """Return the best round of each, measured in turns."""
    best = dict.fromkeys(cores, float("inf"))
    for turn in range(ROUNDS):
        for count, core in cores.items():
            hosts = random.Random(turn // 2).sample(core.hosts, EVENTS)
            events = make(core, hosts, turn % 2 == 0)
            best[count] = min(best[count], _round_us(core, events, feed, order=2.0 + turn))
    return best


def _round_us(core: HostCore, events: Events, feed: Feed, *, order: float) -> float:
    keys = len(core.reconciler.standing)
    gc.collect()
    begun_s = time.process_time()
    feed(core, events, order)
    spent_s = time.process_time() - begun_s
    if len(core.reconciler.standing) != keys or core.reconciler.pending:
        raise BenchError("an event led to no verdict")
    return spent_s / EVENTS * 1e6


def _decide(core: HostCore, news: Observed) -> None:
    core.reconciler.observe((news,), now=NOW_S)
    core.reconciler.step(now=NOW_S, limit=KEYS_PER_STEP)


def _watched(decoder: SourceDecoder[Any]) -> Feed:
    def feed(core: HostCore, events: Events, _: float) -> None:
        for line in events:
            news = decoder.event(line)
            assert isinstance(news, Observed)
            _decide(core, news)

    return feed


def _listed(core: HostCore, events: Events, order: float) -> None:
    """Decode records from a listing; Slurm has no events."""
    body = b'{"nodes":[' + b",".join(events) + b"]}"
    cutter = Cutter("nodes")
    for start in range(0, len(body), PIECE_BYTES):
        for record in cutter.feed(body[start : start + PIECE_BYTES]):
            _decide(core, Observed(read_slurm_node(record), order))
    for record in cutter.finish()[0]:
        _decide(core, Observed(read_slurm_node(record), order))


def _heartbeats(core: HostCore, hosts: Sequence[bytes], _: bool) -> Events:
    return [event_line(b"MODIFIED", core.node(host)) for host in hosts]


def _cordons(core: HostCore, hosts: Sequence[bytes], change: bool) -> Events:
    cordon = b'"spec":{"unschedulable":true,' if change else b'"spec":{'
    return [line.replace(b'"spec":{', cordon) for line in _heartbeats(core, hosts, change)]


def _readiness(core: HostCore, hosts: Sequence[bytes], change: bool) -> Events:
    ready = b'"type":"Ready","status":"%b"'
    lines = [event_line(b"MODIFIED", core.slurmd_pod(host)) for host in hosts]
    return [line.replace(ready % b"True", ready % b"False") if change else line for line in lines]


def _phases(core: HostCore, hosts: Sequence[bytes], change: bool) -> Events:
    lines = [event_line(b"MODIFIED", core.workload(host, 0)) for host in hosts]
    return [line.replace(b'"Running"', b'"Failed"') if change else line for line in lines]


def _states(core: HostCore, hosts: Sequence[bytes], change: bool) -> Events:
    return [core.slurm_node(host, b"ALLOCATED" if change else b"IDLE") for host in hosts]


KINDS: Mapping[str, tuple[Make, Feed]] = {
    "Node, heartbeat": (_heartbeats, _watched(NODES)),
    "Node with resources, heartbeat": (_heartbeats, _watched(OFFERING_NODES)),
    "Node, cordoned or not": (_cordons, _watched(NODES)),
    "slurmd Pod, ready or not": (_readiness, _watched(SLURMD_PODS)),
    "workload Pod, phase": (_phases, _watched(PODS)),
    "Slurm node, state": (_states, _listed),
}
