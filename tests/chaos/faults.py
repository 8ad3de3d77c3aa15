"""The faults: what is killed, stopped, slowed or cut off, and for how long."""

import random
import signal
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from msgspec import Struct

from tests.chaos.proxy import Mode, Proxy
from tests.chaos.world import HOSTS, Replica, World

UNSAVED_S = 10.0
"""A slurmctld that is killed loses the last five seconds."""


class Fault(Struct, frozen=True, kw_only=True):
    """A fault of the plan. Two at once are of different groups."""

    group: str
    target: str
    kind: str
    for_s: float

    def __str__(self) -> str:
        return f"{self.kind} {self.target} for {self.for_s:.1f} s"


class Choice(NamedTuple):
    group: str
    target: str
    kind: str
    least_s: float
    most_s: float
    weight: int


KILLED, STOPPED, TERMINATED = "kill", "stop", "terminate"
CHOICES = (
    Choice("kubernetes", "kube-apiserver", KILLED, 0.5, 6, 3),
    Choice("kubernetes", "kube-apiserver", STOPPED, 1, 12, 3),
    Choice("kubernetes", "etcd", KILLED, 0.5, 5, 2),
    Choice("kubernetes", "etcd", STOPPED, 1, 10, 2),
    Choice("slurm", "slurmctld", KILLED, 0.5, 8, 3),
    Choice("slurm", "slurmctld", TERMINATED, 0.5, 8, 2),
    Choice("slurm", "slurmctld", STOPPED, 1, 15, 3),
    Choice("slurm", "slurmrestd", KILLED, 0.5, 8, 3),
    Choice("slurm", "slurmrestd", STOPPED, 1, 12, 2),
    Choice("slurm", "slurmd", KILLED, 0.5, 15, 3),
    Choice("slurm", "slurmd", STOPPED, 1, 10, 2),
    Choice("replica", "replica", KILLED, 0.2, 5, 4),
    Choice("replica", "replica", TERMINATED, 0.2, 3, 2),
    Choice("replica", "replica", STOPPED, 1, 25, 4),
    Choice("way", "to_kube", "cut", 1, 15, 3),
    Choice("way", "to_kube", "frozen", 1, 15, 3),
    Choice("way", "to_kube", "slow", 3, 15, 2),
    Choice("way", "to_slurm", "cut", 1, 15, 3),
    Choice("way", "to_slurm", "frozen", 1, 15, 3),
    Choice("way", "to_slurm", "slow", 3, 15, 2),
    Choice("way", "to_hooks", "cut", 1, 12, 2),
    Choice("way", "to_hooks", "frozen", 1, 12, 2),
)
SLOW_S = 0.7
"""How late each piece is."""


def draw(rng: random.Random, *, replicas: int) -> list[Fault]:
    """Draw one fault, or two of different groups."""
    first = _one(rng, CHOICES, replicas)
    others = [one for one in CHOICES if one.group != first.group]
    return [first, *([_one(rng, others, replicas)] if rng.random() < 0.4 else [])]


def _one(rng: random.Random, choices: tuple[Choice, ...] | list[Choice], replicas: int) -> Fault:
    (chosen,) = rng.choices(choices, [one.weight for one in choices])
    target = chosen.target
    number = rng.randint(1, replicas)
    if target == "replica":
        target = f"replica-{number}"
    elif target in ("to_kube", "to_slurm"):
        target = f"replica-{number} {target}"
    elif target == "slurmd":
        target = f"slurmd-n{rng.randint(1, HOSTS)}"
    for_s = round(rng.uniform(chosen.least_s, chosen.most_s), 1)
    return Fault(group=chosen.group, target=target, kind=chosen.kind, for_s=for_s)


Heal = Callable[[], None]


class Injector:
    """Begins faults in a world, and ends them."""

    def __init__(self, world: World, *, on_state_lost: Callable[[float], None]) -> None:
        self._world = world
        self._on_state_lost = on_state_lost

    def inflict(self, fault: Fault) -> None:
        """Begin the fault, wait, and end it."""
        heal = self._begin(fault)
        time.sleep(fault.for_s)
        heal()

    def _begin(self, fault: Fault) -> Heal:
        if fault.group == "way":
            return self._way(fault)
        if fault.group == "replica":
            return self._replica(fault)
        return self._daemon(fault)

    def _way(self, fault: Fault) -> Heal:
        proxy = next(one for name, one in self._proxies() if name == fault.target)
        kind = fault.kind
        mode: Mode = "cut" if kind == "cut" else "frozen" if kind == "frozen" else "slow"
        proxy.set(mode, delay_s=SLOW_S)
        return lambda: proxy.set("open")

    def _proxies(self) -> Iterator[tuple[str, Proxy]]:
        yield "to_hooks", self._world.to_hooks
        for one in self._world.replicas:
            yield f"{one.name} to_kube", one.to_kube
            yield f"{one.name} to_slurm", one.to_slurm

    def _replica(self, fault: Fault) -> Heal:
        replica = next(one for one in self._world.replicas if one.name == fault.target)
        if not replica.service.running:
            return lambda: None
        if fault.kind == STOPPED:
            replica.service.send(signal.SIGSTOP)
            return lambda: replica.service.send(signal.SIGCONT)
        replica.hold()
        replica.service.send(signal.SIGKILL if fault.kind == KILLED else signal.SIGTERM)
        return lambda: _let_start(replica)

    def _daemon(self, fault: Fault) -> Heal:
        kube, slurm = self._world.bed.kube, self._world.bed.slurm
        side = kube if fault.group == "kubernetes" else slurm
        daemon = side.daemons[fault.target]
        if fault.kind == STOPPED:
            daemon.pause()
            return daemon.resume
        if fault.target == "slurmctld" and fault.kind == KILLED:
            self._on_state_lost(time.monotonic() - UNSAVED_S)
        daemon.stop(signal.SIGTERM if fault.kind == TERMINATED else signal.SIGKILL)
        starts: dict[str, Heal] = {
            "kube-apiserver": kube.start,
            "etcd": kube.start_etcd,
            "slurmctld": slurm.start_slurmctld,
            "slurmrestd": slurm.start_slurmrestd,
        }
        name = fault.target.removeprefix("slurmd-")
        return starts.get(fault.target, lambda: slurm.start_slurmd(name))


def _let_start(replica: Replica) -> None:
    replica.service.wait_end()
    replica.held.clear()
