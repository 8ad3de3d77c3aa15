"""The slurmd of all nodes, and how slurmctld follows them: silence, registration, reboot."""

from collections.abc import Iterable
from math import floor
from typing import Final

from msgspec.structs import replace

from sunk_sync.embedded.slurm.memory import Memory, Slurmd
from sunk_sync.embedded.slurm.model.node import (
    DEAF,
    INVALID_REG,
    POWER,
    REBOOTING,
    Node,
    reasoned,
    without_reason,
)
from sunk_sync.embedded.slurm.model.timers import SlurmTimers
from sunk_sync.embedded.slurm.scheduler import Scheduler

SILENT: Final = "Not responding"
_REQUESTED: Final = frozenset({"REBOOT_REQUESTED", "POWER_DOWN", "POWER_UP"})
_BOOTED: Final = frozenset({"POWERING_UP", "REBOOT_ISSUED"})


class Daemons:
    def __init__(self, memory: Memory, timers: SlurmTimers, scheduler: Scheduler) -> None:
        self._memory = memory
        self._timers = timers
        self._scheduler = scheduler

    def stop(self, name: str) -> None:
        """Stop a slurmd: it misses the next ping, and its node is DOWN after SlurmdTimeout."""
        self._memory.slurmds[name] = replace(self._memory.slurmds[name], running=False)
        self._miss(name)

    def meet_again(self, after_s: float) -> None:
        """Ask every slurmd, after slurmctld has read its configuration; some do not answer.

        It goes on with reboots and power actions.
        """
        self.ping_soon(after_s)
        for node in list(self._memory.nodes.values()):
            self._go_on(node)
        for name, slurmd in self._memory.slurmds.items():
            if not slurmd.running:
                self._miss(name)

    def _go_on(self, node: Node) -> None:
        if node.flags & _REQUESTED:
            self._begin_soon(node.name)
        elif node.flags & _BOOTED:
            self._boot_later(node.name)
        elif "POWERING_DOWN" in node.flags:
            self._off_later(node.name)

    def _miss(self, name: str) -> None:
        knobs, now_s = self._memory.knobs, self._memory.now_s
        self._timers.note(_following(now_s, knobs.ping_every_s), lambda _: self._ping(name))
        self._timers.note(now_s + knobs.slurmd_timeout_s, lambda _: self._time_out(name))

    def start(self, name: str, *, rebooted: bool = False) -> None:
        """Start a slurmd; it registers at once."""
        now_s = self._memory.epoch_s
        known = self._memory.slurmds.get(name, Slurmd())
        boot_s = now_s if rebooted or not known.boot_s else known.boot_s
        self._memory.slurmds[name] = replace(known, running=True, start_s=now_s, boot_s=boot_s)
        self._register(name)

    def ping_soon(self, after_s: float) -> None:
        """Ping all nodes that are silent, DOWN or UNKNOWN."""
        self._timers.note(self._memory.now_s + after_s, lambda _: self.ask(self._memory.unsettled))

    def ask(self, names: Iterable[str]) -> None:
        """Ask these nodes to register; those with a running slurmd do."""
        for name in sorted(names):
            self._register(name)

    def settle(self, node: Node) -> None:
        """Apply an update: end the jobs of a DOWN node, begin reboots and power actions."""
        if node.base == "DOWN":
            self._scheduler.lifecycle.fail_node(node.name)
        if node.flags & _REQUESTED:
            self._begin_soon(node.name)
        self._scheduler.look()

    def _ping(self, name: str) -> None:
        node = self._silent(name)
        if node is not None and DEAF not in node.flags:
            self._memory.put(replace(node, flags=node.flags | {DEAF}))

    def _time_out(self, name: str) -> None:
        node = self._silent(name)
        if node is None or node.base == "DOWN" or node.flags & POWER:
            return
        self._memory.put(
            replace(
                node,
                base="DOWN",
                flags=node.flags | {DEAF},
                reason=f"{node.reason} : {SILENT}" if node.reason else SILENT,
                reason_s=self._memory.epoch_s,
                reason_user="slurm",
            )
        )
        self._scheduler.lifecycle.fail_node(name)

    def _silent(self, name: str) -> Node | None:
        slurmd = self._memory.slurmds.get(name)
        return None if slurmd is None or slurmd.running else self._memory.nodes.get(name)

    def _register(self, name: str) -> None:
        node, slurmd = self._memory.nodes.get(name), self._memory.slurmds.get(name)
        if node is None or slurmd is None or not slurmd.running or node.base == "FUTURE":
            return
        if node.flags & _BOOTED and slurmd.boot_s < node.reason_s:
            return
        node = self._back(node)
        node = replace(
            node,
            flags=node.flags - {DEAF},
            boot_s=slurmd.boot_s,
            slurmd_start_s=slurmd.start_s,
            last_busy_s=node.last_busy_s or self._memory.epoch_s,
        )
        node = self._checked(node, slurmd)
        self._memory.put(reasoned(node, self._memory.release))
        self._scheduler.look()

    def _back(self, node: Node) -> Node:
        """Return the state after a registration: IDLE, or DOWN if ReturnToService says so."""
        if node.flags & _BOOTED:
            drop = REBOOTING | POWER | ({"DRAIN"} if node.undrains else set())
            return replace(node, base="IDLE", flags=node.flags - drop, undrains=False)
        returns = self._memory.knobs.return_to_service
        silent = node.reason.startswith(SILENT)
        if node.base == "DOWN" and not (returns == 2 or (returns == 1 and silent)):
            return node
        if node.base == "DOWN" and silent:
            node = without_reason(node)
        return replace(node, base="IDLE")

    def _checked(self, node: Node, slurmd: Slurmd) -> Node:
        """Drain a node with fewer GPUs than configured; the drain stays after a repair."""
        has, wants = (
            _count(slurmd.gres if slurmd.gres is not None else node.gres),
            _count(node.gres),
        )
        if has >= wants:
            return replace(node, flags=node.flags - {INVALID_REG})
        text = f"gres/gpu count reported lower than configured ({has} < {wants})"
        new = "DRAIN" in node.flags or not node.reason
        if node.reason != text and INVALID_REG not in node.flags and new:
            node = replace(node, reason=text, reason_s=self._memory.epoch_s, reason_user="slurm")
        return replace(node, flags=node.flags | {"DRAIN", INVALID_REG})

    def _begin_soon(self, name: str) -> None:
        due_s = _following(self._memory.now_s, self._memory.knobs.schedule_every_s)
        self._timers.note(due_s, lambda _: self._begin(name))

    def _begin(self, name: str) -> None:
        """Begin a reboot or power action as soon as the node has no job."""
        node = self._memory.nodes.get(name)
        if node is None or not node.flags & _REQUESTED:
            return
        if node.running or node.ending:
            self._begin_soon(name)
        elif "REBOOT_REQUESTED" in node.flags:
            self._reboot(node)
        elif "POWER_DOWN" in node.flags:
            self._power_down(node)
        else:
            self._power_up(node)

    def _reboot(self, node: Node) -> None:
        said = f"{node.reason} : reboot issued" if node.reason else "reboot issued"
        flags = (node.flags - REBOOTING) | {"REBOOT_ISSUED"}
        self._memory.put(
            replace(
                node,
                base="DOWN",
                flags=flags,
                reason=said,
                reason_s=self._memory.epoch_s,
                reason_user="slurm",
            )
        )
        self._boot_later(node.name)

    def _power_down(self, node: Node) -> None:
        self._memory.put(replace(node, flags=(node.flags - POWER - {DEAF}) | {"POWERING_DOWN"}))
        self._off_later(node.name)

    def _off_later(self, name: str) -> None:
        def off(now_s: float) -> None:
            del now_s
            known = self._memory.nodes.get(name)
            if known is not None and "POWERING_DOWN" in known.flags:
                flags = (known.flags - POWER - {"DRAIN"}) | {"POWERED_DOWN"}
                base = "IDLE" if known.base == "UNKNOWN" else known.base
                self._memory.put(replace(known, base=base, flags=flags))

        self._timers.note(self._memory.now_s + self._memory.knobs.suspend_s, off)

    def _power_up(self, node: Node) -> None:
        node = replace(node, flags=(node.flags - POWER) | {"POWERING_UP", DEAF})
        self._memory.put(reasoned(node, self._memory.release))
        self._boot_later(node.name)

    def _boot_later(self, name: str) -> None:
        due_s = self._memory.now_s + self._memory.knobs.boot_s

        def boot(now_s: float) -> None:
            del now_s
            node = self._memory.nodes.get(name)
            if node is not None and node.flags & _BOOTED:
                self.start(name, rebooted=True)

        self._timers.note(due_s, boot)


def _following(now_s: float, every_s: float) -> float:
    return (floor(now_s / every_s) + 1) * every_s


def _count(gres: str) -> int:
    number = gres.partition("(")[0].rpartition(":")[2]
    return int(number) if number.isdecimal() else 0
