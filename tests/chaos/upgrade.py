"""Rolling upgrades under the load of chaos, without faults: nothing may come late.

`python -m tests.chaos.upgrade --times 10`. Each upgrade replaces both replicas as a RollingUpdate
does: a new one, and when it is ready, SIGTERM for an old one. With `--older DIRECTORY`, a checkout
of an older version, the upgrades go from the older version to this one and back.
"""

import argparse
import random
import sys
import time
from pathlib import Path
from typing import Any

from msgspec import Struct

from tests.chaos.checkers import Violation
from tests.chaos.observer import Observer
from tests.chaos.probes import Probes, probe_conf, told
from tests.chaos.run import exit_code
from tests.chaos.snapshot import differences, snapshot
from tests.chaos.traffic import Traffic
from tests.chaos.verdict import check_logs, check_writers, converge, tally
from tests.chaos.world import READY_S, World
from tests.real.service import NAMESPACE
from tests.real.testbed.cache import KUBE_DEFAULT, SLURM_SUITES
from tests.real.testbed.kube import REPOSITORY
from tests.real.testbed.requirements import why_not
from tests.real.testbed.sandbox import wait_until

LATE_S = 2.0
BEFORE_S = 30.0
"""Load without an upgrade, to compare."""
PAUSE_S = 4.0
REPLICAS = 2


class Options(Struct, frozen=True, kw_only=True):
    seed: int
    times: int
    slurm: str
    older: Path | None = None
    folder: Path
    """Where the logs of a failed run are kept."""


class Upgrades:
    """`go` returns the violations."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._begun_s = time.monotonic()
        self._rng = random.Random(options.seed)
        self._versions = [options.older or REPOSITORY, REPOSITORY]
        """The one that runs, and the next one."""

    def go(self) -> list[Violation]:
        options = self._options
        self._tell(f"seed {options.seed}, {options.times} upgrades")
        with World(
            slurm=options.slurm, replicas=REPLICAS, sources=self._versions[0], conf=probe_conf()
        ) as world:
            self._tell(f"the servers and the replicas are up; slack {world.slack:.1f}")
            try:
                found = self._in(world)
            except BaseException:
                world.keep_logs(options.folder)
                raise
            if found:
                world.keep_logs(options.folder)
                self._tell(f"logs: {options.folder}")
            return found

    def _in(self, world: World) -> list[Violation]:
        begun_s = time.monotonic()
        with Observer(world, calm_s=lambda: time.monotonic() - begun_s, elects=True) as observer:
            traffic = Traffic(
                world,
                random.Random(self._options.seed + 1),
                humans=observer.humans,
                on_cancel=observer.cancelled.add,
                calm=lambda: True,
            )
            with traffic, Probes(world.pods) as probes:
                time.sleep(BEFORE_S)
                first_s = time.monotonic()
                for number in range(1, self._options.times + 1):
                    self._upgrade(world, observer)
                    self._tell(f"upgrade {number}")
                    time.sleep(PAUSE_S)
            self._report(observer, probes, first_s)
            self._tell(f"converged in {converge(world, observer, traffic):.1f} s")
            self._upgrade_at_rest(world, observer)
            check_writers(world, observer)
            check_logs(world, observer)
        tally(world, observer, traffic, self._tell)
        self._tally(world, observer)
        world.check_servers()
        return list(observer.violations.values())

    def _upgrade(self, world: World, observer: Observer) -> None:
        """Replace the replicas in random order; the next upgrade goes back."""
        _, version = self._versions
        for old in self._rng.sample(world.replicas, len(world.replicas)):
            new = world.add(version)
            wait_until(lambda new=new: new.ready, f"{new.name} ready", deadline_s=READY_S)  # type: ignore[misc]
            code = world.retire(old)
            if code:
                observer.report("exit", iter([f"{old.name} ended with {code} at SIGTERM"]))
            time.sleep(self._rng.uniform(0, 1))
        self._versions.reverse()

    def _upgrade_at_rest(self, world: World, observer: Observer) -> None:
        """With nothing to do, another version must change no job, node or Pod: there and back."""
        before, writes = snapshot(world.bed, NAMESPACE), _writes(world)
        for _ in range(2):
            self._upgrade(world, observer)
        time.sleep(PAUSE_S)
        found = differences(before, snapshot(world.bed, NAMESPACE))
        observer.report("at rest", iter(found))
        self._tell(f"two upgrades at rest: {len(before)} objects, {len(found)} changed,")
        self._tell(f"  {_writes(world) - writes} writes")

    def _report(self, observer: Observer, probes: Probes, first_s: float) -> None:
        for what, waits in (("drains", probes.drains), ("bindings", probes.bindings)):
            before = [one for one in waits if one.begun_s < first_s]
            during = [one for one in waits if one.begun_s >= first_s]
            self._tell(f"{what} before: {told(before)}")
            late = [one for one in during if one.own_s > LATE_S]
            self._tell(f"{what} during the upgrades: {told(during)}; later than 2 s: {len(late)}")
            observer.report(what, (f"{one.name} took {one.own_s:.2f} s" for one in late))

    def _tally(self, world: World, observer: Observer) -> None:
        writers = sum(bool(one.writes()) for one in world.all_replicas)
        self._tell(
            f"{len(world.all_replicas)} processes, of which {writers} wrote;"
            f" {observer.writer.changes} changes of the leader, {observer.writer.writes} writes"
        )
        by_themselves = [one.name for one in world.all_replicas if one.exits]
        self._tell(f"ended by themselves: {by_themselves or 'none'}")

    def _tell(self, text: str) -> None:
        print(f"{time.monotonic() - self._begun_s:6.1f} s  {text}", flush=True)


def _writes(world: World) -> int:
    return sum(len(one.writes()) for one in world.all_replicas)


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.upgrade", description=__doc__)
    parser.add_argument("--times", type=int, default=10, help="upgrades (default: 10)")
    parser.add_argument("--older", type=Path, help="a checkout of an older version")
    parser.add_argument("--seed", type=int, help="default: a random one, which is printed")
    parser.add_argument("--slurm", default="26.05", choices=SLURM_SUITES)
    given: Any = parser.parse_args(argv)
    if reason := why_not(kube=KUBE_DEFAULT, slurm=given.slurm):
        print(f"This cannot run here: {reason}", file=sys.stderr)
        return 2
    seed = random.randrange(1 << 30) if given.seed is None else given.seed
    options = Options(
        seed=seed,
        times=given.times,
        slurm=given.slurm,
        older=given.older and given.older.resolve(),
        folder=Path("build") / "chaos" / f"upgrade-{seed}",
    )
    return exit_code(Upgrades(options).go, seed=seed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
