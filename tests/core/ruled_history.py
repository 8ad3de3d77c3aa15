"""Random histories with workload Pods whose hard rules compare Pods with Pods (P8)."""

from collections import Counter
from collections.abc import Callable

from msgspec.structs import replace

from sunk_sync.core.model.facts import Node, Pod, Taken
from sunk_sync.core.model.pod_spec import (
    NO_RULES,
    HostPort,
    Offer,
    OtherPod,
    PodRules,
    PodSpec,
    PodTerm,
    Requirement,
    Spread,
)
from sunk_sync.core.model.user_policy import Namespace
from tests.core.workload_history import WorkloadHistory
from tests.core.workload_world import NAMESPACE
from tests.core.world_changes import NODES
from tests.kit.build import OFFER, SMALL

HOSTNAME, ZONE = "kubernetes.io/hostname", "zone"
WEB, DB = ((Requirement("app", "In", (app,)),) for app in ("web", "db"))
IN_TEAM = (Requirement("team", "In", ("yes",)),)
RULES = (
    PodRules(apart=(PodTerm(HOSTNAME, WEB),)),
    PodRules(apart=(PodTerm(ZONE, WEB),)),
    PodRules(apart=(PodTerm(HOSTNAME, DB),)),
    PodRules(beside=(PodTerm(ZONE, (Requirement("tier", "In", ("1",)),)),)),
    PodRules(spread=(Spread(ZONE, WEB),)),
    PodRules(ports=(HostPort(80),)),
    PodRules(apart=(PodTerm(HOSTNAME, WEB, (), IN_TEAM),)),
    PodRules(beside=(PodTerm(ZONE, WEB, (), IN_TEAM),)),
)
RULED = tuple(replace(SMALL, rules=rules) for rules in RULES)
LABELS = tuple(
    (("app", app), ("tier", tier)) for app, tier in (("web", "1"), ("web", "2"), ("db", "1"))
)


OTHERS = tuple(
    OtherPod(namespace="ns", labels=labels, rules=rules)
    for labels in (*LABELS, (("app", "web"), ("unread", "1")))
    for rules in (NO_RULES, NO_RULES, RULES[0], RULES[1], RULES[5], RULES[6])
)
"""Pods of other schedulers; no Pod has a rule of affinity or spread here."""


class RuledHistory(WorkloadHistory):
    def _kinds(self) -> tuple[Callable[[], None], ...]:
        return (*super()._kinds(), self._change_others, self._change_namespace)

    def _prepare(self) -> None:
        self._change_namespace()
        super()._prepare()

    def _start(self) -> None:
        super()._start()
        self._observe([*self.world.others.values()])

    def _change_others(self) -> None:
        """Pods of other schedulers come to a Node, or leave it."""
        node_name = self.rng.choice(NODES)
        there = Counter(self.rng.choices(OTHERS, k=self.rng.choice((0, 0, 1, 3))))
        amounts = (("pods", there.total()),) if there else ()
        taken = self.world.others[node_name] = Taken(node_name, amounts, tuple(there.items()))
        self._note("others", taken)
        self._observe((taken,))

    def _change_namespace(self) -> None:
        """The namespace of the Pods joins the team, or leaves it."""
        labels = (("team", "yes"),) if self.rng.random() < 0.6 else ()
        row = Namespace(NAMESPACE, "u-ns", labels=labels)
        self._note("namespace", row)
        self.world.put_namespace(row)

    def _offer(self, number: str) -> Offer:
        labels = ((HOSTNAME, f"k{number}"), (ZONE, self.rng.choice("ab")))
        return replace(OFFER, labels=labels)

    def _changed_node(self, row: Node) -> Node:
        if self.rng.random() < 0.15:
            return replace(row, offer=self._offer(row.name[1:]))
        return super()._changed_node(row)

    def _new_workload(self, name: str) -> Pod:
        return replace(super()._new_workload(name), labels=self.rng.choice(LABELS))

    def _changed_workload(self, row: Pod) -> Pod:
        if self.rng.random() < 0.1:
            return replace(row, labels=self.rng.choice(LABELS))
        return super()._changed_workload(row)

    def _spec(self) -> PodSpec:
        return self.rng.choice(RULED) if self.rng.random() < 0.7 else super()._spec()
