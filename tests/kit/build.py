"""Makers of facts, and a small core that tests feed with facts and outcomes."""

import itertools
from collections.abc import Sequence
from typing import Any, Literal

from sunk_sync.core.graph.graph import Graph
from sunk_sync.core.model.actions import Bind, CancelJob, EndPod, RecordEvent, SubmitJob
from sunk_sync.core.model.condition import Condition, ConditionStatus
from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.event_kinds import EventKind
from sunk_sync.core.model.facts import (
    Confirmed,
    Deleted,
    GetResult,
    Job,
    Kind,
    Labels,
    ListingEnded,
    ListingStarted,
    News,
    Node,
    Observed,
    Pod,
    Row,
    SlurmdPod,
    SlurmNode,
    Source,
)
from sunk_sync.core.model.job_identity import Identity, job_name, workload_id
from sunk_sync.core.model.keys import Key, host_key, workload_key, workload_key_of
from sunk_sync.core.model.names import NODE_LABELS
from sunk_sync.core.model.node_mark import Mark, mark_text
from sunk_sync.core.model.node_set import NodeSet
from sunk_sync.core.model.pod_spec import Gang, Offer, PodSpec
from sunk_sync.core.model.user_policy import Namespace
from sunk_sync.core.model.verdict import Decision, Verdict
from sunk_sync.core.model.volumes import (
    CsiDriver,
    CsiNode,
    StorageCapacity,
    StorageClass,
    Volume,
    VolumeClaim,
)
from sunk_sync.core.policy import Policy
from sunk_sync.core.reconciler import Reconciler

CLUSTER_UID = "c1"
SCHEDULER = "slurm-scheduler"
GIB = 1 << 30
SMALL = PodSpec(requests=(("cpu", 1000), ("memory", GIB)), grace_s=5)
OFFER = Offer(allocatable=(("cpu", 16_000), ("memory", 64 * GIB), ("pods", 110)))
_orders = itertools.count(1, 2**-20)
"""Small steps: an order is also the time of a question, and the clocks of tests start at 1,000."""


def node(name: str = "kn1", **fields: object) -> Node:
    """Make a ready, schedulable Node."""
    return Node(**{"name": name, "uid": f"uid-{name}", "ready": "True", **fields})  # type: ignore[arg-type]


def labels_of(pairs: Sequence[tuple[str, str]]) -> Labels:
    """Return our labels as the row of a Node has them."""
    given = dict(pairs)
    return tuple(given.get(key) for key in NODE_LABELS)


def slurmd_pod(slurm_node: str = "n1", **fields: object) -> SlurmdPod:
    """Make a ready slurmd Pod `slurm/slurmd-n1` on Node kn1 that claims Slurm node n1."""
    name = f"slurmd-{slurm_node}"
    standard = {
        "namespace": "slurm",
        "name": name,
        "uid": f"uid-{name}",
        "node_name": f"k{slurm_node}",
        "slurm_node": slurm_node,
        "ready": True,
    }
    return SlurmdPod(**{**standard, **fields})  # type: ignore[arg-type]


def slurm_node(name: str = "n1", state: str = "IDLE", **fields: object) -> SlurmNode:
    """Make a Slurm node; write `state` as IDLE+DRAIN."""
    return SlurmNode(**{"name": name, "state": frozenset(state.split("+")), **fields})  # type: ignore[arg-type]


def pod(name: str = "p1", **fields: object) -> Pod:
    """Make a waiting workload Pod `ns/p1` of one CPU and 1 GiB."""
    standard = {"namespace": "ns", "name": name, "uid": f"uid-{name}", "spec": SMALL}
    return Pod(**{**standard, **fields})  # type: ignore[arg-type]


POD = pod()
BOUND = pod(node_name="kn1", job_id="7")
"""The same Pod on Node kn1, by job 7."""
WORKLOAD = workload_id([POD.uid])
"""The id of its workload."""


def gang_pod(name: str, *, size: int = 2, **fields: object) -> Pod:
    """Make a member of gang `g` in namespace `ns`."""
    return pod(name, gang=Gang("annotation", "g", size), **fields)


def identity(*pods: Pod, **fields: object) -> Identity:
    """Return the identity of the job of these Pods."""
    standard = {
        "cluster": CLUSTER_UID,
        "scheduler": SCHEDULER,
        "workload": workload_id([pod.uid for pod in pods]),
        "pods": tuple(sorted(f"{pod.namespace}/{pod.name}/{pod.uid}" for pod in pods)),
    }
    return Identity(**{**standard, **fields})  # type: ignore[arg-type]


def job(*pods: Pod, state: str = "PENDING", **fields: object) -> Job:
    """Make a placeholder of these Pods; write `state` as CANCELLED+COMPLETING."""
    known = identity(*pods)
    first = min(pods, key=lambda pod: pod.name)
    standard = {
        "job_id": "7",
        "name": job_name(first.namespace, first.name, workload=known.workload),
        "identity": known,
        "state": frozenset(state.split("+")),
        "submitted_at": 1,
        "reason": "Resources" if state == "PENDING" else "",
        "script": True,
        "started": True,
    }
    return Job(**{**standard, **fields})  # type: ignore[arg-type]


def running(*pods: Pod, at: Sequence[str] = ("n1",), **fields: object) -> Job:
    """Make a placeholder of these Pods that runs on hosts `at`."""
    return job(*pods, state="RUNNING", slurm_nodes=tuple(at), **fields)


def marked(name: str = "n1", **fields: Any) -> str:
    """Return our mark in the comment of Slurm node `name` with its usual Pod."""
    standard: dict[str, Any] = {
        "cluster": CLUSTER_UID,
        "node": f"k{name}",
        "namespace": "slurm",
        "pod": f"slurmd-{name}",
        "uid": f"uid-slurmd-{name}",
    }
    return mark_text(Mark(**{**standard, **fields}))


def condition(kind: str, status: ConditionStatus = "True", **fields: str) -> Condition:
    """Make a condition of sunk-sync."""
    return Condition(type=kind, status=status, **{"reason": "R", "message": "", **fields})


def observed(row: Row, order: float | None = None) -> Observed:
    """Return the row as a fact newer than all earlier ones."""
    return Observed(row, next(_orders) if order is None else order)


def deleted(source: Source, row: Row) -> Deleted:
    """Return the fact that the row is gone."""
    name = row.job_id if isinstance(row, Job) else row.name
    return Deleted(
        source, getattr(row, "namespace", ""), name, getattr(row, "uid", ""), next(_orders)
    )


def listing(source: Source, *rows: Row, begun_s: float = 0.0) -> list[News]:
    """Return a complete listing of these rows."""
    order = next(_orders)
    return [
        ListingStarted(source, begun_s, order),
        *(Observed(row, order) for row in rows),
        ListingEnded(source),
    ]


SOURCE_OF: dict[type, Source] = {
    Node: "nodes",
    SlurmdPod: "slurmd_pods",
    SlurmNode: "slurm_nodes",
    Pod: "pods",
    Job: "jobs",
    NodeSet: "node_sets",
    Namespace: "namespaces",
    VolumeClaim: "volume_claims",
    Volume: "volumes",
    StorageClass: "storage_classes",
    CsiNode: "csi_nodes",
    CsiDriver: "csi_drivers",
    StorageCapacity: "storage_capacities",
}


def source_of(row: Row) -> Source:
    """Return the source of rows of this kind."""
    return SOURCE_OF[type(row)]


def room(name: str = "n1", **fields: object) -> list[Row]:
    """Return a free host: Node kn1, its slurmd Pod, Slurm node n1."""
    return [node(f"k{name}", offer=OFFER, **fields), slurmd_pod(name), slurm_node(name)]


class Core:
    """Graph, rules and policy with a clock that the test sets."""

    def __init__(self, *rows: Row, now: float = 1000.0, listed: bool = True, **chosen: object):
        configuration = Configuration(
            **{"cluster_uid": CLUSTER_UID, "scheduler": SCHEDULER, **chosen}  # type: ignore[arg-type]
        )
        self.now = now
        self.graph = Graph(configuration)
        self.reconciler = Reconciler(graph=self.graph, policy=Policy())
        if listed:
            for source in SOURCE_OF.values():
                self.see(*listing(source, *(r for r in rows if source_of(r) == source)))
        else:
            self.see(*map(observed, rows))

    def see(self, *news: News | Row) -> list[Decision]:
        """Observe facts, then decide all that became dirty."""
        facts = [observed(one) if isinstance(one, Row) else one for one in news]
        self.reconciler.observe(facts, now=self.now)
        return self.settle()

    def see_listing(self, source: Source, *rows: Row, after_s: float = 0.0) -> list[Decision]:
        """Observe a complete listing that was asked for after so many seconds."""
        self.now += after_s
        return self.see(*listing(source, *rows, begun_s=self.now))

    def lose_jobs(self) -> None:
        """Observe two complete listings without any job, a minute apart."""
        self.see_listing("jobs", after_s=1.0)
        self.see_listing("jobs", after_s=60.0)

    def answer(
        self, row: Node | SlurmdPod | Pod, found: Literal["yes", "no", "unknown"], uid: str = ""
    ) -> list[Decision]:
        """Answer a read by name of this row's place, asked for now."""
        kind: Kind = "Node" if isinstance(row, Node) else "Pod"
        uid = uid or (row.uid if found == "yes" else "")
        namespace = getattr(row, "namespace", "")
        return self.see(GetResult(kind, namespace, row.name, found, uid, self.now))

    def settle(self) -> list[Decision]:
        """Decide until nothing is pending."""
        decisions: list[Decision] = []
        while fresh := self.reconciler.step(now=self.now, limit=1000):
            decisions += fresh
            assert len(decisions) < 200_000, "decisions never end"
        return decisions

    def wait(self, seconds: float) -> list[Decision]:
        """Let time pass."""
        self.now += seconds
        return self.settle()

    def confirm(self, source: Source) -> list[Decision]:
        """Report that nothing has changed in the source."""
        return self.see(Confirmed(source, self.now))

    def decided(self, key: Key) -> Verdict:
        """Return the current verdict of a key."""
        standing = self.reconciler.standing.get(key)
        return standing.verdict if standing else Verdict()

    def kept(self, key: Key) -> list[Any]:
        """Return the wanted actions that policy keeps back."""
        standing = self.reconciler.standing.get(key)
        return [kept.action for kept in standing.kept] if standing else []

    def workload_verdict(self, of: Pod) -> Verdict:
        """Return the current verdict of the Pod's workload."""
        return self.decided(workload_key(workload_key_of(of)))

    def workload_wants(self, of: Pod, *kinds: type) -> list[Any]:
        """Return the actions wanted for that workload, of these kinds if any are given."""
        return _of_kinds(self.workload_verdict(of), kinds)

    def cancels(self, of: Pod) -> list[tuple[str, bool]]:
        """Return each job of the workload to be cancelled, and whether another follows it."""
        return [(want.job_id, want.replaced) for want in self.workload_wants(of, CancelJob)]

    def binds(self, of: Pod) -> list[tuple[str, str]]:
        """Return each Pod of the workload to be bound, and its Node."""
        return [(want.reference.name, want.node_name) for want in self.workload_wants(of, Bind)]

    def ends(self, of: Pod) -> list[str]:
        """Return the names of the Pods of the workload that are to end."""
        return [want.reference.name for want in self.workload_wants(of, EndPod)]

    def events(self, of: Pod) -> list[EventKind]:
        """Return the wanted Events about the workload."""
        return [want.event for want in self.workload_wants(of, RecordEvent)]

    def workload_kept(self, of: Pod) -> list[Any]:
        """Return the actions of the workload that policy keeps back."""
        return self.kept(workload_key(workload_key_of(of)))

    def submission(self, of: Pod) -> Any:
        """Return the wanted submission of the workload, or None."""
        wants = self.workload_wants(of, SubmitJob)
        assert len(wants) < 2
        return wants[0] if wants else None

    def verdict(self, name: str = "n1") -> Verdict:
        """Return the current verdict of a host."""
        return self.decided(host_key(name))

    def wants(self, name: str = "n1", *kinds: type) -> list[Any]:
        """Return the actions wanted for a host, of these kinds if any are given."""
        return _of_kinds(self.verdict(name), kinds)

    def allowed(self, name: str = "n1", *kinds: type) -> list[Any]:
        """Return the wanted actions that policy allows."""
        kept = self.kept(host_key(name))
        return [want for want in self.wants(name, *kinds) if want not in kept]


def _of_kinds(verdict: Verdict, kinds: tuple[type, ...]) -> list[Any]:
    return [want for want in verdict.wants if not kinds or isinstance(want, kinds)]


def two_hosts(*rows: Row, **chosen: Any) -> Core:
    """Make a core with the free hosts n1 and n2, and these rows."""
    return Core(*room("n1"), *room("n2"), *rows, **chosen)
