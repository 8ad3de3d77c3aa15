"""One run: bursts of faults with calm between, then nothing disturbed until all has converged."""

import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from pathlib import Path

from msgspec import Struct

from tests.chaos.checkers import Violation
from tests.chaos.faults import Fault, Injector, draw
from tests.chaos.observer import Observer
from tests.chaos.traffic import Traffic
from tests.chaos.verdict import check_logs, check_writers, converge, spelled, tally
from tests.chaos.world import World
from tests.real.testbed import BedError

BURST_S = 45.0
CALM_S = 36.0
LONG_CALM_S = 130.0
"""Once in a long run: a Pod whose job Slurm has lost may live for nearly two minutes."""
LONG_RUN_S = 400.0
RECOVERY_S = 12.0
"""So long clients need after a fault to find their servers again."""
Say = Callable[[str], None]


class Options(Struct, frozen=True, kw_only=True):
    seed: int
    seconds: float
    replicas: int = 1
    slurm: str = "26.05"
    folder: Path
    """Where the logs of a failed run are kept."""
    keep_logs: bool = False
    """Also of one without violations."""


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
            if found or options.keep_logs:
                world.keep_logs(options.folder)
                self._tell(f"logs: {options.folder}")
            return found

    def _in(self, world: World) -> list[Violation]:
        elects = len(world.replicas) > 1
        with Observer(world, calm_s=self._calm.seconds, elects=elects) as observer:
            traffic = Traffic(
                world,
                random.Random(self._options.seed + 1),
                humans=observer.humans,
                on_cancel=observer.cancelled.add,
                calm=lambda: self._calm.seconds() > 0,
            )
            with traffic:
                self._disturb(world, observer)
            self._tell("no more faults; the users go home")
            converged_s = converge(world, observer, traffic)
            if elects:
                check_writers(world, observer)
            check_logs(world, observer)
        self._tally(world, observer, traffic)
        self._tell(f"converged {converged_s:.1f} s after the last fault")
        world.check_servers()
        return list(observer.violations.values())

    def _disturb(self, world: World, observer: Observer) -> None:
        injector = Injector(
            world, on_state_lost=lambda since_s: observer.humans.lost(since_s=since_s)
        )
        calms = self._calms()
        ends_s = time.monotonic() + self._options.seconds
        while (now := time.monotonic()) < ends_s:
            burst_ends_s = min(now + BURST_S, ends_s)
            while time.monotonic() < burst_ends_s:
                self._inflict(injector, draw(self._rng, replicas=len(world.replicas)))
                time.sleep(self._rng.uniform(0, 3))
            calm_s = next(calms) * world.slack
            if time.monotonic() + calm_s < ends_s:
                self._tell(f"calm for {calm_s:.0f} s; {observer.now()}")
                time.sleep(calm_s)

    def _calms(self) -> Iterator[float]:
        """Yield how long each calm is: long enough for every limit of a checker."""
        yield CALM_S
        if self._options.seconds >= LONG_RUN_S:
            yield LONG_CALM_S
        yield from repeat(CALM_S)

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

    def _tally(self, world: World, observer: Observer, traffic: Traffic) -> None:
        self._tell(f"faults ({self._inflicted.total()}): {spelled(self._inflicted)}")
        tally(world, observer, traffic, self._tell)
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


def exit_code(go: Callable[[], Sequence[object]], *, seed: int) -> int:
    """Print the violations of a run; return 1 if there are any, 2 if the servers cannot run."""
    try:
        violations = go()
    except BedError as error:
        print(error, file=sys.stderr)
        return 2
    for one in violations:
        print(f"VIOLATION {one}")
    print(f"seed {seed}: {len(violations)} violations")
    return 1 if violations else 0
