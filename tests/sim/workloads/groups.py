"""Groups of Pods with rules about zones and hosts, and their users.

They have a random stream of their own. The rules are topology spread, affinity and anti-affinity
between Pods (P8).
"""

import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from sunk_sync.embedded.kubernetes.kubernetes import Kubernetes
from tests.sim import words
from tests.sim.cast import END_DELAY, PERSON, START_DELAY, Cast
from tests.sim.words import Object
from tests.sim.workloads.claim_people import ClaimPeople
from tests.sim.workloads.domains import HOSTNAME, REQUIRED, ZONE

GROUP: Final = "example.com/group"
"""Label of Pods."""
ZONES: Final = ("a", "b", "c")
NO_MARKS: Final[Mapping[str, str]] = {}
VERSION: Final = "example.com/version"
POOL: Final = "example.com/pool"
IN_POOL: Final[Object] = {"nodeSelector": {POOL: "yes"}}
TEAM: Final = "example.com/team"
"""Label of Namespaces."""
IN_TEAM: Final[Object] = {"namespaceSelector": {"matchLabels": {TEAM: "yes"}}}
PODS_MAX: Final = 7
"""Pods of all groups at one time."""
OTHERS_MAX: Final = 3
"""Pods of another scheduler at one time."""


def spread(group: str, by: str, *, skew: int = 1, **others: Any) -> Object:
    """Return a part of a spec: the Pods of the group are spread over such domains."""
    rule = {
        "topologyKey": by,
        "maxSkew": skew,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {GROUP: group}},
        **others,
    }
    return {"topologySpreadConstraints": [rule]}


def spread_over_both(group: str) -> Object:
    """Return a part of a spec: spread over zones, and within them over hosts."""
    both = (spread(group, ZONE), spread(group, HOSTNAME, skew=2))
    rules = [rule for one in both for rule in one["topologySpreadConstraints"]]
    return {"topologySpreadConstraints": rules}


def beside(group: str, by: str = ZONE) -> Object:
    return {"affinity": {"podAffinity": {REQUIRED: [_term(group, by)]}}}


def apart(group: str, by: str = ZONE, **others: Any) -> Object:
    return {"affinity": {"podAntiAffinity": {REQUIRED: [{**_term(group, by), **others}]}}}


def beside_in_team(group: str) -> Object:
    """Return a part of a spec: beside Pods of the group in namespaces of the team."""
    return {"affinity": {"podAffinity": {REQUIRED: [{**_term(group, ZONE), **IN_TEAM}]}}}


def _term(group: str, by: str) -> Object:
    return {"topologyKey": by, "labelSelector": {"matchLabels": {GROUP: group}}}


RULES: Final[Mapping[str, Object]] = {
    "by-zone": spread("by-zone", ZONE),
    "by-zone-loosely": spread("by-zone-loosely", ZONE, skew=2),
    "by-two-zones": spread("by-two-zones", ZONE, minDomains=2),
    "by-three-zones": spread("by-three-zones", ZONE, skew=2, minDomains=3),
    "by-host": spread("by-host", HOSTNAME),
    "by-host-loosely": spread("by-host-loosely", HOSTNAME, skew=2),
    "by-two-hosts": spread("by-two-hosts", HOSTNAME, minDomains=2),
    "by-both": spread_over_both("by-both"),
    "by-version": spread("by-version", ZONE, matchLabelKeys=[VERSION]),
    "in-pool": {**spread("in-pool", ZONE), **IN_POOL},
    "in-pool-of-all": {**spread("in-pool-of-all", ZONE, nodeAffinityPolicy="Ignore"), **IN_POOL},
    "together": beside("together"),
    "followers": beside("together"),
    "near-spread": beside("by-zone"),
    "alone-in-zone": apart("alone-in-zone"),
    "foes": apart("by-host"),
    "foes-in-team": apart("by-host", HOSTNAME, **IN_TEAM),
    "alone-in-team": apart("alone-in-team", HOSTNAME, **IN_TEAM),
    "together-in-team": beside_in_team("together-in-team"),
}
"""Group → rules of its Pods."""
LEADERS: Final = {
    "followers": "together", "near-spread": "by-zone", "foes": "by-host", "foes-in-team": "by-host"
}  # fmt: skip
"""Group → another one that its rules name."""


def take_node(kube: Kubernetes, node: str) -> None:
    """Remove a Node. The garbage collector of Kubernetes then deletes its Pods."""
    kube.remove_node(node)
    delete_pods(kube, node)


def delete_pods(kube: Kubernetes, node: str) -> None:
    for pod in [pod for pod in kube.pods() if pod["spec"].get("nodeName") == node]:
        metadata = pod["metadata"]
        kube.delete_pod(metadata["name"], namespace=metadata["namespace"], grace_s=0)


def give_node(cast: Cast, node: str, *, zone: str) -> None:
    """Create a Node, and the slurmd Pod there."""
    cast.worlds.kube.add_node(node, labels={ZONE: zone})
    cast.add_pod(f"n{node[1:]}", node=node)


def spec_of_other(group: str, node: str, *, ruled: bool) -> Object:
    """Return the spec of a Pod of another scheduler; `ruled`: with the rules of the group."""
    return {
        "schedulerName": words.OTHER_SCHEDULER,
        "nodeName": node,
        "containers": [{"name": "main", "image": "none.invalid/none:1"}],
        **(RULES[group] if ruled else {}),
    }


class GroupPeople:
    def __init__(
        self,
        rng: random.Random,
        cast: Cast,
        *,
        claims: ClaimPeople,
        namespace: str,
        others: bool = False,
    ) -> None:
        self._acts = (*_ACTS, *_ACTS_OF_OTHERS) if others else _ACTS
        """`others`: there are Pods of another scheduler, and sunk-sync watches them."""
        self._claims = claims
        self._rng = rng
        self._worlds = cast.worlds
        self._kube = cast.worlds.kube
        self._cast = cast
        self._namespace = namespace
        self.active = rng.random() < 0.2
        self._made = 0
        self._groups: Sequence[str] = ()
        self._liked_s = rng.choice((1, 8))

    def begin(self) -> None:
        """Choose the groups, and label the Nodes."""
        if not self.active:
            return
        chosen = self._rng.sample(sorted(RULES), self._rng.choice((1, 2, 2, 3)))
        leaders = [LEADERS[one] for one in chosen if one in LEADERS]
        self._groups = tuple(dict.fromkeys([*leaders, *chosen]))
        self._worlds.history.note("people", "groups", *self._groups)
        for one in self._groups:
            self._worlds.history.count(f"groups: {one}")
        for number, node in enumerate(self._cast.nodes):
            zone = ZONES[number] if number < 2 else self._rng.choice(ZONES)
            self._worlds.act(PERSON, partial(self._label, node, zone))
            self._worlds.act(PERSON, partial(self._put_in_pool, node, on=number != 1))

    def act(self) -> object:
        """Do one of the operations below, in some of the calls."""
        if not self.active or self._rng.random() < 0.6:
            return None
        doing: Callable[[], object] = getattr(self, self._rng.choice(self._acts))
        self._worlds.history.count(f"groups: {doing.__name__}")
        return f"{doing.__name__} {doing()}"

    def add(self) -> str:
        if len(self._pods()) >= PODS_MAX:
            return "enough"
        group = self._rng.choice(self._groups)
        return f"{self._add(group, self._requests())} of {group}"

    def gang(self) -> str:
        """Create a gang of two Pods. Its members are not compared with each other."""
        if len(self._pods()) >= PODS_MAX or len(self._cast.nodes) < 2:
            return "enough"
        group, requests = self._rng.choice(self._groups), self._requests()
        marks = {words.GANG: f"s{self._made}", words.GANG_SIZE: "2"}
        return f"{[self._add(group, requests, marks) for _ in range(2)]} of {group}"

    def _requests(self) -> Object:
        return {"memory": "1Gi", "cpu": str(self._rng.choice((2, 2, 5, 9)))}

    def _add(self, group: str, requests: Object, marks: Mapping[str, str] = NO_MARKS) -> str:
        self._made += 1
        name, rng = f"s{self._made}", self._rng
        knobs = {START_DELAY: "0", END_DELAY: str(rng.choice((1, self._liked_s)))}
        if rng.random() < 0.2:
            knobs["embedded/run-s"] = "30"
        spec = self._spec(group, requests)
        self._kube.add_pod(
            name,
            namespace=self._namespace,
            metadata={"labels": self._labels(group), "annotations": {**knobs, **marks}},
            spec=spec if marks else self._claims.with_claim(name, spec),
        )
        return name

    def _labels(self, group: str) -> dict[str, str]:
        """Return the labels of one more Pod. A few have no version."""
        version = self._rng.choice(("1", "1", "2", "2", ""))
        return {GROUP: group, **({VERSION: version} if version else {})}

    def _spec(self, group: str, requests: Object) -> Object:
        """Return the spec of one more Pod. A few of each group have no rule."""
        container = {"name": "main", "image": "none.invalid/none:1"}
        rules = RULES[group] if self._rng.random() < 0.9 else {}
        return {
            "schedulerName": words.SCHEDULER,
            "terminationGracePeriodSeconds": 10,
            "containers": [{**container, "resources": {"requests": requests}}],
            **rules,
        }

    def add_some(self) -> list[str]:
        return [self.add() for _ in range(self._rng.choice((2, 3)))]

    def _pods(self) -> list[Object]:
        pods = filter(words.is_workload, self._kube.pods(self._namespace))
        return [pod for pod in pods if GROUP in words.labels_of(pod)]

    def delete(self) -> str:
        pods = self._pods()
        if not pods:
            return "nothing"
        name = str(self._rng.choice(pods)["metadata"]["name"])
        grace_s = self._rng.choice((None, None, None, 0))
        self._kube.delete_pod(name, namespace=self._namespace, grace_s=grace_s)
        return name

    def add_other(self) -> str:
        """Let another scheduler bind a Pod, which may keep Pods of sunk-sync away."""
        node = self._rng.choice(self._cast.nodes)
        if self._kube.node(node) is None or len(self._others()) >= OTHERS_MAX:
            return "nothing"
        self._made += 1
        group, name = self._rng.choice(self._groups), f"o{self._made}"
        self._kube.add_pod(
            name,
            namespace=self._namespace,
            spec=spec_of_other(group, node, ruled=self._rng.random() < 0.6),
            metadata={"labels": self._labels(group), "annotations": {END_DELAY: "1"}},
        )
        return f"{name} of {group} on {node}"

    def delete_other(self) -> str:
        others = self._others()
        if not others:
            return "nothing"
        name = str(self._rng.choice(others)["metadata"]["name"])
        self._kube.delete_pod(name, namespace=self._namespace)
        return name

    def _others(self) -> list[Object]:
        return [pod for pod in self._kube.pods(self._namespace) if words.is_of_others(pod)]

    def relabel(self) -> str:
        """Move a Node to another zone, or to none."""
        node = self._rng.choice(self._cast.nodes)
        zone, in_pool = self._rng.choice((*ZONES, None)), self._rng.random() < 0.7
        if self._kube.node(node) is None:
            return "not there"
        self._label(node, zone)
        self._put_in_pool(node, on=in_pool)
        return f"{node} {zone} {in_pool}"

    def relabel_namespace(self) -> str:
        """Let the namespace join the team, or leave it."""
        team = self._rng.choice(("yes", "yes", None))
        self._kube.label_namespace(self._namespace, {TEAM: team})
        return f"{self._namespace} {team}"

    def _label(self, node: str, zone: str | None) -> None:
        self._kube.annotate(node, {}, labels={ZONE: zone})

    def _put_in_pool(self, node: str, *, on: bool) -> None:
        self._kube.annotate(node, {}, labels={POOL: "yes" if on else None})

    def take_node(self) -> str:
        node = self._rng.choice(self._cast.nodes)
        if self._kube.node(node) is None or len(self._cast.nodes) < 2:
            return "kept"
        take_node(self._kube, node)
        return node

    def give_nodes(self) -> str:
        """Bring back the Nodes that are missing. Pods that were bound there meanwhile are gone."""
        missing = [node for node in self._cast.nodes if self._kube.node(node) is None]
        for node in missing:
            delete_pods(self._kube, node)
            zone = self._rng.choice(ZONES)
            give_node(self._cast, node, zone=zone)
            self._put_in_pool(node, on=self._rng.random() < 0.7)
        return " ".join(missing)

    def pause_s(self) -> float:
        """Return the time until the next operation."""
        return self._rng.choice((0.0, 0.05, 1.0, 3.0, 8.0, 25.0)) * 2 * self._rng.random()

    def calm(self) -> None:
        """Bring back every Node, each with a zone."""
        if not self.active:
            return
        self._worlds.act(PERSON, self.give_nodes)
        for node in list(self._kube.nodes()):
            if ZONE not in words.labels_of(node):
                name, zone = node["metadata"]["name"], self._rng.choice(ZONES)
                self._worlds.act(PERSON, partial(self._label, name, zone))


_ACTS = (
    *["add"] * 6, *["add_some"] * 3, *["delete"] * 9, *["relabel"] * 2, "take_node", "gang",
    "relabel_namespace",    "give_nodes", "give_nodes",
)  # fmt: skip
_ACTS_OF_OTHERS = ("add_other", "add_other", "add_other", "delete_other", "delete_other")
