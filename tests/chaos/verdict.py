"""What is checked at the end of a run, when nothing is disturbed any more."""

import time
from collections import Counter
from collections.abc import Callable

from tests.chaos.checkers import alarming, unconverged
from tests.chaos.observer import Observer
from tests.chaos.traffic import Traffic
from tests.chaos.world import World
from tests.real.testbed import BedError

CONVERGE_S = 120.0
STAYS_S = 3.0
Tell = Callable[[str], None]


def converge(world: World, observer: Observer, traffic: Traffic) -> float:
    """Wait until everything is as it must be and stays so; return the seconds it took."""
    begun_s, limit_s = time.monotonic(), CONVERGE_S * world.slack
    try:
        world.all_ready(deadline_s=limit_s)
    except BedError as error:
        observer.report("convergence", iter([str(error)]))
        return limit_s
    traffic.wind_down()
    good_s = left = None
    while time.monotonic() - begun_s < limit_s:
        kube, slurm = observer.kube, observer.slurm
        assert kube is not None
        assert slurm is not None
        left = unconverged(kube, slurm)
        fresh = min(kube.asked_s, slurm.asked_s) > begun_s
        if left or not fresh:
            good_s = None
        elif good_s is None:
            good_s = time.monotonic()
        elif time.monotonic() - good_s > STAYS_S:
            return good_s - begun_s
        time.sleep(0.3)
    observer.report("convergence", (f"after {limit_s:.0f} s: {one}" for one in left or ()))
    return limit_s


def check_writers(world: World, observer: Observer) -> None:
    """Compare all writes with the holders of the Lease."""
    writes = [write for one in world.all_replicas for write in one.writes()]
    found = observer.writer.check(sorted(writes), world.owner_of)
    observer.report(observer.writer.name, found)


def check_logs(world: World, observer: Observer) -> None:
    for one in world.all_replicas:
        found = alarming(one.service.lines())
        observer.report("log", (f"{one.name}: {text}" for text in found))


def tally(observer: Observer, traffic: Traffic, tell: Tell) -> None:
    """Say what was done and read."""
    tell(f"users: {spelled(traffic.done)}")
    tell(f"reads: {spelled(Counter(observer.views))}")
    tell(f"{len(observer.bound)} Pods bound, {len(observer.seen_jobs)} placeholders")
    for one in (observer.pods, observer.jobs):
        tell(f"{one.name}: {one.noticed} noticed, for {one.longest_s:.1f} calm seconds at most")
    tell(f"most submissions of a workload in a minute: {observer.submissions.most}")


def spelled(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
