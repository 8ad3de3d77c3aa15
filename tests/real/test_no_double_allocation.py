"""No two workloads on one host: the next job waits for the Pod of an ended placeholder (P25).

Each of many Pods holds a host, and another user's job waits for that host. The placeholder ends in
each possible way, and both sides are sampled every 40 ms (`overlap.py`).

`SUNK_SYNC_DUELS=all` for the whole matrix (two minutes for each of ten cases, one for each of ten
with QOS), whose tables are in docs/double-allocation.md.
"""

import itertools
import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import pytest

from tests.real.conftest import for_each_slurm
from tests.real.overlap import Duel, Sampler
from tests.real.pod_bed import PodBed, pod_bed, pod_conf, qos_bed
from tests.real.service import Service
from tests.real.stage import stays
from tests.real.testbed import BedError

ALL = os.environ.get("SUNK_SYNC_DUELS") == "all"
KILL_WAIT_S = 12 if ALL else 4
DELAYS_S = (1, 10, 16) if ALL else (1, 6)
"""Kubelets that end a Pod at once, late, and later than Slurm's KillWait."""
WITHIN_S = 180.0

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]


@dataclass(frozen=True)
class Way:
    """A way in which a placeholder ends."""

    name: str
    partition: str = "main"
    timeout: str = ""
    qos: str = ""
    """QOS of the other job, which preempts the placeholder."""
    end: Callable[[PodBed, Duel], None] | None = None
    """None: Slurm ends it."""
    kinds: tuple[str, ...] = ("allocation", "script", "external")


def lose_node(bed: PodBed, duel: Duel) -> None:
    """Kill its slurmd; start a new one after Slurm has given up the job."""
    bed.bed.slurm.stop_slurmd(duel.host, signal.SIGKILL)


def requeue(bed: PodBed, duel: Duel) -> None:
    """Requeue as an administrator, who has to allow it first: ours have `requeue: false`."""
    job = bed.job_of(duel.pod)
    bed.bed.slurm.scontrol("update", f"jobid={job}", "requeue=1")
    bed.bed.slurm.scontrol("requeue", job)


WAYS = (
    Way("preempted", "low"),
    Way("preempted, GraceTime 4 s", "grace"),
    Way("preempted, REQUEUE", "again"),
    Way("cancelled", end=lambda bed, duel: bed.cancel(bed.job_of(duel.pod))),
    Way("Pod deleted", end=lambda bed, duel: bed.delete_pod(duel.pod)),
    Way("time limit", timeout="1"),
    Way("slurmd killed", end=lose_node),
    Way("requeued", end=requeue, kinds=("script",)),
)
FEW = {"preempted", "cancelled", "Pod deleted", "requeued"}
WAYS_BY_QOS = (
    Way("preempted by QOS", qos="low"),
    Way("preempted by QOS, GraceTime 4 s", qos="grace"),
    Way("preempted by QOS, REQUEUE", qos="again"),
)
SOME_WAYS = tuple(way for way in WAYS if ALL or way.name in FEW)
SOME_WAYS_BY_QOS = WAYS_BY_QOS if ALL else WAYS_BY_QOS[:2]
CASES: tuple[tuple[str, bool], ...] = (
    tuple((kind, gate) for gate in (True, False) for kind in ("allocation", "script", "external"))
    if ALL
    else (("allocation", True), ("script", False), ("allocation", False))
)
CASES_BY_QOS = CASES if ALL else CASES[:2]
_number = itertools.count()
CONF = pod_conf(len(SOME_WAYS) * len(DELAYS_S), kill_wait_s=KILL_WAIT_S)
HOSTS_BY_QOS = len(SOME_WAYS_BY_QOS) * len(DELAYS_S)
bed = for_each_slurm(lambda version: pod_bed(version, CONF))
accounted = for_each_slurm(lambda it: qos_bed(it, HOSTS_BY_QOS, kill_wait_s=KILL_WAIT_S))


@pytest.mark.parametrize(("kind", "gate"), CASES)
def test_no_job_runs_beside_a_live_pod_of_another_P25(bed: PodBed, kind: str, gate: bool) -> None:
    """Without the gate a script with a live slurmd keeps its host for KillWait."""
    check(bed, SOME_WAYS, kind=kind, gate=gate)


@pytest.mark.parametrize(("kind", "gate"), CASES_BY_QOS)
def test_no_job_of_a_higher_qos_runs_beside_a_live_pod_P25(
    accounted: PodBed, kind: str, gate: bool
) -> None:
    check(accounted, SOME_WAYS_BY_QOS, kind=kind, gate=gate)


def check(bed: PodBed, ways: Sequence[Way], *, kind: str, gate: bool) -> None:
    if kind == "external" and bed.version == "24.11":
        return  # it has no external jobs; see docs/double-allocation.md
    bed.set_gate(on=gate)
    with bed.service(gate=gate, placeholder=kind) as service:
        try:
            duels = fight(bed, ways, kind)
            tell(bed, f"{kind}, {'gate' if gate else 'no gate'}", duels, service)
        finally:
            bed.clear()
    for way, delay_s, duel in duels:
        if gate or (kind == "script" and way.end is not lose_node):
            assert duel.overlap_s == 0, (way.name, delay_s, duel)


@pytest.mark.parametrize("kind", ["allocation", "external"])
def test_a_placeholder_without_a_script_cannot_be_requeued_P19(bed: PodBed, kind: str) -> None:
    """Not even by an administrator who allows it."""
    if kind == "external" and bed.version == "24.11":
        return
    bed.set_gate(on=False)
    with bed.service(gate=False, placeholder=kind) as service:
        duel = Duel(f"p{next(_number)}", bed.bed.slurm.conf.slurmd_names[0])
        bed.make_pod(duel.pod, host=duel.host)
        bed.until_bound(duel.pod)
        with pytest.raises(BedError, match="Only batch jobs"):
            requeue(bed, duel)
        assert stays(lambda: [job["job_state"] for job in bed.live(duel.pod)] == [["RUNNING"]])
        assert service.writes("end-pod") == []
        bed.clear()


Fought = list[tuple[Way, int, Duel]]
FIGURES = tuple(map(attrgetter, ("overlap_s", "overlap_at_most_s", "idle_s")))


def fight(bed: PodBed, ways: Sequence[Way], kind: str) -> Fought:
    """Play all ways and all kubelets at once, each on its own host."""
    hosts = iter(bed.bed.slurm.conf.slurmd_names)
    duels = [
        (way, delay_s, Duel(f"p{next(_number)}", next(hosts)))
        for way in ways
        if kind in way.kinds
        for delay_s in DELAYS_S
    ]
    for way, delay_s, duel in duels:
        asked = {"timeout": way.timeout, "qos": way.qos}
        more: dict[str, Any] = {name: value for name, value in asked.items() if value}
        bed.make_pod(duel.pod, host=duel.host, end_s=delay_s, partition=way.partition, **more)
        if kind == "allocation":
            bed.until_bound(duel.pod, within_s=120)  # in a crowd most get scripts (P11a)
    bed.until_bound(*(duel.pod for _, _, duel in duels), within_s=120)
    ours = [job for job in bed.jobs() if job["nodes"] and job["name"].startswith("k8s/")]
    live = {job["name"].split("/")[2]: job["batch_flag"] for job in ours}
    bed.say(f"{sum(not live[duel.pod] for _, _, duel in duels)} of {len(duels)} hold no script")
    every = [duel for _, _, duel in duels]
    with Sampler(bed) as sampler:
        sampler.duels = every
        bed.until(lambda: all(duel.last_live_s for duel in every), "all Pods sampled")
        for way, _, duel in duels:
            theirs = {"qos": "high"} if way.qos else {}
            duel.job = bed.submit(duel.pod, duel.host, **theirs)
        time.sleep(1.0)
        for way, _, duel in duels:
            if way.end is not None:
                way.end(bed, duel)
        bring_back(bed, [duel for way, _, duel in duels if way.end is lose_node])
        bed.until(lambda: all(duel.over for duel in every), "all duels over", within_s=WITHIN_S)
    bed.say(sampler.summary())
    return duels


def bring_back(bed: PodBed, duels: list[Duel]) -> None:
    """Start their slurmd again after Slurm has set the nodes DOWN."""
    hosts = {duel.host for duel in duels}
    if hosts:
        states = bed.bed.slurm.states
        bed.until(lambda: all("DOWN" in states()[host] for host in hosts), "DOWN", within_s=60)
    for host in hosts:
        bed.bed.slurm.start_slurmd(host)


def tell(bed: PodBed, case: str, duels: Fought, service: Service) -> None:
    """Print a row for each way as in docs/double-allocation.md."""
    measured_s = service.metric("sunk_sync_double_allocation_seconds_total")
    overlaps_s = [duel.overlap_s for _, _, duel in duels if duel.overlap_s]
    sampled_s = sum(overlaps_s)
    bed.say(f"{case}: {sampled_s:.2f} s together, {measured_s:.2f} by its own metric")
    for name in dict.fromkeys(way.name for way, _, _ in duels):
        fought = [duel for way, _, duel in duels if way.name == name]
        columns = (" / ".join(f"{figure(duel):.2f}" for duel in fought) for figure in FIGURES)
        print(f"| {name} | {' | '.join(columns)} |")
    assert abs(measured_s - sampled_s) <= 1.0 + len(overlaps_s), "P25's own measure"
    errors = service.lines(level="error")
    assert errors == [], errors
