"""Rare operations: restore of etcd, power saving, future nodes.

They use their own random numbers and occur in some seeds only, so that other seeds do not change.
"""

import random
from collections.abc import Callable

from sunk_sync.embedded.kubernetes.store.store import Snapshot
from sunk_sync.embedded.slurm.node_update import Update
from tests.sim.cast import PERSON
from tests.sim.wire import Wire

ON = 0.3
"""Share of seeds with rare operations."""
RESTORE_S = (10.0, 20.0)
"""Time without an API server during a restore of etcd."""
POWER_STATES = ("POWER_DOWN", "POWER_DOWN", "POWER_DOWN_ASAP", "POWER_DOWN_FORCE", "POWER_UP")


class Rare:
    """Performs rare operations. `on` is False in most seeds."""

    def __init__(self, rng: random.Random, wire: Wire) -> None:
        self._rng = rng
        self._wire = wire
        self._worlds = wire.worlds
        self._backup: Snapshot | None = None
        self.on = rng.random() < ON
        self._share = rng.choice((0.03, 0.1, 0.2))
        kinds: tuple[Callable[[], object], ...] = (
            self.etcd_backup,
            self.etcd_restored,
            self.power,
            self.future,
            self.future_no_more,
        )
        self._kinds = [one for one in kinds if rng.random() < 0.6]

    def act(self) -> None:
        if not self.on or not self._kinds or self._rng.random() >= self._share:
            return
        doing = self._rng.choice(self._kinds)
        history = self._worlds.history
        history.count(f"fault: {doing.__name__}")
        answer = doing()
        history.note("rare", doing.__name__, "" if answer is None else answer)

    def etcd_backup(self) -> None:
        self._backup = self._worlds.kube.backup()

    def etcd_restored(self) -> None:
        """Restore a snapshot of etcd: objects and versions go back. No API server runs meanwhile.

        Dead connections that no side has noticed stay open.
        """
        if self._backup is None:
            return
        for stream in list(self._wire.streams):
            if not stream.frozen:
                stream.cut()
        self._worlds.restore(self._backup)
        self._wire.restored_until_s = self._worlds.now_s + self._rng.uniform(*RESTORE_S)

    def power(self) -> object:
        return self._update(Update(state=self._rng.choice(POWER_STATES)))

    def future(self) -> object:
        """Set a node to FUTURE: no listing shows it."""
        return self._update(Update(state="FUTURE"))

    def future_no_more(self) -> object:
        return self._update(Update(state="RESUME"))

    def _update(self, update: Update) -> object:
        slurm, now_s = self._worlds.slurm, self._worlds.now_s
        name = self._rng.choice(sorted(slurm.nodes))
        self._worlds.try_to(PERSON, lambda: slurm.update(name, update, now_s=now_s))
        return f"{name} {update.state}"
