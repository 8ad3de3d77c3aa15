"""Steps of scenarios about groups of Pods, zones and hosts."""

from collections.abc import Callable

from tests.sim.cast import END_DELAY
from tests.sim.stage import Stage
from tests.sim.words import Object
from tests.sim.workloads import groups
from tests.sim.workloads.domains import ZONE
from tests.sim.workloads.groups import GROUP, RULES
from tests.sim.workloads.people import NAMESPACE, pod_spec

Doing = Callable[[Stage], object]


def zones(*names: str) -> Doing:
    """Set the zones of Nodes k1, k2 and k3. An empty one removes the label."""

    def doing(stage: Stage) -> None:
        for number, name in enumerate(names, start=1):
            stage.kube.annotate(f"k{number}", {}, labels={ZONE: name or None})

    return doing


def members(*names: str, of: str, cpus: int = 4, end_s: float = 1) -> Doing:
    """Create Pods with the rules of this group."""

    def doing(stage: Stage) -> None:
        metadata: Object = {
            "labels": {GROUP: of},
            "annotations": {END_DELAY: str(end_s)},
        }
        for name in names:
            spec = {**pod_spec(cpus=cpus), **RULES[of]}
            stage.kube.add_pod(name, namespace=NAMESPACE, metadata=metadata, spec=spec)

    return doing


def other(name: str, *, of: str, at: str, ruled: bool = False) -> Doing:
    """Let another scheduler bind a Pod of this group; `ruled`: with its rules."""

    def doing(stage: Stage) -> None:
        spec = groups.spec_of_other(of, at, ruled=ruled)
        metadata: Object = {"labels": {GROUP: of}, "annotations": {END_DELAY: "1"}}
        stage.kube.add_pod(name, namespace=NAMESPACE, metadata=metadata, spec=spec)

    return doing


def without_node(name: str) -> Doing:
    return lambda stage: groups.take_node(stage.kube, name)


def with_node(name: str, *, zone: str) -> Doing:
    return lambda stage: groups.give_node(stage.cast, name, zone=zone)
