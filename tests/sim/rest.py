"""The state that rows S1-S18 and M1-M8 require after convergence, independent of the product.

Only hosts with a clear identity are covered: one Slurm node, at most one slurmd Pod, its Node, and
no other object that claims one of these. In a quiet cluster these are almost all hosts.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import msgspec
from msgspec import Struct

from sunk_sync.embedded.kubernetes.store.kinds import EVENTS
from sunk_sync.settings.model import Settings
from tests.sim import words
from tests.sim.conflicts import conflicts, unreported
from tests.sim.judging import mark_of
from tests.sim.packing import wrong_weight
from tests.sim.reads import Row, row_of
from tests.sim.words import Object
from tests.sim.worlds import Worlds

SEEN_ONCE = ("k8s: pod terminated", "k8s: node gone")
NOT_SAID = "(no reason given)"

Memory = Callable[[str], Sequence[tuple[str, str, str]]]
"""Slurm node → namespace, name and UID of each of its slurmd Pods that the service read."""


class Host(Struct, kw_only=True):
    """One machine with a clear identity."""

    row: Row
    pod: Object | None = None
    node: Object | None = None


class Picture:
    """The current state of both servers, as an outside observer reads it."""

    def __init__(self, worlds: Worlds, settings: Settings, memory: Memory) -> None:
        self.settings = settings
        self.memory = memory
        self.cluster_uid = worlds.cluster_uid
        self.rows = {
            name: row_of(node) for name, node in worlds.slurm.nodes.items() if node.base != "FUTURE"
        }
        """Without FUTURE nodes, which slurmrestd does not show."""
        self.slurm_nodes = worlds.slurm.nodes
        self.nodes = {node["metadata"]["name"]: node for node in worlds.kube.nodes()}
        self.all_pods = {
            (pod["metadata"]["namespace"], pod["metadata"]["name"]): pod
            for pod in worlds.kube.pods()
        }
        self.pods = [
            pod
            for (namespace, _), pod in self.all_pods.items()
            if namespace in settings.slurmd_namespace and words.is_slurmd(pod)
        ]

    def hosts(self) -> Iterator[Host]:
        """Yield the hosts with a clear identity."""
        for name, row in self.rows.items():
            host = self._host(name, row)
            if host is not None:
                yield host

    def _host(self, name: str, row: Row) -> Host | None:
        pods = [pod for pod in self.pods if words.claimed_by(pod) == name]
        annotated = [
            node
            for node in self.nodes.values()
            if words.annotations_of(node).get(words.SLURM_NODE) == name
        ]
        if len(pods) > 1 or len(annotated) > 1:
            return None
        if pods:
            return self._host_of_pod(name, row, pods[0], annotated)
        node = annotated[0] if annotated else self.nodes.get(name)
        if node is None:
            return Host(row=row)
        own = words.annotations_of(node).get(words.SLURM_NODE) or node["metadata"]["name"]
        if own != name or self.pods_on(node["metadata"]["name"]):
            return None
        return Host(row=row, node=node)

    def _host_of_pod(
        self, name: str, row: Row, pod: Object, annotated: list[Object]
    ) -> Host | None:
        node_name = pod["spec"].get("nodeName", "")
        node = self.nodes.get(node_name)
        if words.is_finished(pod) or any(one is not node for one in annotated):
            return None
        if node_name and len(self.pods_on(node_name)) != 1:
            return None
        own = words.annotations_of(node).get(words.SLURM_NODE) if node else None
        if own not in (None, "", name):
            return None
        if name in self.nodes and name != node_name:
            return None
        return Host(row=row, pod=pod, node=node)

    def lives_another(self, slurm_node: str, uid: str) -> bool:
        """Whether the service read another Pod of this Slurm node that still exists."""
        others = [pod for pod in self.memory(slurm_node) if pod[2] != uid]
        living = [self.all_pods.get((namespace, name)) for namespace, name, _ in others]
        return any(
            pod is not None and pod["metadata"]["uid"] == other
            for pod, (_, _, other) in zip(living, others, strict=True)
        )

    def pods_on(self, name: str) -> list[Object]:
        """Return the slurmd Pods bound to a Node of this name."""
        return [pod for pod in self.pods if pod["spec"].get("nodeName") == name]


def unrest(worlds: Worlds, settings: Settings, memory: Memory) -> list[str]:
    """Return a sentence for each deviation from the rows. After convergence there is none."""
    picture = Picture(worlds, settings, memory)
    found = [why for host in picture.hosts() for why in _unrest_of(host, picture)]
    return [*found, *_strays(picture), *_rivals(worlds, picture)]


def _rivals(worlds: Worlds, picture: Picture) -> Iterator[str]:
    """S16. After a restore of etcd the lost Events are not sent again."""
    for conflict in conflicts(picture.pods):
        events = [stored.an_object for stored in worlds.kube.store.rows(EVENTS).values()]
        yield from unreported(conflict, None if worlds.restored else events)


def clear_hosts(worlds: Worlds, settings: Settings) -> tuple[int, int]:
    """Return the number of hosts with a clear identity, and of all."""
    picture = Picture(worlds, settings, lambda _: ())
    return sum(1 for _ in picture.hosts()), len(picture.rows)


def _unrest_of(host: Host, picture: Picture) -> Iterator[str]:
    yield from _drain(host, picture)
    yield from _mark(host, picture)
    if host.pod is not None:
        yield from _on_pod(host.pod, host.row)
        yield from _retired(host.pod, host.row)
    if host.node is not None:
        yield from _on_node(host.node, host, picture.settings)
        yield from _cordon(host.node, host.row, picture.settings)
        packs = picture.settings.pack != "off"
        yield from wrong_weight(picture.slurm_nodes[host.row.name], packs=packs)


def _drain(host: Host, picture: Picture) -> Iterator[str]:
    """S1-S12."""
    row = host.row
    foreign = row.drained and not words.is_our_text(row.reason)
    if words.keeps_drain(row.state) or foreign:
        return
    if not row.drained and words.wakes_for_jobs(row.state):
        return
    causes = _causes(host, picture)
    if causes is not None and row.state & words.POWER:
        causes = [one for one in causes if one not in words.OF_POWER_SAVING]
    if causes is None or (host.pod is None and row.drained and row.reason in SEEN_ONCE):
        return  # the service remembers more than its marks show
    if not causes:
        known = host.pod or host.node or mark_of(row.comment).get("cluster") == picture.cluster_uid
        if known and words.is_our_text(row.reason):
            yield f"S2: {row} without a cause"
    elif not row.drained or row.reason != causes[0]:
        yield f"S9: {row} although the causes are {causes}"


def _causes(host: Host, picture: Picture) -> list[str] | None:
    """Return the causes in the order of S9, or None if they depend on the past."""
    causes: list[str] = []
    node = host.node
    if host.pod is not None:
        if node is None and host.pod["spec"].get("nodeName"):
            causes.append("k8s: node gone")
    else:
        gone = _causes_of_gone(host, picture)
        if gone is None:
            return None
        causes += gone
    if node is not None and not words.is_ready(node):
        causes.insert(0, "k8s: node not ready")
    causes += _causes_of_pod(host.pod) if host.pod is not None else []
    if node is None:
        return causes
    after = [one for one in causes if not one.startswith(("k8s: pod cordoned", "k8s: pod not"))]
    return [*after, *_causes_of_node(node), *(one for one in causes if one not in after)]


def _causes_of_node(node: Object) -> Iterator[str]:
    """S1, S21."""
    if _is_cordoned(node):
        why = words.annotations_of(node)
        text = why.get("node.coreweave.cloud/cordonReason") or why.get(words.CORDON_REASON)
        yield words.tidy(f"k8s: node cordoned: {text}" if text else "k8s: node cordoned")
    if taint := words.going_taint(node):
        yield f"{words.TAINTED}: {taint}"


def _causes_of_gone(host: Host, picture: Picture) -> list[str] | None:
    """S7 and S8 for a host without a Pod: only our mark names the former objects."""
    mark = mark_of(host.row.comment)
    if mark.get("cluster") != picture.cluster_uid:
        return None
    causes = []
    named = mark.get("node", "")
    if host.node is None and named and named not in picture.nodes:
        causes.append("k8s: node gone")
    if mark.get("pod"):
        pod = picture.all_pods.get((mark.get("namespace", ""), mark["pod"]))
        if pod is not None and words.claimed_by(pod) != host.row.name:
            return None  # the Pod, or a new one of its name, claims another Slurm node
        if pod is not None and pod["metadata"]["uid"] == mark.get("uid"):
            return None  # not in the selector
        if picture.lives_another(host.row.name, mark.get("uid", "")):
            return None  # S7: "seen with a Pod by this process" is the later evidence
        causes.append("k8s: pod terminated")
    return causes


def _causes_of_pod(pod: Object) -> list[str]:
    """S5, S6, S3, S4. The cause of S1 comes before the last two."""
    annotations, causes = words.annotations_of(pod), []
    if words.is_terminating(pod):
        causes.append("k8s: pod terminating")
    if words.PENDING_DELETION in annotations:
        why = annotations[words.PENDING_DELETION]
        text = f"k8s: pod pending deletion: {why}" if why else "k8s: pod pending deletion"
        causes.append(words.tidy(text))
    if annotations.get(words.CORDON, "false") not in ("", "false"):
        causes.append("k8s: pod cordoned")
    if not words.is_ready(pod):
        causes.append("k8s: pod not ready")
    return causes


def _is_cordoned(node: Object) -> bool:
    marked = words.annotations_of(node).get(words.CORDONED_FOR_DRAIN, "false") not in ("", "false")
    return bool(node["spec"].get("unschedulable")) and not marked


def _mark(host: Host, picture: Picture) -> Iterator[str]:
    """M8."""
    row, pod = host.row, host.pod
    if row.state & words.FROZEN or pod is None or words.is_terminating(pod):
        return
    if not pod["spec"].get("nodeName"):
        return
    if row.comment and mark_of(row.comment).get("cluster") != picture.cluster_uid:
        return
    metadata = pod["metadata"]
    wanted = {
        "cluster": picture.cluster_uid,
        "node": pod["spec"].get("nodeName", ""),
        "namespace": metadata["namespace"],
        "pod": metadata["name"],
        "uid": metadata["uid"],
    }
    marked = {key: value for key, value in mark_of(row.comment).items() if key != "set_features"}
    if marked != wanted:
        yield f"M8: {row} is not marked {msgspec.json.encode(wanted).decode()}"


def _base_of(row: Row) -> str:
    return next((base.capitalize() for base in words.BASES if base in row.state), "")


def _on_pod(pod: Object, row: Row) -> Iterator[str]:
    """M1, M3."""
    name = pod["metadata"]["name"]
    wanted = {f"SlurmNodeState{words.FLAGS[flag]}" for flag in row.state if flag in words.FLAGS}
    wanted.add(f"SlurmNodeState{_base_of(row)}")
    standing = {
        type_: one
        for type_, one in words.conditions_of(pod).items()
        if words.is_our_condition("Pod", type_)
    }
    if standing.keys() != wanted:
        yield f"M1: Pod {name} shows {sorted(standing)}, not {sorted(wanted)}"
    for type_, one in standing.items():
        if one["status"] != "True" or not one.get("reason"):
            yield f"M1: Pod {name} shows {one}"
        if (one.get("message") or "") != words.tidy(row.reason):
            yield f"M1: Pod {name}: {type_} does not show {row.reason!r}: {one}"
    yield from _drain_annotation(pod, row)


def _drain_annotation(an_object: Object, row: Row) -> Iterator[str]:
    standing = words.annotations_of(an_object).get(words.DRAIN)
    wanted = (words.tidy(row.reason) or NOT_SAID) if row.drained else None
    if standing != wanted:
        yield f"M3: {an_object['metadata']['name']} has annotation {standing!r}, not {wanted!r}"


def _retired(pod: Object, row: Row) -> Iterator[str]:
    """S6."""
    pending = words.PENDING_DELETION in words.annotations_of(pod)
    wanted = pending and row.drained and not row.state & words.BUSY
    standing = words.annotations_of(pod).get(words.DRAINED) == "true"
    if wanted != standing:
        yield f"S6: Pod {pod['metadata']['name']}: drained={standing} although {row}"


def _on_node(node: Object, host: Host, settings: Settings) -> Iterator[str]:
    """M2-M4."""
    row, name = host.row, node["metadata"]["name"]
    foreign = row.drained and not words.is_our_text(row.reason)
    wanted = {
        "SlurmDrain": row.drained,
        "SlurmRunning": bool(row.state & words.BUSY),
        "SlurmNotResponding": "NOT_RESPONDING" in row.state,
        "SlurmCordon": foreign,
    }
    conditions = words.conditions_of(node)
    for type_, holds in wanted.items():
        if conditions.get(type_, {}).get("status") != str(holds):
            yield f"M2: Node {name}: {type_} is not {holds}: {conditions.get(type_)}"
    yield from _drain_annotation(node, row)
    labels = {key: words.labels_of(node).get(key) for key in words.NODE_LABELS}
    metadata = host.pod["metadata"] if host.pod else {}
    asked = dict.fromkeys(words.NODE_LABELS) | {
        words.PREFIX + "cluster": settings.cluster_name,
        words.PREFIX + "namespace": metadata.get("namespace"),
        words.PREFIX + "pod": metadata.get("name"),
        words.PREFIX + "nodeset": metadata.get("labels", {}).get(words.PREFIX + "nodeset"),
    }
    if labels != asked:
        yield f"M4: Node {name} is labelled {labels}, not {asked}"


def _cordon(node: Object, row: Row, settings: Settings) -> Iterator[str]:
    """M7."""
    name, annotations = node["metadata"]["name"], words.annotations_of(node)
    marked = words.CORDONED_FOR_DRAIN in annotations
    foreign = row.drained and not words.is_our_text(row.reason)
    cordoned = marked or node["spec"].get("unschedulable")
    if foreign and settings.cordon_on_slurm_drain and not cordoned:
        yield f"M7: Node {name} is not cordoned although {row}"
    kept = annotations.get(words.KEEP_CORDON, "false") not in ("", "false")
    if marked and not foreign and not kept:
        yield f"M7: Node {name} is still cordoned for a drain although {row}"


def _own_claim(node: Object) -> str:
    """Return the Slurm node that a Node without a slurmd Pod claims."""
    return words.annotations_of(node).get(words.SLURM_NODE) or str(node["metadata"]["name"])


def _annotated(picture: Picture, name: str) -> bool:
    """Whether a Node without a slurmd Pod claims this Slurm node by annotation (S16)."""
    return any(
        words.annotations_of(node).get(words.SLURM_NODE) == name and not picture.pods_on(each)
        for each, node in picture.nodes.items()
    )


def _strays(picture: Picture) -> Iterator[str]:
    """M6: an object without a Slurm node has nothing of ours."""
    known = {words.claimed_by(pod): pod for pod in picture.pods}
    claims = Counter(_own_claim(node) for node in picture.nodes.values())
    for name, node in picture.nodes.items():
        own = _own_claim(node)
        if own in picture.rows or picture.pods_on(name) or own in known or claims[own] > 1:
            continue
        shown = [type_ for type_ in words.conditions_of(node) if type_ in words.OUR_NODE_CONDITIONS]
        labels = [key for key in words.NODE_LABELS if key in words.labels_of(node)]
        if shown or labels or words.DRAIN in words.annotations_of(node):
            yield f"M6: Node {name} has no Slurm node, but shows {shown} {labels}"
    for name, pod in known.items():
        if name in picture.rows or words.is_finished(pod):
            continue
        shown = [one for one in words.conditions_of(pod) if one.startswith("SlurmNodeState")]
        alone = sum(words.claimed_by(one) == name for one in picture.pods) == 1
        node_name = pod["spec"].get("nodeName", "")
        if (
            shown
            and alone
            and len(picture.pods_on(node_name)) == 1
            and not _annotated(picture, name)
        ):
            yield f"M6: Pod {pod['metadata']['name']} claims no Slurm node, but shows {shown}"
