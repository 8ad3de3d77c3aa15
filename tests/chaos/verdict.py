"""What is checked at the end of a run, when nothing is disturbed any more."""

import time
from collections import Counter
from collections.abc import Callable

from tests.chaos.checkers import alarming, stuck, unconverged
from tests.chaos.observer import Observer
from tests.chaos.site import FAILED, NOTED
from tests.chaos.traffic import Traffic
from tests.chaos.views import KubeView, SlurmView
from tests.chaos.world import World
from tests.real.testbed import BedError

CONVERGE_S = 120.0
STAYS_S = 3.0
TEND_S = 2.0
NOT_READ = "a server was not read"
Left = Callable[[KubeView, SlurmView], list[str]]
Tell = Callable[[str], None]


def converge(world: World, observer: Observer, traffic: Traffic) -> float:
    """Wait until everything is as it must be and stays so; return the seconds it took.

    First the users leave what waits: it must start, for there is room. Then they end all Jobs.
    """
    begun_s, limit_s = time.monotonic(), CONVERGE_S * world.slack
    try:
        world.all_ready(deadline_s=limit_s)
    except BedError as error:
        observer.report("convergence", iter([str(error)]))
        return limit_s
    traffic.make_room()
    settled = Settled(observer, traffic, limit_s=limit_s)
    settled.wait(lambda kube, _: [f"Pod {pod.name} waits" for pod in stuck(kube)], stays_s=0.0)
    traffic.wind_down()
    settled.wait(unconverged, stays_s=STAYS_S)
    return time.monotonic() - begun_s


class Settled:
    def __init__(self, observer: Observer, traffic: Traffic, *, limit_s: float) -> None:
        self._observer = observer
        self._traffic = traffic
        self._limit_s = limit_s

    def wait(self, left_in: Left, *, stays_s: float) -> None:
        """Wait until nothing is left and stays so; report what is left at the limit."""
        begun_s = tended_s = good_s = time.monotonic()
        left = [NOT_READ]
        while (now_s := time.monotonic()) - begun_s < self._limit_s:
            if now_s - tended_s > TEND_S:
                self._traffic.tend()
                tended_s = now_s
            left = self._left(left_in, begun_s)
            if left:
                good_s = time.monotonic()
            elif time.monotonic() - good_s >= stays_s:
                return
            time.sleep(0.3)
        after = f"after {self._limit_s:.0f} s"
        self._observer.report("convergence", (f"{after}: {one}" for one in left))

    def _left(self, left_in: Left, since_s: float) -> list[str]:
        kube, slurm = self._observer.kube, self._observer.slurm
        if kube is None or slurm is None or min(kube.asked_s, slurm.asked_s) < since_s:
            return [NOT_READ]
        return left_in(kube, slurm)


def check_writers(world: World, observer: Observer) -> None:
    """Compare all writes with the holders of the Lease."""
    writes = [write for one in world.all_replicas for write in one.writes()]
    found = observer.writer.check(sorted(writes), world.owner_of)
    observer.report(observer.writer.name, found)


def check_logs(world: World, observer: Observer) -> None:
    for one in world.all_replicas:
        found = alarming(one.service.lines())
        observer.report("log", (f"{one.name}: {text}" for text in found))


def tally(world: World, observer: Observer, traffic: Traffic, tell: Tell) -> None:
    """Say what was done and read."""
    tell(f"users: {spelled(traffic.done)}")
    tell(f"reads: {spelled(Counter(observer.views))}")
    tell(f"{len(observer.bound)} Pods bound, {len(observer.seen_jobs)} placeholders")
    noted, failed = world.site.count(NOTED), world.site.count(FAILED)
    tell(f"the site's prolog wrote into {noted} jobs, and failed {failed} times")
    for one in (observer.pods, observer.jobs, observer.waiting):
        tell(f"{one.name}: {one.noticed} noticed, for {one.longest_s:.1f} calm seconds at most")
    tell(f"most submissions of a workload in a minute: {observer.submissions.most}")


def spelled(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
