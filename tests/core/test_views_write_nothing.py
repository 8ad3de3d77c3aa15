"""A view may be built at any time, by the audit or by explain: it changes nothing."""

import pytest

from sunk_sync.core.decide import decide
from tests.core.graph_state import drop_memos, state_of
from tests.core.history import History
from tests.core.lock_history import LockHistory
from tests.core.node_set_history import NodeSetHistory
from tests.core.packing_history import PackingHistory
from tests.core.ruled_history import RuledHistory
from tests.core.volume_history import VolumeHistory
from tests.core.workload_history import WorkloadHistory

KINDS = (
    History, WorkloadHistory, RuledHistory, VolumeHistory, LockHistory, PackingHistory,
    NodeSetHistory,
)  # fmt: skip
EACH = 10
"""Every so many steps are looked at."""


def watching(kind: type[History]) -> type[History]:
    """Return histories that compare the graph around views of facts that no view has read yet."""

    class Watching(kind):  # type: ignore[misc, valid-type]
        looked = 0

        def _settle(self) -> None:
            self.looked += 1
            if self.looked % EACH == 0:
                self._look()
            super()._settle()

        def _look(self) -> None:
            graph, now = self.graph, self.world.now
            before = state_of(graph)
            verdicts = {key: decide(graph, key, now) for key in graph.keys.all()}
            after = state_of(graph)
            changed = {path for path in before | after if before.get(path) != after.get(path)}
            assert not changed, "a view wrote to the graph"
            drop_memos(graph)
            for key, verdict in verdicts.items():
                assert decide(graph, key, now) == verdict, "a memo changed an answer"

    return Watching


@pytest.mark.no_cover
@pytest.mark.parametrize("kind", KINDS)
def test_views_and_decisions_write_nothing(kind: type[History]) -> None:
    for seed in range(2):
        watching(kind)(seed).run()
