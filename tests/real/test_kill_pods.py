"""F1 for Pods: killed at any write of a Pod's life, the service continues from the listings.

A proxy in front of both servers counts the writes about Pods and jobs and kills the service at the
n-th. It does so before the request reaches the server, right after that, or after the answer, which
the service does not see.
"""

import time
from collections import Counter
from functools import partial

import pytest

from tests.real.conftest import for_each_slurm
from tests.real.pod_bed import PodBed, pod_bed, pod_conf
from tests.real.testbed.kube_objects import conditions
from tests.real.trap import MANY, Trap, points, trapped

WITHIN_S = 120
"""The next process alone needs half a minute to start on a busy machine."""
QUIET_S = 1.5
FAST, SLOW = "n1", "n2"

pytestmark = [pytest.mark.real, pytest.mark.timeout(4800 if MANY else 600)]


def spoken(method: str, path: str) -> str:
    """Describe a write about a Pod or a job; empty for a read or a write of the syncer."""
    if method == "GET" or "/pods/slurmd-" in path or "/node" in path:
        return ""
    parts = path.strip("/").split("/")
    if parts[0] == "slurm":
        last = ["{id}" if part.isdigit() else part for part in parts[2:]]
        return f"{method} {'/'.join(last)}"
    return f"{method} {'/'.join([parts[4], *parts[6:]])}"


bed = for_each_slurm(lambda version: pod_bed(version, pod_conf(2)))


def test_after_a_kill_at_any_write_every_pod_has_one_job_F1(bed: PodBed) -> None:
    trap = Trap(spoken)
    with trapped(bed.bed, trap) as flags:
        trap.service = bed.service(gate=False, **flags)
        with trap.service:
            trap.disarm()
            live(bed, "clean")
            writes = list(trap.seen)
            bed.say(f"{len(writes)} writes in a life: {dict(Counter(writes))}")
            strike_all(bed, trap, points(len(writes)))
            errors = trap.service.lines(level="error")
            assert errors == [], errors


def strike_all(bed: PodBed, trap: Trap, where: list[tuple[int, str]]) -> None:
    struck: Counter[str] = Counter()
    faults = []
    for number, way in where:
        since = trap.service.mark()
        trap.arm(number, way)
        fault = ""
        try:
            live(bed, f"k{number}-{way}")
        except (AssertionError, ValueError) as error:
            fault = str(error) or repr(error)
            faults.append(f"killed {way} write {number}, {trap.struck or 'not yet'}: {fault}")
            print(faults[-1], *trap.seen, *trap.service.lines(since=since)[-60:], sep="\n")
            bed.clear()
        bed.say(f"{way} write {number}, {trap.struck or 'none'}: {fault or 'right'}")
        struck[f"{way} {trap.struck or '(no such write this time)'}"] += 1
    bed.say(f"{len(where)} kills, {len(faults)} faults: {dict(sorted(struck.items()))}")
    assert not faults, faults


def live(bed: PodBed, name: str) -> None:
    """Play three Pods: `a` waits, is bound, and its job is cancelled; `b` waits, is edited and
    deleted; `c` is bound and deleted.
    """
    until = partial(bed.until, within_s=WITHIN_S)
    first, second, third = f"{name}-a", f"{name}-b", f"{name}-c"
    other = bed.submit(f"{name}-other", FAST)
    bed.until(lambda: "RUNNING" in bed.states()[other], "the other's job")
    bed.make_pod(first, host=FAST, end_s=0.5)
    until(lambda: waits(bed, first), f"{first} waits")
    bed.make_pod(second, host=FAST)
    bed.make_pod(third, host=SLOW, end_s=0.5)
    until(lambda: waits(bed, second), f"{second} waits")
    bed.annotate(second, comment="edited")
    until(lambda: [one["comment"] for one in bed.live(second)] == ["edited"], "the job is edited")
    bed.until_bound(third, within_s=WITHIN_S)
    for name in (second, third):
        bed.delete_pod(name)
    until(lambda: over(bed, second) and over(bed, third), f"{second} and {third} over")
    bed.cancel(other)
    bed.until_bound(first, within_s=WITHIN_S)
    (job,) = bed.live(first)
    assert job["nodes"] == bed.host_of(first) == FAST
    bed.cancel(str(job["job_id"]))
    until(lambda: over(bed, first), f"{first} over")
    check(bed, first, second, third)


def check(bed: PodBed, *pods: str) -> None:
    """Check that each had one job, nothing lives, nothing is drained, and nothing changes."""
    time.sleep(QUIET_S)
    for pod in pods:
        made = bed.placeholders(pod)
        assert len(made) == 1, [(one["job_id"], one["job_state"]) for one in made]
        assert over(bed, pod)
    states = bed.bed.slurm.states
    bed.until(lambda: not any("DRAIN" in one for one in states().values()), "no host is drained")


def waits(bed: PodBed, name: str) -> bool:
    """Whether the Pod shows that it waits, with the id of its job."""
    scheduled = conditions(bed.pod(name)).get("PodScheduled", {})
    shown = scheduled.get("reason") == "Unschedulable"
    job = bed.job_of(name)
    return bool(shown and job and [job] == [str(one["job_id"]) for one in bed.live(name)])


def over(bed: PodBed, name: str) -> bool:
    return bed.pod(name) is None and not bed.live(name)
