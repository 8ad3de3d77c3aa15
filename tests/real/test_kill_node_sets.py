"""N25: killed at any write of a NodeSet's life, the service continues from the listings.

A proxy in front of both servers counts the writes about NodeSets, their Pods and Slurm nodes and
kills the service at the n-th.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.real.conftest import for_each_slurm
from tests.real.node_farm import Farm, farm_with
from tests.real.slurmd_pods import wait_for
from tests.real.trap import MANY, Trap, points

WITHIN_S = 120
"""The next process alone needs half a minute to start on a busy machine."""
QUIET_S = 1.0
SLEEP = "#!/bin/sh\nsleep {}\n"
ONE_BY_ONE = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}}

pytestmark = [pytest.mark.real, pytest.mark.timeout(7200 if MANY else 600)]

Life = Callable[[Farm], None]


def spoken(method: str, path: str) -> str:
    """Describe a write about a NodeSet; empty for a read, a condition, an Event or the Lease."""
    parts = path.strip("/").split("/")
    if method == "GET" or {"events", "leases"} & set(parts):
        return ""
    if parts[0] == "slurm":
        return f"{method} {'/'.join(parts[2:])}"
    if parts[0] == "api" and parts[-1] == "status":
        return ""
    return f"{method} {'/'.join(parts[5 if parts[0] == 'apis' else 4 :])}"


class Trapped:
    def __init__(self, farm: Farm, trap: Trap) -> None:
        self.farm, self.trap = farm, trap


@contextmanager
def trapped_farm(version: str) -> Iterator[Trapped]:
    trap = Trap(spoken)
    with farm_with(version, trap=trap) as farm:
        yield Trapped(farm, trap)


trapped = for_each_slurm(trapped_farm)


def until(what: Callable[[], object], text: str) -> None:
    wait_for(what, text, deadline_s=WITHIN_S)


def scale_and_update(farm: Farm) -> None:
    """Three nodes leave, one of them after its job; two come; both are updated; deletion."""
    farm.make(3, updateStrategy=ONE_BY_ONE)
    until(lambda: farm.is_available(3), "three nodes in Slurm")
    job = farm.slurm.submit(SLEEP.format(2), required_nodes=["cpu-2"])
    until(lambda: "MIXED" in farm.records()["cpu-2"], "the job running")
    farm.scale(0)
    until(lambda: not farm.records() and not farm.pods_of(), "all nodes gone")
    ran = farm.job(job)
    assert (ran["job_state"], ran["restart_cnt"]) == (["COMPLETED"], 0)
    farm.scale(2)
    until(lambda: farm.is_available(2), "two nodes in Slurm")
    farm.change(memory="1Gi")
    until(lambda: farm.is_updated(2), "both updated")
    farm.kube.kubectl("delete", "nset/cpu", "-n", "slurm", "--wait=false")
    until(farm.is_empty, "nothing left")
    assert Counter(farm.pods.started) == {"cpu-0": 3, "cpu-1": 3, "cpu-2": 1}


def vanish(farm: Farm) -> None:
    """A record vanishes under a living slurmd (N3)."""
    farm.make(1)
    until(lambda: farm.is_available(1), "the node in Slurm")
    farm.slurm.rest.call("DELETE", farm.slurm.path("node/cpu-0"))
    until(lambda: not farm.usable(1), "the record gone")
    until(lambda: farm.is_available(1), "the node back")
    farm.kube.kubectl("delete", "nset/cpu", "-n", "slurm", "--wait=false")
    until(farm.is_empty, "nothing left")
    assert farm.pods.started == ["cpu-0", "cpu-0"]


@pytest.mark.parametrize("life", [scale_and_update, vanish])
def test_after_a_kill_at_any_write_a_nodeset_ends_the_same_N25(
    trapped: Trapped, life: Life
) -> None:
    farm, trap = trapped.farm, trapped.trap
    trap.disarm()
    play(farm, life)
    writes = list(trap.seen)
    print(f"{len(writes)} writes in a life: {dict(Counter(writes))}")
    where = points(len(writes))
    faults = [fault for number, way in where if (fault := strike(trapped, life, number, way))]
    print(f"{len(where)} kills, {len(faults)} faults")
    assert not faults, faults
    errors = trap.service.lines(level="error")
    assert errors == [], errors


def play(farm: Farm, life: Life) -> None:
    farm.pods.started.clear()
    life(farm)
    time.sleep(QUIET_S)
    assert farm.is_empty()


def strike(trapped: Trapped, life: Life, number: int, way: str) -> str:
    """Play a life with one kill; return what went wrong, or empty."""
    farm, trap = trapped.farm, trapped.trap
    since = trap.service.mark()
    trap.arm(number, way)
    fault = ""
    try:
        play(farm, life)
    except (AssertionError, ValueError, KeyError) as error:
        told = str(error) or repr(error)
        fault = f"killed {way} write {number}, {trap.struck or 'not yet'}: {told}"
        print(fault, *trap.seen, *trap.service.lines(since=since)[-60:], sep="\n")
        trap.disarm()
        farm.clear()
    print(f"{way} write {number}, {trap.struck or 'none'}: {fault or 'right'}", flush=True)
    return fault
