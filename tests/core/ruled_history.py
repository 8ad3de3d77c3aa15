"""Random histories with workload Pods whose hard rules compare Pods with Pods (P8)."""

from msgspec.structs import replace

from sunk_sync.core.model.facts import Node, Pod
from sunk_sync.core.model.pod_spec import (
    HostPort,
    Offer,
    PodRules,
    PodSpec,
    PodTerm,
    Requirement,
    Spread,
)
from tests.core.workload_history import WorkloadHistory
from tests.kit.build import OFFER, SMALL

HOSTNAME, ZONE = "kubernetes.io/hostname", "zone"
WEB, DB = ((Requirement("app", "In", (app,)),) for app in ("web", "db"))
RULES = (
    PodRules(apart=(PodTerm(HOSTNAME, WEB),)),
    PodRules(apart=(PodTerm(ZONE, WEB),)),
    PodRules(apart=(PodTerm(HOSTNAME, DB),)),
    PodRules(beside=(PodTerm(ZONE, (Requirement("tier", "In", ("1",)),)),)),
    PodRules(spread=(Spread(ZONE, WEB),)),
    PodRules(ports=(HostPort(80),)),
)
RULED = tuple(replace(SMALL, rules=rules) for rules in RULES)
LABELS = tuple(
    (("app", app), ("tier", tier)) for app, tier in (("web", "1"), ("web", "2"), ("db", "1"))
)


class RuledHistory(WorkloadHistory):
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
