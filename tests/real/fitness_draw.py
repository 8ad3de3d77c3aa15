"""Random Nodes and Pods for the comparison with kube-scheduler: each rule often, none always."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, TypeVar

from tests.real.testbed import kube_objects
from tests.real.testbed.kube_objects import Object

NAMESPACE = "fitness"
PIN = "only"
"""Label of one Node, required by one Pod in addition to its own rules."""
GPU = "example.com/gpu"
HUGE = "hugepages-2Mi"

DrawnT = TypeVar("DrawnT")

ZONES = ("a", "b", "c")
SIZES = ("1", "5", "10", "007", "abc", "", "9223372036854775807")
LIMITS = (*SIZES, "4", "9", "9223372036854775806", "9223372036854775808")
ODD_VALUES = ("-5", "not a label", "x" * 64)
"""Kubernetes 1.30 accepts them in node affinity, 1.35 refuses the Pod."""
TAINT_KEYS = ("dedicated", "example.com/gpu")
TAINT_VALUES = ("", "x")
EFFECTS = ("NoSchedule", "NoExecute", "PreferNoSchedule")
CORDON_TAINT = "node.kubernetes.io/unschedulable"


class Draw:
    """The random source of one seed. `old`: for Kubernetes 1.30, which knows and refuses less."""

    def __init__(self, seed: int, *, old: bool = False) -> None:
        self._random = Random(seed)
        self._old = old

    def _chance(self, probability: float) -> bool:
        return self._random.random() < probability

    def _one(self, values: Sequence[DrawnT]) -> DrawnT:
        return self._random.choice(values)

    def _some(self, values: Sequence[DrawnT]) -> list[DrawnT]:
        return self._random.sample(values, self._random.randint(1, len(values)))

    def node(self, name: str) -> Object:
        labels = {PIN: name}
        if self._chance(0.8):
            labels["zone"] = self._one(ZONES)
        if self._chance(0.7):
            labels["size"] = self._one(SIZES)
        made = kube_objects.node(name, labels=labels)
        made["status"]["allocatable"] = made["status"]["capacity"] = self._room()
        made["spec"] = {"unschedulable": self._chance(0.1), "taints": self._taints()}
        return made

    def _room(self) -> dict[str, str]:
        room = {
            "cpu": self._one(("0", "900m", "2", "4", "4", "64")),
            "memory": self._one(("1Gi", "2Gi", "3000000k", "64Gi", "64Gi")),
            "ephemeral-storage": self._one(("5Gi", "50Gi", "50Gi")),
            "pods": self._one(("0", "1", "2", "3", "110", "110", "110", "110")),
        }
        if self._chance(0.8):
            room[GPU] = self._one(("0", "1", "8", "8"))
        if self._chance(0.8):
            room[HUGE] = self._one(("0", "4Mi", "64Mi"))
        return room

    def _taints(self) -> list[Object]:
        keys = self._some(TAINT_KEYS) if self._chance(0.4) else []
        return [
            {"key": key, "value": self._one(TAINT_VALUES), "effect": self._one(EFFECTS)}
            for key in keys
        ]

    def residents(self, node: str) -> list[Object]:
        return [
            kube_objects.pod(
                f"{node}-{number}", namespace=NAMESPACE, node=node, spec=self._workload()
            )
            for number in range(self._one((0, 0, 0, 1, 2)))
        ]

    def pod(self, name: str, *, pin: str, others: Sequence[str]) -> Object:
        selector = {PIN: pin, **({"zone": self._one(ZONES)} if self._chance(0.15) else {})}
        spec: Object = {
            **self._workload(),
            "nodeSelector": selector,
            "tolerations": self._tolerations(),
        }
        if self._chance(0.5):
            terms = [self._term(pin, others) for _ in range(self._one((1, 1, 2, 3)))]
            required = {kube_objects.REQUIRED: {"nodeSelectorTerms": terms}}
            spec["affinity"] = {"nodeAffinity": required}
        return kube_objects.pod(name, namespace=NAMESPACE, labels={PIN: pin}, spec=spec)

    def _workload(self) -> Object:
        workload: Object = {"containers": self._containers("main", self._one((1, 1, 2)))}
        if self._chance(0.3):
            workload["initContainers"] = self._containers("before", self._one((1, 2, 3)))
            for container in workload["initContainers"]:
                container |= {"restartPolicy": "Always"} if self._chance(0.4) else {}
        if self._chance(0.1) and not self._old:
            workload["resources"] = {"requests": {"cpu": "16", "memory": "30Gi"}}
        return workload

    def _containers(self, name: str, count: int) -> list[Object]:
        return [
            {**kube_objects.CONTAINER, "name": f"{name}{one}", "resources": self._resources()}
            for one in range(count)
        ]

    def _resources(self) -> Mapping[str, Any]:
        if self._chance(0.2):
            return {}
        requests = {"cpu": self._one(("0", "1m", "450m", "1", "2", "2.5"))}
        limits = {}
        if self._chance(0.5):
            requests["memory"] = self._one(("1", "512Mi", "1Gi", "1500M", "2Gi"))
        if self._chance(0.2):
            requests["ephemeral-storage"] = self._one(("1Gi", "5Gi", "10Gi"))
        if self._chance(0.2):
            limits[GPU] = self._one(("0", "1", "2", "8"))
        if self._chance(0.15):
            limits[HUGE] = self._one(("2Mi", "4Mi", "32Mi"))
        return {"requests": {**requests, **limits}, "limits": limits}

    def _tolerations(self) -> list[Object]:
        if self._chance(0.05):
            return [{"operator": "Exists"}]
        tolerations = [self._toleration() for _ in range(self._one((0, 1, 2, 3)))]
        if self._chance(0.3):
            effect = self._one(("", "NoSchedule", "NoExecute"))
            how = self._one(({"operator": "Exists"}, {}, {"value": "x"}))
            tolerations.append({"key": CORDON_TAINT, "effect": effect, **how})
        return tolerations

    def _toleration(self) -> Object:
        made: Object = {"effect": self._one(("", "", *EFFECTS))}
        if self._chance(0.5):
            key = self._one(("", *TAINT_KEYS, *TAINT_KEYS)) if self._chance(0.2) else ""
            return {**made, "operator": "Exists", "key": key or self._one(TAINT_KEYS)}
        made |= {"key": self._one(TAINT_KEYS), "value": self._one(TAINT_VALUES)}
        return {**made, "operator": "Equal"} if self._chance(0.5) else made

    def _term(self, pin: str, others: Sequence[str]) -> Object:
        if self._chance(0.05):
            return {}
        term: Object = {}
        if self._chance(0.9):
            lines = [self._line() for _ in range(self._one((1, 1, 2)))]
            term["matchExpressions"] = lines
        if self._chance(0.15) or not term:
            name = pin if self._chance(0.6) else self._one(others)
            operator = self._one(("In", "In", "NotIn"))
            field = {"key": "metadata.name", "operator": operator, "values": [name]}
            term["matchFields"] = [field]
        return term

    def _line(self) -> Object:
        key = self._one(("zone", "size", "size", "nowhere"))
        operator = self._one(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
        made: Object = {"key": key, "operator": operator}
        if operator in ("In", "NotIn"):
            values = self._some(ZONES) if key == "zone" else self._some(SIZES)
            made["values"] = [*values, *([self._one(ODD_VALUES)] if self._is_odd() else [])]
        elif operator in ("Gt", "Lt"):
            made["values"] = [self._one(ODD_VALUES if self._is_odd() else LIMITS)]
        return made

    def _is_odd(self) -> bool:
        return self._old and self._chance(0.1)
