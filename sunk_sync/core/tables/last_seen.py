"""Where each host was last seen, and the results of reads by name of those places.

A deleted Pod or Node leaves no row. sunk-sync reads its last place by name to prove its absence
(S7, S8).
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Set

from sunk_sync.core.model.facts import GetResult, Node, SlurmdPod
from sunk_sync.core.model.node_mark import Mark, parse_mark

Place = tuple[str, str, str]
"""Kind, namespace and name of a Kubernetes object."""

NO_HOSTS: Set[str] = frozenset()


class LastSeen:
    """Last known place of each Slurm node, and the results of reads by name."""

    def __init__(self) -> None:
        self.seen: dict[str, Mark] = {}
        """Places that this process saw; kept after the Pod and the Node are gone."""
        self.marks: dict[str, Mark] = {}
        """Marks of sunk-sync in the comments of the Slurm nodes."""
        self.expected: dict[str, Place] = {}
        """Places of Pods that the stamp of a Slurm node names."""
        self._get_results: dict[Place, GetResult] = {}
        self._hosts: defaultdict[Place, set[str]] = defaultdict(set)

    def last(self, name: str) -> Mark | None:
        """Return the first of: Pod seen here, Pod in the mark, Node seen here, Node in the mark."""
        seen = self.seen.get(name)
        if seen is not None and seen.pod:
            return seen
        mark = self.marks.get(name)
        return mark if mark is not None and (mark.pod or seen is None) else seen

    def hosts_last_at(self, place: Place) -> Set[str]:
        return self._hosts.get(place, NO_HOSTS)

    def get_result(self, place: Place) -> GetResult | None:
        return self._get_results.get(place)

    def get_results(self) -> Mapping[Place, GetResult]:
        return self._get_results

    def remember_pod(self, pod: SlurmdPod, *, alone: bool = False) -> None:
        """A living Pod was seen. A terminating one replaces another only if it is `alone`."""
        seen = self.seen.get(pod.slurm_node)
        another = seen is not None and seen.uid not in ("", pod.uid)
        if pod.finished or (pod.terminating and another and not alone):
            return
        self._remember(pod.slurm_node, Mark("", pod.node_name, pod.namespace, pod.name, pod.uid))

    def remember_node(self, slurm_node: str, node: Node) -> None:
        """A Node claims a Slurm node by itself; a known Pod has precedence."""
        seen = self.seen.get(slurm_node)
        if seen is None or not seen.pod:
            self._remember(slurm_node, Mark("", node.name))

    def _remember(self, slurm_node: str, place: Mark) -> None:
        before = self.seen.get(slurm_node)
        if before != place:
            self.seen[slurm_node] = place
            self._follow(slurm_node, before)

    def remark(self, slurm_node: str, comment: str, *, cluster: str) -> None:
        """The comment of a Slurm node changed; only marks of this Kubernetes cluster count."""
        before = self.marks.pop(slurm_node, None)
        mark = parse_mark(comment)
        if mark is not None and mark.cluster == cluster:
            self.marks[slurm_node] = mark
        self._follow(slurm_node, before)

    def expect(self, slurm_node: str, place: Place) -> None:
        """The Pod of this Slurm node is here, if there is one; nobody has seen it yet."""
        self.expected[slurm_node] = place
        self._hosts[place].add(slurm_node)

    def expect_nothing(self, slurm_node: str) -> None:
        place = self.expected.pop(slurm_node, None)
        if place is not None and place not in self._places_of(slurm_node):
            self._hosts[place].discard(slurm_node)
            self._drop_unused(place)

    def forget(self, slurm_node: str) -> None:
        self._follow(slurm_node, self.seen.pop(slurm_node, None))

    def note(self, get_result: GetResult) -> Set[str]:
        """Keep a read of a host's last place; return the hosts that it concerns."""
        place = (get_result.kind, get_result.namespace, get_result.name)
        standing = self._get_results.get(place)
        hosts = self.hosts_last_at(place)
        if not hosts or (standing is not None and standing.asked_s > get_result.asked_s):
            return NO_HOSTS
        self._get_results[place] = get_result
        return hosts

    def withdraw(self, place: Place) -> None:
        """Drop the result of a read by name, because the object is listed."""
        self._get_results.pop(place, None)

    def _follow(self, slurm_node: str, before: Mark | None) -> None:
        """Update the index from places to hosts after a host's place changed."""
        for place in _places(before):
            self._hosts[place].discard(slurm_node)
        for place in self._places_of(slurm_node):
            self._hosts[place].add(slurm_node)
        for place in _places(before):
            self._drop_unused(place)

    def _places_of(self, slurm_node: str) -> set[Place]:
        marks = (self.seen.get(slurm_node), self.marks.get(slurm_node))
        found = {place for mark in marks for place in _places(mark)}
        expected = self.expected.get(slurm_node)
        return found | {expected} if expected is not None else found

    def _drop_unused(self, place: Place) -> None:
        if not self._hosts.get(place):
            self._hosts.pop(place, None)
            self._get_results.pop(place, None)


def pod_place(mark: Mark) -> Place:
    return ("Pod", mark.namespace, mark.pod)


def node_place(name: str) -> Place:
    return ("Node", "", name)


def _places(mark: Mark | None) -> Iterable[Place]:
    if mark is None:
        return
    if mark.pod:
        yield pod_place(mark)
    if mark.node:
        yield node_place(mark.node)
