"""sunk-sync lists Nodes or Pods again if the cluster as a whole needs it."""

from sunk_sync.core.model.actions import LOOK_AGAIN_S, Relist
from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.facts import Source
from sunk_sync.core.model.verdict import QUIET, Ruling
from sunk_sync.core.views.parts import Cluster, Doubt


def relist(cluster: Cluster, configuration: Configuration, now: float) -> Ruling:  # noqa: ARG001
    """List again if the breakers hold a write (S19, P31), or an answer contradicts a row (F3)."""
    due = [doubt for doubt in cluster.doubts if doubt.due_s <= now]
    after_s = {doubt.source: doubt.since_s for doubt in due}
    for source, held_s in _held(cluster).items():
        after_s[source] = max(held_s, after_s.get(source, held_s))
    times = [_next_s(doubt, now) for doubt in cluster.doubts]
    if not (after_s or times):
        return QUIET
    wants = tuple([Relist(source, after_s[source]) for source in sorted(after_s)])
    return Ruling(wants, "; ".join(map(_spelled, due)), min(times, default=None))


def _held(cluster: Cluster) -> dict[Source, float]:
    """Return the sources whose second listing the breakers wait for, and since when."""
    holding = cluster.holding
    if holding is None:
        return {}
    nodes: dict[Source, float] = {"nodes": max(holding.since_s, holding.ends_since_s)}
    return nodes | {"slurmd_pods": holding.since_s} if holding.count else nodes


def _next_s(doubt: Doubt, now: float) -> float:
    """Return when the doubt is due, then every half minute: the listing may be for another key."""
    times = 0
    while (next_s := doubt.due_s + times * LOOK_AGAIN_S) <= now:
        times = max(times + 1, int((now - doubt.due_s) / LOOK_AGAIN_S))
    return next_s


def _spelled(doubt: Doubt) -> str:
    return f"listing {doubt.source} again: an answer of the API server contradicts {doubt.row}"
