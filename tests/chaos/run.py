"""One run: bursts of faults with calm between, then nothing disturbed until all has converged."""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from tests.chaos.checkers import Violation, alarming, unconverged
from tests.chaos.faults import Fault, Injector, draw
from tests.chaos.observer import Observer
from tests.chaos.traffic import Traffic
from tests.chaos.world import World
from tests.real.testbed import BedError

BURST_S = 45.0
CALM_S = 30.0
RECOVERY_S = 12.0
"""So long clients need after a fault to find their servers again."""
CONVERGE_S = 120.0
STAYS_S = 3.0
Say = Callable[[str], None]


class Options(Struct, frozen=True, kw_only=True):
    seed: int
    seconds: float
    replicas: int = 1
    slurm: str = "26.05"
    folder: Path
    """Where the logs of a failed run are kept."""


class Calm:
    """For how long nothing has been disturbed."""

    def __init__(self) -> None:
        self.slack = 1.0
        self._active = 0
        self._since_s = time.monotonic()
        self._lock = threading.Lock()

    def seconds(self) -> float:
        with self._lock:
            since_s = time.monotonic() - self._since_s
            return 0.0 if self._active else max(0.0, since_s - RECOVERY_S * self.slack)

    def begins(self) -> None:
        with self._lock:
            self._active += 1

    def ends(self) -> None:
        with self._lock:
            self._active -= 1
            self._since_s = time.monotonic()


class Run:
    """`go` returns the violations."""

    def __init__(self, options: Options, say: Say) -> None:
        self._options = options
        self._say = say
        self._begun_s = time.monotonic()
        self._rng = random.Random(options.seed)
        self._calm = Calm()
        self._inflicted: Counter[str] = Counter()
        self._failures: list[BaseException] = []

    def go(self) -> list[Violation]:
        options = self._options
        self._tell(f"seed {options.seed}, {options.seconds:g} s, {options.replicas} replicas")
        with World(slurm=options.slurm, replicas=options.replicas) as world:
            self._calm.slack = world.slack
            self._tell(f"the servers and the replicas are up; slack {world.slack:.1f}")
            try:
                found = self._in(world)
            except BaseException:
                world.keep_logs(options.folder)
                self._tell(f"logs: {options.folder}")
                raise
            if found:
                world.keep_logs(options.folder)
                self._tell(f"logs: {options.folder}")
            return found

    def _in(self, world: World) -> list[Violation]:
        elects = len(world.replicas) > 1
        with Observer(
            world.bed, calm_s=self._calm.seconds, elects=elects, slack=world.slack
        ) as observer:
            traffic = Traffic(
                world,
                random.Random(self._options.seed + 1),
                humans=observer.humans,
                calm=lambda: self._calm.seconds() > 0,
            )
            with traffic:
                self._disturb(world, observer)
            converged_s = self._converge(world, observer, traffic)
            self._check_writers(world, observer)
            self._check_logs(world, observer)
        self._tally(world, observer, traffic)
        self._tell(f"converged {converged_s:.1f} s after the last fault")
        world.check_servers()
        return list(observer.violations.values())

    def _disturb(self, world: World, observer: Observer) -> None:
        injector = Injector(
            world, on_state_lost=lambda since_s: observer.humans.lost(since_s=since_s)
        )
        ends_s = time.monotonic() + self._options.seconds
        while (now := time.monotonic()) < ends_s:
            burst_ends_s = min(now + BURST_S, ends_s)
            while time.monotonic() < burst_ends_s:
                self._inflict(injector, draw(self._rng, replicas=len(world.replicas)))
                time.sleep(self._rng.uniform(0, 3))
            if time.monotonic() + CALM_S < ends_s:
                self._tell("calm")
                time.sleep(CALM_S)

    def _inflict(self, injector: Injector, faults: list[Fault]) -> None:
        threads = []
        for fault in faults:
            self._tell(f"fault: {fault}")
            self._inflicted[f"{fault.kind} {_kind_of(fault.target)}"] += 1
            threads.append(threading.Thread(target=self._one, args=(injector, fault), daemon=True))
            threads[-1].start()
            time.sleep(self._rng.uniform(0, 1))
        for thread in threads:
            thread.join()
        if self._failures:
            raise self._failures[0]

    def _one(self, injector: Injector, fault: Fault) -> None:
        self._calm.begins()
        try:
            injector.inflict(fault)
        except BaseException as error:  # noqa: BLE001 - raised by _inflict
            self._failures.append(error)
        finally:
            self._calm.ends()

    def _converge(self, world: World, observer: Observer, traffic: Traffic) -> float:
        """Wait until everything is as it must be and stays so; return the seconds it took."""
        begun_s, limit_s = time.monotonic(), CONVERGE_S * world.slack
        self._tell("no more faults; the users go home")
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

    def _check_writers(self, world: World, observer: Observer) -> None:
        for one in world.replicas:
            for at_s in one.starts:
                observer.submissions.started(at_s)
        if len(world.replicas) > 1:
            writes = [write for one in world.replicas for write in one.writes()]
            found = observer.writer.check(sorted(writes), world.owner_of)
            observer.report(observer.writer.name, found)

    def _check_logs(self, world: World, observer: Observer) -> None:
        for one in world.replicas:
            found = alarming(one.service.lines())
            observer.report("log", (f"{one.name}: {text}" for text in found))

    def _tally(self, world: World, observer: Observer, traffic: Traffic) -> None:
        self._tell(f"faults ({self._inflicted.total()}): {_spelled(self._inflicted)}")
        self._tell(f"users: {_spelled(traffic.done)}")
        self._tell(f"reads: {_spelled(Counter(observer.views))}")
        pods, jobs = len(observer.bound), len(observer.seen_jobs)
        self._tell(f"{pods} Pods bound, {jobs} placeholders")
        self._tell(
            f"longest calm time: Pod without job {observer.pods.longest_s:.1f} s, job without Pod"
            f" {observer.jobs.longest_s:.1f} s; most submissions of a workload in a minute:"
            f" {observer.submissions.most}"
        )
        for one in world.replicas:
            ended = f"ended by itself with {one.exits}" if one.exits else "never ended by itself"
            self._tell(f"{one.name}: {len(one.starts)} starts, {len(one.writes())} writes, {ended}")
        if len(world.replicas) > 1:
            self._tell(f"{observer.writer.changes} changes of the leader")

    def _tell(self, text: str) -> None:
        self._say(f"{time.monotonic() - self._begun_s:6.1f} s  {text}")


def _kind_of(target: str) -> str:
    """`slurmd` of `slurmd-n3`, `replica to_kube` of `replica-2 to_kube`."""
    words = [word.partition("-")[0] if "kube" not in word else word for word in target.split()]
    return " ".join(words)


def _spelled(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
