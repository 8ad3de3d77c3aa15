"""Explain one object from the graph and the current decisions."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from sunk_sync.core.decide import RuleError, decide
from sunk_sync.core.explain.account import Account, Answer, Fact, Kind, Unknown
from sunk_sync.core.explain.find import find
from sunk_sync.core.explain.host import host_cures, host_facts, host_see
from sunk_sync.core.explain.node_set import node_set_cures, node_set_facts, node_set_see
from sunk_sync.core.explain.problems import DEFECT, UNREADABLE, problems
from sunk_sync.core.explain.workload import workload_cures, workload_facts, workload_see
from sunk_sync.core.graph.graph import Graph
from sunk_sync.core.model.facts import Source
from sunk_sync.core.model.keys import Key
from sunk_sync.core.model.verdict import Verdict
from sunk_sync.core.reconciler import Reconciler


class _Teller(NamedTuple):
    facts: Callable[..., tuple[Fact, ...]]
    cures: Callable[[Graph, str], tuple[str, ...]]
    see: Callable[[Graph, str], tuple[str, ...]]


_TELLERS = {
    "host": _Teller(host_facts, host_cures, host_see),
    "workload": _Teller(workload_facts, workload_cures, workload_see),
    "nodeset": _Teller(node_set_facts, node_set_cures, node_set_see),
}


def explain(reconciler: Reconciler, *, kind: Kind, name: str, now: float) -> Answer:
    """Return the account of the object, or why there is none. It writes nothing."""
    graph = reconciler.graph
    found = find(graph, kind=kind, name=name)
    if isinstance(found, Unknown):
        return found
    key, name = found
    tell = _TELLERS[key[0]]
    verdict, cures = _verdict(graph, key, now=now)
    of_service = [DEFECT] if cures else [UNREADABLE] if any(_lost(graph)) else []
    standing = reconciler.standing.get(key)
    return Account(
        kind="host" if key[0] == "host" else kind,
        name=name,
        key=key,
        decision=_decision(graph, verdict),
        facts=(*_lost_facts(graph), *tell.facts(graph, key[1], now=now)),
        wants=verdict.wants,
        held=standing.kept if standing is not None else (),
        look_again_s=_from_now(verdict.look_again_s, now=now),
        cures=(*cures, *_lost_cures(graph), *tell.cures(graph, key[1])),
        problems=(*of_service, *problems(graph, key, wants=verdict.wants)),
        see=tell.see(graph, key[1]),
    )


def _verdict(graph: Graph, key: Key, *, now: float) -> tuple[Verdict, tuple[str, ...]]:
    try:
        return decide(graph, key, now), ()
    except RuleError as error:
        because = f"out of service: rule {error.rule} failed: {error.__cause__!r}"
        return Verdict(because=because), (
            "This is a defect of sunk-sync: report its log line `rule failed`",
        )


def _decision(graph: Graph, verdict: Verdict) -> str:
    """Nothing is written before the sources were listed once (F6)."""
    unlisted = graph.sources.unlisted
    if unlisted:
        return f"nothing yet: {', '.join(unlisted)} not listed; then: {verdict.because}"
    return verdict.because


def _lost_facts(graph: Graph) -> tuple[Fact, ...]:
    return tuple(
        Fact(side="sunk-sync", what=f"source {source}", says=f"cannot be read now: {why}")
        for source, why in _lost(graph)
    )


def _lost_cures(graph: Graph) -> tuple[str, ...]:
    sides = {
        "Slurm" if source in ("slurm_nodes", "jobs") else "Kubernetes" for source, _ in _lost(graph)
    }
    return tuple(
        f"{side} must be readable again: sunk-sync doctor names the cause" for side in sorted(sides)
    )


def _lost(graph: Graph) -> Iterator[tuple[Source, str]]:
    for source, table in graph.sources.tables.items():
        if not table.live and (table.listed or source in graph.sources.unlisted):
            yield source, table.why


def _from_now(second: float | None, *, now: float) -> float | None:
    return None if second is None else max(0.0, second - now)
