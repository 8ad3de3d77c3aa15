"""Random histories with packing: jobs come and go, and people and Slurm set weights (W1-W4)."""

from collections.abc import Callable

from msgspec.structs import replace

from sunk_sync.core.model.actions import SetWeight
from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.facts import SlurmNode
from sunk_sync.core.model.verdict import Decision
from sunk_sync.core.translate.node_states import is_drained, is_frozen
from sunk_sync.core.translate.packed_weight import EMPTY, FULL, OWN_MAX, own_weight, packed_weight
from tests.core.checks import HistoryError
from tests.core.history import History
from tests.core.world_changes import SLURM_NODES

OWN = (0, 1, 1, 20, OWN_MAX, OWN_MAX + 1)


class PackingHistory(History):
    """Run one seed. HistoryError carries the last steps in its notes."""

    def _configuration(self) -> Configuration:
        return replace(super()._configuration(), pack=self.rng.choice(("nodes", "nodes", "off")))

    def _kinds(self) -> tuple[Callable[[], None], ...]:
        return (*super()._kinds(), self._use, self._use, self._set_weight)

    def _prepare(self) -> None:
        super()._prepare()
        for row in list(self.world.slurm_nodes.values()):
            self.world.put_slurm_node(replace(row, fill=self._fill(EMPTY)))

    def _fill(self, fill: int) -> int | None:
        """Without --pack nobody reads it."""
        return None if self.configuration.pack == "off" else fill

    def _use(self) -> None:
        """Jobs begin or end on a node."""
        row = self.world.slurm_nodes.get(self.rng.choice(SLURM_NODES))
        if row is not None:
            fill = self.rng.choice((EMPTY, 1, 2, 3, 4, FULL))
            self.world.put_slurm_node(replace(row, fill=self._fill(fill)))

    def _set_weight(self) -> None:
        """A person or a reconfigure sets a weight; or one stands from before."""
        row = self.world.slurm_nodes.get(self.rng.choice(SLURM_NODES))
        if row is None:
            return
        weight = self.rng.choice((*OWN, packed_weight(20, self.rng.randrange(FULL))))
        self._note("weight", row.name, weight)
        self.world.put_slurm_node(replace(row, weight=weight))

    def _check(self, decision: Decision) -> None:
        """W2, W3: no packed weight without --pack, and none of another own weight."""
        super()._check(decision)
        for action in decision.allowed:
            if not isinstance(action, SetWeight):
                continue
            packed = own_weight(action.weight)
            if self.configuration.pack == "off" and packed is not None:
                raise HistoryError(f"packed: {action}")
            if action.own not in (None, packed, action.weight):
                raise HistoryError(f"own: {action}")

    def _check_rest(self) -> None:
        """W1, W4: hosts with a Node have the weight of their use, or their own one."""
        super()._check_rest()
        for row in self.world.slurm_nodes.values():
            host = self.graph.host(row.name)
            if host.node is None or host.rivals or is_frozen(row.state):
                continue
            if not self._is_right(row):
                raise HistoryError(f"weight: {row}")

    def _is_right(self, row: SlurmNode) -> bool:
        own = own_weight(row.weight)
        if self.configuration.pack == "off":
            return own is None
        if row.fill is None or own is None:
            return row.fill is None or row.weight > OWN_MAX
        takes_jobs = row.fill != FULL and not is_drained(row.state)
        return not takes_jobs or row.weight == packed_weight(own, row.fill)
