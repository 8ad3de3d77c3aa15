"""CPU time of one event from bytes to verdict, and its growth with ten times as many hosts."""

import gc
import random
import time
from collections.abc import Callable, Iterator, Sequence
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
from tests.bench.figures import Figure
from tests.bench.picture import NOW_S, Picture, read_slurm_node
from tests.bench.running import BenchError
from tests.bench.shapes import event as event_line

MANY, FEW = 10_000, 1_000
EVENTS = 1000
ROUNDS = 12
PIECE_BYTES = 64 << 10
LIMIT_US = 25.0
GROWTH_MAX = 1.2

Events = Sequence[bytes]
Feed = Callable[[Picture, Events, float], None]


def event() -> Iterator[Figure]:
    """Each kind of event that changes a verdict, and the one that changes nothing."""
    pictures = {count: Picture(count) for count in (FEW, MANY)}
    with gc_pauses.in_pieces():  # as the service runs
        for what, kind in KINDS.items():
            cost_us = _costs_us(pictures, kind)
            yield Figure(f"{what}, {FEW:,} hosts", cost_us[FEW], "µs")
            yield Figure(f"{what}, {MANY:,} hosts", cost_us[MANY], "µs", LIMIT_US)
            growth = cost_us[MANY] / cost_us[FEW]
            yield Figure(f"{what}, ten times as many hosts", growth, "x", GROWTH_MAX)


def _costs_us(pictures: dict[int, Picture], kind: "Kind") -> dict[int, float]:
    """Return the best round of each, measured in turns."""
    best = dict.fromkeys(pictures, float("inf"))
    for turn in range(ROUNDS):
        for count, picture in pictures.items():
            best[count] = min(best[count], _round_us(picture, kind, turn))
    return best


def _round_us(picture: Picture, kind: "Kind", turn: int) -> float:
    hosts = random.Random(turn // 2).sample(picture.hosts, EVENTS)
    events = kind.made(picture, hosts, turn % 2 == 0)
    before = picture.reconciler.standing.copy()
    gc.collect()
    begun_s = time.process_time()
    kind.feed(picture, events, 2.0 + turn)
    spent_s = time.process_time() - begun_s
    if len(picture.reconciler.standing) != len(before) or picture.reconciler.pending:
        raise BenchError("an event led to no verdict")
    return spent_s / EVENTS * 1e6


class Kind:
    """One kind of event: how to make EVENTS of them and how to read them."""

    def __init__(
        self, made: Callable[[Picture, Sequence[bytes], bool], Events], feed: Feed
    ) -> None:
        self.made = made
        self.feed = feed


def _decide(picture: Picture, news: Observed) -> None:
    picture.reconciler.observe((news,), now=NOW_S)
    picture.reconciler.step(now=NOW_S, limit=KEYS_PER_STEP)


def _watched(decoder: SourceDecoder[Any]) -> Feed:
    def feed(picture: Picture, events: Events, order: float) -> None:
        del order
        for line in events:
            news = decoder.event(line)
            assert isinstance(news, Observed)
            _decide(picture, news)

    return feed


def _listed(picture: Picture, events: Events, order: float) -> None:
    """Decode records from a listing; Slurm has no events."""
    body = b'{"nodes":[' + b",".join(events) + b"]}"
    cutter = Cutter("nodes")
    for start in range(0, len(body), PIECE_BYTES):
        for record in cutter.feed(body[start : start + PIECE_BYTES]):
            _decide(picture, Observed(read_slurm_node(record), order))
    for record in cutter.finish()[0]:
        _decide(picture, Observed(read_slurm_node(record), order))


def _heartbeats(picture: Picture, hosts: Sequence[bytes], flip: bool) -> Events:
    del flip
    return [_modified(picture.node.made(host, version=next(picture.versions))) for host in hosts]


def _cordons(picture: Picture, hosts: Sequence[bytes], flip: bool) -> Events:
    cordon = b'"spec":{"unschedulable":true,' if flip else b'"spec":{'
    return [line.replace(b'"spec":{', cordon) for line in _heartbeats(picture, hosts, flip)]


def _readiness(picture: Picture, hosts: Sequence[bytes], flip: bool) -> Events:
    ready = b'"type":"Ready","status":"%b"'
    lines = [
        _modified(picture.slurmd_pod.made(host, version=next(picture.versions))) for host in hosts
    ]
    return [line.replace(ready % b"True", ready % b"False") if flip else line for line in lines]


def _phases(picture: Picture, hosts: Sequence[bytes], flip: bool) -> Events:
    lines = [_modified(picture.workload(host, 0)) for host in hosts]
    return [line.replace(b'"Running"', b'"Failed"') if flip else line for line in lines]


def _states(picture: Picture, hosts: Sequence[bytes], flip: bool) -> Events:
    state = b"ALLOCATED" if flip else b"IDLE"
    return [picture.slurm_node.made(host, state=state) for host in hosts]


def _modified(content: bytes) -> bytes:
    return event_line(b"MODIFIED", content)


KINDS = {
    "Node, heartbeat": Kind(_heartbeats, _watched(NODES)),
    "Node with resources, heartbeat": Kind(_heartbeats, _watched(OFFERING_NODES)),
    "Node, cordoned or not": Kind(_cordons, _watched(NODES)),
    "slurmd Pod, ready or not": Kind(_readiness, _watched(SLURMD_PODS)),
    "workload Pod, phase": Kind(_phases, _watched(PODS)),
    "Slurm node, state": Kind(_states, _listed),
}
