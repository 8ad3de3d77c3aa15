"""What failed with Pods of NodeSets: how often in a row, and why (N3, N21). In memory only."""

from collections import defaultdict

from sunk_sync.core.views.node_set import Failures

FORGOTTEN_S = 600.0
"""After a longer time without a failure, the next one counts as the first."""
KEPT_MAX = 1024
"""Names for each NodeSet."""


class FailureLog:
    def __init__(self) -> None:
        self._of: defaultdict[str, dict[str, Failures]] = defaultdict(dict)

    def note(self, key: str, name: str, *, why: str, now: float) -> None:
        """A Pod of this name failed or did not register, or the API server refused it."""
        known = self._of[key].pop(name, None)
        lately = known is not None and now - known.last_s < FORGOTTEN_S
        count = known.count + 1 if known is not None and lately else 1
        self._of[key][name] = Failures(count, now, why)
        if len(self._of[key]) > KEPT_MAX:
            del self._of[key][next(iter(self._of[key]))]

    def get(self, key: str, name: str) -> Failures | None:
        return self._of[key].get(name) if key in self._of else None

    def succeeded(self, key: str, name: str) -> None:
        if key in self._of:
            self._of[key].pop(name, None)

    def forget(self, key: str) -> None:
        self._of.pop(key, None)
