"""CPU time to find the Nodes, of 10,000, that can take a Pod with new requirements."""

import random
import time
from collections.abc import Iterator

from sunk_sync.core.model.facts import Node
from sunk_sync.core.model.pod_spec import Offer, PodSpec, Requirement, Taint, Term, Toleration
from sunk_sync.core.translate.node_fit import Demand
from tests.bench.figures import Figure

NODES = 10_000
ROUNDS = 7
LIMIT_MS = 30.0
ROOM = (
    ("cpu", 128_000),
    ("ephemeral-storage", 2**41),
    ("hugepages-1Gi", 0),
    ("hugepages-2Mi", 0),
    ("memory", 2**40),
    ("nvidia.com/gpu", 8),
    ("pods", 110),
)
TAKEN = (("cpu", 4000), ("memory", 2**34), ("pods", 9))
PLAIN = PodSpec(requests=(("cpu", 8000), ("memory", 2**35), ("nvidia.com/gpu", 8)))
CHOOSY = PodSpec(
    requests=PLAIN.requests,
    node_selector=(("kubernetes.io/arch", "amd64"), ("topology.kubernetes.io/zone", "z1")),
    terms=(
        Term(
            (
                Requirement("gpu.nvidia.com/model", "In", ("H100",)),
                Requirement("gpu.nvidia.com/count", "Gt", ("4",)),
            )
        ),
    ),
    tolerations=(Toleration("gpu", "Exists"),),
)


def fitness() -> Iterator[Figure]:
    """Find the feasible hosts among 10,000 Nodes for a new kind of Pod."""
    nodes = [_node(number) for number in range(NODES)]
    for what, spec in (("resources alone", PLAIN), ("labels, taints and resources", CHOOSY)):
        yield Figure(what, min(_cost_ms(spec, nodes) for _ in range(ROUNDS)), "ms", LIMIT_MS)


def _cost_ms(spec: PodSpec, nodes: list[Node]) -> float:
    begun_s = time.process_time()
    demand = Demand(spec)
    unfit = [node.name for node in nodes if demand.reasons(node, TAKEN)]
    spent_ms = (time.process_time() - begun_s) * 1e3
    assert 0 < len(unfit) < len(nodes)
    return spent_ms


def _node(number: int) -> Node:
    """Return a Node with the labels of node feature discovery; no two are alike."""
    drawn = random.Random(number)
    labels = {f"feature.node.kubernetes.io/cpu-{feature}": "true" for feature in range(20)} | {
        "gpu.nvidia.com/count": "8",
        "gpu.nvidia.com/model": drawn.choice(["A100", "H100"]),
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": f"n{number}",
        "kubernetes.io/os": "linux",
        "topology.kubernetes.io/zone": f"z{number % 4}",
    }
    taints = (Taint("gpu", "NoSchedule"),) if number % 3 == 0 else ()
    room = tuple((name, amount) for name, amount in ROOM)
    offer = Offer(tuple(sorted(labels.items())), taints, room)
    return Node(name=f"n{number}", uid=str(number), offer=offer)
