"""The judge of rules about other Pods and the product agree, although neither knows the other."""

import random
from typing import Any

import msgspec
from msgspec.structs import replace

from sunk_sync.core.model.facts import Pod, Row
from sunk_sync.core.model.user_policy import Namespace
from sunk_sync.kube.decode.pod_specs import spec_of
from sunk_sync.kube.decode.wire_pods import WirePodSpec
from tests.kit.build import OFFER, Core, node, pod, room, running
from tests.sim import words
from tests.sim.words import Object
from tests.sim.workloads.domains import HOSTNAME, REQUIRED, ZONE, Scene, Seen, why_not
from tests.sim.workloads.groups import GROUP, IN_TEAM, POOL, RULES, TEAM, VERSION
from tests.sim.workloads.people import pod_spec

HOSTS = ("n1", "n2", "n3", "n4")
NAMESPACES: dict[str, dict[str, str]] = {"ns": {TEAM: "yes"}, "other": {TEAM: "no"}, "plain": {}}
OF_OTHERS: Object = {"namespaceSelector": {"matchLabels": {TEAM: "no"}}}
CASES = 600


def labels_of_node(rng: random.Random, name: str) -> dict[str, str]:
    zone, pool = rng.choice(("a", "a", "b", "c", "")), rng.choice(("yes", "yes", ""))
    given = {HOSTNAME: f"k{name}", ZONE: zone, POOL: pool}
    return {key: value for key, value in given.items() if value}


def any_rules(rng: random.Random, groups: list[str]) -> Object:
    """Return several rules of each kind, or none."""
    keys = (HOSTNAME, ZONE, POOL)

    def term() -> Object:
        labels = {GROUP: rng.choice(groups), **({VERSION: "1"} if rng.random() < 0.3 else {})}
        wanted = {"labelSelector": {"matchLabels": labels}}
        return {"topologyKey": rng.choice(keys), **wanted}

    def between() -> Object:
        names = rng.choice(({}, {}, {"namespaces": ["plain"]}))
        selector = rng.choice(({}, IN_TEAM, OF_OTHERS))
        return {**term(), **names, **selector}

    spreads = [
        {
            **term(),
            "topologyKey": key,
            "maxSkew": rng.choice((1, 2)),
            "whenUnsatisfiable": "DoNotSchedule",
            "minDomains": rng.choice((1, 2, 3)),
        }
        for key in rng.sample(keys, rng.choice((0, 0, 1, 2)))
    ]
    affinity = {
        kind: {REQUIRED: [between() for _ in range(rng.choice((0, 0, 1, 2)))]}
        for kind in ("podAffinity", "podAntiAffinity")
    }
    return {"topologySpreadConstraints": spreads, "affinity": affinity}


def wire_pod(rng: random.Random, name: str, groups: list[str], *, at: str = "") -> Object:
    group = rng.choice(groups)
    rules = RULES[group] if rng.random() < 0.5 else any_rules(rng, groups)
    spec: Object = {**pod_spec(), **rules, **({"nodeName": at} if at else {})}
    labels = {GROUP: group, **({VERSION: rng.choice("12")} if rng.random() < 0.8 else {})}
    namespace = rng.choice(("ns", "ns", "other", "plain"))
    metadata: Object = {"name": name, "namespace": namespace, "uid": f"uid-{name}"}
    metadata |= {"labels": labels, "annotations": {}}
    if at and rng.random() < 0.2:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return {"metadata": metadata, "spec": spec, "status": {"phase": "Running"}}


def fact_of(wire: Object, job_id: str) -> Pod:
    decoded = msgspec.json.decode(msgspec.json.encode(wire["spec"]), type=WirePodSpec)
    metadata = wire["metadata"]
    given: dict[str, Any] = {
        "namespace": metadata["namespace"],
        "spec": spec_of(decoded, guaranteed=False),
        "labels": tuple(sorted(metadata["labels"].items())),
        "node_name": wire["spec"].get("nodeName", ""),
        "terminating": "deletionTimestamp" in metadata,
    }
    return pod(metadata["name"], **given, job_id=job_id if given["node_name"] else "")


def closed_by_product(
    nodes: dict[str, dict[str, str]], there: list[Object], new: Object
) -> set[str]:
    rows: list[Row] = [
        Namespace(name, f"uid-{name}", labels=tuple(labels.items()))
        for name, labels in NAMESPACES.items()
    ]
    for name in HOSTS:
        offer = replace(OFFER, labels=tuple(sorted(nodes[f"k{name}"].items())))
        rows += [node(f"k{name}", offer=offer), *room(name)[1:]]
    for number, wire in enumerate(there, start=1):
        fact = fact_of(wire, str(number))
        rows += [fact, running(fact, at=(fact.node_name[1:],), job_id=fact.job_id)]
    fact = fact_of(new, "")
    submission = Core(*rows, fact).submission(fact)
    return set(HOSTS) if submission is None else set(submission.excluded)


def test_the_judge_closes_the_same_hosts_as_the_product_P8() -> None:
    for number in range(CASES):
        rng = random.Random(f"domains {number}")
        groups = rng.sample(sorted(RULES), rng.choice((1, 2, 3)))
        nodes = {f"k{name}": labels_of_node(rng, name) for name in HOSTS}
        there = [
            wire_pod(rng, f"p{one}", groups, at=rng.choice(sorted(nodes)))
            for one in range(rng.randrange(6))
        ]
        new = wire_pod(rng, "new", groups)
        scene = Scene(
            {name: [labels] for name, labels in nodes.items()},
            [Seen(one, one["spec"]["nodeName"], left=words.is_terminating(one)) for one in there],
            {name: [labels] for name, labels in NAMESPACES.items()},
        )
        judged = {name[1:] for name in nodes if why_not(new, name, scene)}
        assert closed_by_product(nodes, there, new) == judged, (number, nodes, there, new)
