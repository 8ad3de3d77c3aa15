"""Which Nodes the rules about other Pods leave to a Pod, as kube-scheduler defines them (P8).

Written from the definition of kube-scheduler's filters, independent of the product.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from msgspec import Struct

from tests.sim import words
from tests.sim.words import Object

ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
Labels = Mapping[str, str]
NO_LABELS: Labels = {}


class Seen(Struct, frozen=True):
    """A Pod at a Node. sunk-sync may not know yet that it came or went."""

    pod: Object
    node_name: str
    sure: bool = True
    """It is bound there: sunk-sync must count it."""
    left: bool = False
    """It has been terminating for so long that sunk-sync knows it: it counts for no spread."""


class Scene(Struct, frozen=True):
    """Nodes and Pods, with everything that sunk-sync may not know yet."""

    nodes: Mapping[str, Sequence[Labels | None]]
    """Node → its labels now and lately; None: it is not there, or was not."""
    pods: Sequence[Seen]
    namespaces: Mapping[str, Sequence[Labels]] = {}
    """Namespace → its labels now and lately."""

    def selected(self, namespace: str, wanted: Labels) -> set[bool]:
        """Return whether the Namespace may have such labels, and may lack one."""
        return {wanted.items() <= labels.items() for labels in self.namespaces[namespace]}

    def values(
        self, node_name: str, key: str, *, among: Sequence[str] = (), within: Labels = NO_LABELS
    ) -> set[str | None]:
        """Return what this label of the Node may be.

        None: it has none, or not all of `among`, or others than `within` wants.
        """
        found: set[str | None] = set()
        for labels in self.nodes.get(node_name, (None,)):
            counts = labels is not None and all(one in labels for one in among)
            counts = counts and labels is not None and within.items() <= labels.items()
            found.add(labels.get(key) if labels is not None and counts else None)
        return found

    def is_surely_at(self, seen: Seen, key: str, *, values: set[str | None]) -> bool:
        return seen.sure and len(values) == 1 and self.values(seen.node_name, key) == values


def is_ruled(pod: Object) -> bool:
    """Whether the Pod has a rule with a domain."""
    return bool(_spreads(pod) or _terms(pod, "podAffinity") or _terms(pod, "podAntiAffinity"))


def has_same_rules(one: Object, other: Object) -> bool:
    """Whether the rules of both Pods read the same Pods."""
    return _rules_with_labels(one) == _rules_with_labels(other)


def _rules_with_labels(pod: Object) -> Sequence[tuple[Object, Labels]]:
    """Return each rule with the labels that it wants, by `matchLabelKeys` those of the Pod."""
    return [(rule, _wanted(rule, pod)) for rule in _rules(pod)]


def mind_each_other(one: Object, other: Object, scene: Scene) -> bool:
    """Whether a rule of one of the two Pods counts the other."""
    both = ((one, other), (other, one))
    return any(
        _may_count(rule, there, of=here, scene=scene)
        for here, there in both
        for rule in _rules(here)
    )


def why_not(pod: Object, node_name: str, scene: Scene) -> str:
    """Return the rule that forbids the Pod on this Node whatever sunk-sync may know, or empty.

    Of a gang the Pods are not compared with each other.
    """
    others = [one for one in scene.pods if _unit(one.pod) != _unit(pod)]
    scene = Scene(scene.nodes, others, scene.namespaces)
    if scene.values(node_name, HOSTNAME, within=_selector(pod)) == {None}:
        return "the node selector"
    broken = (
        *_apart(pod, node_name, scene),
        *_beside(pod, node_name, scene),
        *_spread(pod, node_name, scene),
    )
    return next(iter(broken), "")


def _selector(pod: Object) -> Labels:
    selector: Labels = pod["spec"].get("nodeSelector") or {}
    return selector


def _unit(pod: Object) -> str:
    """Return the name of its gang, or else its UID."""
    return words.annotations_of(pod).get(words.GANG) or str(pod["metadata"]["uid"])


def _rules(pod: Object) -> Sequence[Object]:
    return [*_spreads(pod), *_terms(pod, "podAffinity"), *_terms(pod, "podAntiAffinity")]


def _spreads(pod: Object) -> Sequence[Object]:
    listed = pod["spec"].get("topologySpreadConstraints") or ()
    return [one for one in listed if one["whenUnsatisfiable"] == "DoNotSchedule"]


def _terms(pod: Object, kind: str) -> Sequence[Object]:
    terms: Sequence[Object] = ((pod["spec"].get("affinity") or {}).get(kind) or {}).get(
        REQUIRED
    ) or ()
    return terms


def _may_count(rule: Object, other: Object, *, of: Object, scene: Scene) -> bool:
    """Whether the rule of one Pod reads the other, or lately did."""
    return True in _counts(rule, other, of=of, scene=scene)


def _counts(rule: Object, other: Object, *, of: Object, scene: Scene) -> set[bool]:
    """Return whether the rule of one Pod may read the other, and may not: all labels are equal."""
    if not _wanted(rule, of).items() <= words.labels_of(other).items():
        return {False}
    namespace = other["metadata"]["namespace"]
    selector = rule.get("namespaceSelector")
    if selector is None and "namespaces" not in rule:
        return {namespace == of["metadata"]["namespace"]}
    if namespace in rule.get("namespaces", ()):
        return {True}
    return {False} if selector is None else scene.selected(namespace, selector["matchLabels"])


def _wanted(rule: Object, of: Object) -> Labels:
    own = words.labels_of(of)
    equal = {key: own[key] for key in rule.get("matchLabelKeys") or () if key in own}
    return {**rule["labelSelector"]["matchLabels"], **equal}


def _apart(pod: Object, node_name: str, scene: Scene) -> Iterator[str]:
    """Anti-affinity: of the Pod against those that stand in the domain, and of those against it."""
    for seen in scene.pods:
        rules = [
            term["topologyKey"]
            for owner, other in ((pod, seen.pod), (seen.pod, pod))
            for term in _terms(owner, "podAntiAffinity")
            if _counts(term, other, of=owner, scene=scene) == {True}
        ]
        for key in rules:
            values = scene.values(node_name, key)
            if None not in values and scene.is_surely_at(seen, key, values=values):
                name = seen.pod["metadata"]["name"]
                yield f"anti-affinity by {key}: Pod {name} is in {sorted(map(str, values))}"


def _beside(pod: Object, node_name: str, scene: Scene) -> Iterator[str]:
    """Affinity: a Pod that matches all terms is in each domain, or the Pod is the first one."""
    terms = _terms(pod, "podAffinity")
    if any(scene.values(node_name, term["topologyKey"]) == {None} for term in terms):
        yield "affinity: the Node has no such label"
        return
    like = [one for one in scene.pods if True in _count_all(terms, one.pod, of=pod, scene=scene)]
    missing = [
        term["topologyKey"] for term in terms if not _joins(like, node_name, term=term, scene=scene)
    ]
    if missing and not _is_first(pod, terms, like=like, scene=scene):
        yield f"affinity by {missing}: no such Pod is in the domain of {node_name}"


def _joins(like: Sequence[Seen], node_name: str, *, term: Object, scene: Scene) -> bool:
    key = term["topologyKey"]
    wanted = scene.values(node_name, key) - {None}
    return any(scene.values(one.node_name, key) & wanted for one in like)


def _is_first(pod: Object, terms: Sequence[Object], *, like: Sequence[Seen], scene: Scene) -> bool:
    """Whether no Pod counts yet, and the Pod is one of those that it wants to be with."""
    surely = [
        one
        for one in like
        if one.sure
        and _count_all(terms, one.pod, of=pod, scene=scene) == {True}
        and any(None not in scene.values(one.node_name, term["topologyKey"]) for term in terms)
    ]
    return not surely and True in _count_all(terms, pod, of=pod, scene=scene)


def _count_all(terms: Sequence[Object], other: Object, *, of: Object, scene: Scene) -> set[bool]:
    """Return whether all terms may read the other Pod, and whether one may not."""
    each = [_counts(term, other, of=of, scene=scene) for term in terms]
    may = all(True in one for one in each)
    return {True} if all(one == {True} for one in each) else {may, False}


def _spread(pod: Object, node_name: str, scene: Scene) -> Iterator[str]:
    rules = _spreads(pod)
    keys = [rule["topologyKey"] for rule in rules]
    for rule in rules:
        key = rule["topologyKey"]
        values = scene.values(node_name, key) - {None}
        if not values:
            yield f"spread: Node {node_name} has no label {key}"
        least, most = _tally(pod, rule, keys=keys, scene=scene)
        own = int(_may_count(rule, pod, of=pod, scene=scene))
        if values and not any(
            _keeps(rule, own=own, value=str(one), tally=(least, most)) for one in values
        ):
            bounds = {one: (least.get(one, 0), most[one]) for one in sorted(most)}
            yield f"spread by {key} within {rule['maxSkew']}: {node_name} although {bounds}"


Tally = dict[str, int]


def _tally(pod: Object, rule: Object, *, keys: Sequence[str], scene: Scene) -> tuple[Tally, Tally]:
    """Return for each domain how many Pods count at least, and at most.

    The first has only the domains that are surely there. Nodes without all labels do not count, nor
    those that the Pod does not select, unless the rule says so.
    """
    within = NO_LABELS if rule.get("nodeAffinityPolicy") == "Ignore" else _selector(pod)
    values_of = partial(scene.values, key=rule["topologyKey"], among=keys, within=within)
    least, most = Counter[str](), Counter[str]()
    for name in scene.nodes:
        values = values_of(name)
        for one in values - {None}:
            most[str(one)] += 0
        if len(values) == 1:
            least.update({str(one): 0 for one in values - {None}})
    for seen in scene.pods:
        if seen.left or not _may_count(rule, seen.pod, of=pod, scene=scene):
            continue
        values = values_of(seen.node_name)
        for one in values - {None}:
            most[str(one)] += 1
        if seen.sure and not words.is_terminating(seen.pod) and len(values) == 1:
            least.update(map(str, values - {None}))
    return dict(least), dict(most)


def _keeps(rule: Object, *, own: int, value: str, tally: tuple[Tally, Tally]) -> bool:
    """`own`: 1 if the Pod itself counts."""
    least, most = tally
    here = least.get(value, 0)
    others = [most[one] for one in least if one != value]
    lowest = min([here, *others]) if len(most) >= rule.get("minDomains", 1) else 0
    return here + own - lowest <= int(rule["maxSkew"])
