"""A short sequence in which sunk-sync uses each of its permissions, and the claims about it."""

import base64
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from sunk_sync.core.model.event_kinds import EVENT_TOO_LATE
from sunk_sync.core.model.job_identity import Identity, job_name, spell_identity
from sunk_sync.core.model.names import EVENT_COMPONENT
from sunk_sync.kube.write.events import COUNT_PACE_S
from sunk_sync.server.tokens import LOCK, make_token
from tests.real import node_sets
from tests.real.permissions import claims
from tests.real.permissions.account import OWN, SLURMD, WORK
from tests.real.permissions.volumes import Volumes
from tests.real.pod_groups import CRDS, NAME, make_pod_group
from tests.real.service import Service
from tests.real.stage import PREFIX, eventually, prefixed
from tests.real.testbed import Bed, BedError, RestError, kube_objects
from tests.real.testbed.ports import Ports
from tests.real.workloads import HOSTNAME, SCHEDULER, all_jobs, lives, workload_spec

SECRET = f"/api/v1/namespaces/{OWN}/secrets/sunk-sync-slurm-hooks-key"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{OWN}/leases"
LEASE = "sunk-sync-slurm"
JOBS = f"/apis/batch/v1/namespaces/{WORK}/jobs"
EVENTS = {place: f"/api/v1/namespaces/{place}/events" for place in (OWN, SLURMD, WORK, "default")}
CORDONED, ANNOTATED, PODLESS, NODELESS, DOUBLE, ONE, TWO, FIRST, SECOND, THIRD = (
    f"x{number}" for number in range(1, 11)
)
"""What happens to each Slurm node without a slurmd. FIRST, SECOND and THIRD become NotReady."""
HOSTS = (CORDONED, ANNOTATED, PODLESS, NODELESS, DOUBLE, ONE, TWO, FIRST, SECOND, THIRD)
FULL = "n1"
"""In the scene of all Pods a Pod of another scheduler fills it."""
FLAGS = {
    "slurmd_namespace": SLURMD,
    "watch_namespace": WORK,
    "scheduler_name": SCHEDULER,
    "termination_offset": "0s",
    "slurm_kill_wait": "4s",
    "max_drains_per_minute": "2",
    "node_not_ready_grace": "100ms",
    "slurm_poll_interval": "100ms",
    "leader_elect": "false",
    "leader_elect_lease_duration": "3s",
    "watch_all_pods": "false",
    "lock": "false",
    "components": "syncer,scheduler",
}
PATIENCE_S = 60.0
READY_S = 60.0
QUIET_S = 1.0
SLACK = 1.5
"""How many times longer than with all permissions the scene waits for a claim."""
Claims = Mapping[str, Callable[[], Any]]
Step = tuple[Callable[[], None], Claims]
"""What happens, and what then becomes true."""


class Scene:
    """`play` returns the claims that do not become true."""

    def __init__(self, bed: Bed) -> None:
        self.bed = bed
        self._ports = Ports()
        self._hooks = f"127.0.0.1:{self._ports.take()}"
        self._round = 0
        self._rest = bed.kube.rest
        self._cluster = str(self._get("/api/v1/namespaces/kube-system")["metadata"]["uid"])
        for namespace in (OWN, SLURMD, WORK):
            bed.kube.ensure_namespace(namespace)
        self._rest.call(
            "POST", SECRET.rpartition("/")[0], {"metadata": {"name": SECRET.rpartition("/")[2]}}
        )
        node_sets.install(bed.kube)
        self._volumes = Volumes(bed)
        make_pod_group(self._rest, WORK, "gang", size=2)
        self._took_s: dict[str, float] = {}
        """How long each claim needed with all permissions."""

    def service(self, **flags: str) -> Service:
        urls = {"hooks_api_bind_address": self._hooks, "hooks_url": f"http://{self._hooks}"}
        return Service(self.bed, **{**FLAGS, **urls, **flags})

    def play(
        self, service: Service, *, wanted: str = "", restart: bool = False, lease: bool = True
    ) -> set[str]:
        """Run the service through the scene; return the broken claims.

        `wanted`: wait for this claim only a few times as long as with all permissions, and end.
        `restart`: the API server restarts first, so that no watch continues without a listing.
        `lease`: the empty Lease of the chart exists. Otherwise somebody deleted it.
        """
        self._round += 1
        self._reset()
        if lease:
            self._rest.call("POST", LEASES, {"metadata": {"name": LEASE}})
        if not self._starts(service, wanted):
            return {claims.READY}
        if restart:
            if wanted in ("", *claims.OF_VOLUMES):
                self._volumes.begin(self._named("begin"), service)
            self.bed.kube.restart()
        for change, promises in self._steps(service, lease=lease):
            change()
            broken = self._broken(promises, wanted)
            if broken or wanted in promises:
                return broken
        return set()

    def _starts(self, service: Service, wanted: str) -> bool:
        begun_s = time.monotonic()
        deadline_s = self._patience_s(wanted) if wanted == claims.READY else READY_S
        try:
            service.start().wait_ready(deadline_s=deadline_s)
        except BedError:
            return False
        if not wanted:
            self._took_s[claims.READY] = time.monotonic() - begun_s
        return True

    def _steps(self, service: Service, *, lease: bool) -> Iterator[Step]:
        """With --leader-elect only who leads: a busy machine may soon lose the Lease."""
        if service.settings["leader_elect"] == "true":
            yield lambda: None, {claims.LEADS if lease else claims.LEADS_AGAIN: self._holder}
        elif "nodesets" in service.settings["components"]:
            yield self._make_node_set, self._of_node_set()
            yield self._shrink_node_set, {claims.NODE_SET_ENDS: lambda: not self._node_set_pods()}
        elif service.settings["lock"] == "true":
            yield self._ask_for_lock, {claims.LOCKED: self._is_locked}
        elif service.settings["watch_all_pods"] == "true":
            yield self._fill, self._with_all_pods()
        else:
            yield self._change, {**self._of_hosts(), **self._of_pods()}
            yield self._change_again, self._afterwards()
            yield self._repeat, self._counted()

    def _broken(self, promises: Claims, wanted: str) -> set[str]:
        """Wait until all claims are true, or too long for one."""
        left = {wanted: promises[wanted]} if wanted in promises else dict(promises)
        patience_s = self._patience_s(wanted) if wanted in promises else PATIENCE_S
        begun_s = time.monotonic()
        while left and time.monotonic() - begun_s < patience_s:
            for name in [name for name, claim in left.items() if _holds(claim)]:
                del left[name]
                if not wanted:
                    self._took_s[name] = time.monotonic() - begun_s
            time.sleep(0.05)
        return set(left)

    def _patience_s(self, claim: str) -> float:
        if claim not in self._took_s:
            return PATIENCE_S
        return QUIET_S + SLACK * self._took_s[claim]

    def _reset(self) -> None:
        """Make every object anew, and clear both servers of the last round."""
        kube = self.bed.kube
        node_sets.clear(kube)
        for collection in (JOBS, *EVENTS.values()):
            self._rest.call("DELETE", f"{collection}?propagationPolicy=Background")
        for namespace in (WORK, SLURMD, "default"):
            path = f"/api/v1/namespaces/{namespace}/pods?gracePeriodSeconds=0"
            self._rest.call("DELETE", path)
        self._volumes.clear()
        with suppress(RestError):
            self._rest.call("DELETE", f"{LEASES}/{LEASE}")
        for job in all_jobs(self.bed):
            if lives(job):
                self.bed.slurm.cancel(str(job["job_id"]))
        for name in HOSTS:
            with suppress(RestError):
                kube.delete_node(name)
        self._rest.call(
            "PATCH", SECRET, {"data": None}, content_type="application/merge-patch+json"
        )
        self._free_slurm_nodes()
        kube.add_nodes(*HOSTS)
        with_pods = [name for name in HOSTS if name not in (ONE, TWO)]
        kube.create(*(kube_objects.slurmd_pod(name, namespace=SLURMD) for name in with_pods))

    def _free_slurm_nodes(self) -> None:
        names = ",".join(HOSTS)
        drained = [
            one["name"]
            for one in self.bed.slurm.slurm_nodes()
            if one["name"] in HOSTS and "DRAIN" in one["state"]
        ]
        if drained:
            self.bed.slurm.scontrol("update", f"nodename={','.join(drained)}", "state=undrain")
        self.bed.slurm.scontrol("update", f"nodename={names}", "comment=", "reason=")

    def _change(self) -> None:
        """Do what users and controllers do; the service is ready and sees changes alone."""
        kube = self.bed.kube
        kube.cordon(CORDONED)
        kube.annotate_pod(f"slurmd-{ANNOTATED}", SLURMD, prefixed({"cordon": "true"}))
        kube.delete_pod(f"slurmd-{PODLESS}", SLURMD, grace_s=0)
        kube.delete_node(NODELESS)
        kube.annotate_node(ONE, prefixed({"slurm_node": ONE}))
        self._contradict()
        self._pod(self._named("runs"))
        self._pod(self._named("late"), timeout="30")  # otherwise one array with the Pod above
        self._pod(self._named("waits"), partition="off")
        self._orphan()
        self._gangs()
        self._volumes.make(self._named("volume"))
        self._select()

    def _select(self) -> None:
        """Make a Pod that may run only in a Namespace with a label, which its own one has now."""
        name = self._named("selects")
        self.bed.kube.kubectl("label", "--overwrite", "namespace", WORK, f"test/selects={name}")
        term = {
            "topologyKey": HOSTNAME,
            "labelSelector": {"matchLabels": {"name": name}},
            "namespaceSelector": {"matchLabels": {"test/selects": name}},
        }
        affinity = {"podAffinity": {kube_objects.REQUIRED: [term]}}
        spec = {**workload_spec(), "affinity": affinity}
        self.bed.kube.create(
            kube_objects.pod(name, namespace=WORK, labels={"name": name}, spec=spec)
        )

    def _ask_for_lock(self) -> None:
        """Call as a prolog does, and do not wait for the answer."""
        key = base64.b64decode(self._get(SECRET)["data"]["key"])
        body = {"job_id": "999999", "node": CORDONED, "deadline_s": 1}
        request = urllib.request.Request(
            f"http://{self._hooks}/v1/lock",
            json.dumps(body).encode(),
            {"Authorization": f"Bearer {make_token(key, LOCK)}"},
        )
        with suppress(urllib.error.URLError):
            urllib.request.urlopen(request, timeout=5).close()

    def _is_locked(self) -> bool:
        self._ask_for_lock()
        annotations = self._get(f"/api/v1/nodes/{CORDONED}")["metadata"].get("annotations", {})
        return bool(annotations.get(f"{PREFIX}lock") == "locked")

    def _named(self, what: str) -> str:
        return f"{what}-{self._round}"

    def _pod(self, name: str, *, labels: Mapping[str, str] | None = None, **given: str) -> None:
        annotations = prefixed(given)
        spec = workload_spec()
        made = kube_objects.pod(
            name, namespace=WORK, labels=labels, annotations=annotations, spec=spec
        )
        self.bed.kube.create(made)

    def _orphan(self) -> None:
        """Submit a job of a Pod that does not exist any more (P21)."""
        name, uid = self._named("orphan"), f"0-{self._round}"
        identity = Identity(
            cluster=self._cluster,
            scheduler=SCHEDULER,
            workload="0" * 16,
            pods=(f"{WORK}/{name}/{uid}",),
        )
        self.bed.slurm.submit(
            "#!/bin/sh\nexec sleep 600\n",
            name=job_name(WORK, name, workload="0" * 16),
            admin_comment=spell_identity(identity),
            partition="off",
        )

    def _gangs(self) -> None:
        labels = {"scheduling.x-k8s.io/pod-group": "gang"}
        for member in ("a", "b"):
            self._pod(self._named(f"group-{member}"), labels=labels, partition="off")
        annotations = prefixed({"gang": "job", "partition": "off"})
        template = {
            "metadata": {"annotations": annotations},
            "spec": {**workload_spec(), "restartPolicy": "Never"},
        }
        spec = {
            "completions": 2,
            "parallelism": 2,
            "completionMode": "Indexed",
            "template": template,
        }
        self._rest.call("POST", JOBS, {"metadata": {"name": self._named("indexed")}, "spec": spec})

    def _change_again(self) -> None:
        """Cancel the job of the running Pod, and let two more Nodes fail than may be drained."""
        for job in self._jobs_of(self._named("runs")):
            self.bed.slurm.cancel(str(job["job_id"]))
        for name in (FIRST, SECOND):
            self.bed.kube.set_node_ready(name, ready=False)
        self._volumes.give_up(self._named("volume"))

    def _repeat(self) -> None:
        """Let conditions that have an Event end, and begin again when it may be counted."""
        kube, late = self.bed.kube, self._named("late")
        eventually(lambda: self._pod_of(late)["spec"].get("nodeName"), f"{late} is bound")
        kube.annotate_pod(late, WORK, prefixed({"partition": "off"}))
        ignored = EVENT_TOO_LATE.reason
        eventually(lambda: self._event(WORK, late, reason=ignored), f"{late} has Event {ignored}")
        kube.annotate_pod(late, WORK, {f"{PREFIX}partition": None})
        kube.delete_pod("double", SLURMD, grace_s=0)
        kube.annotate_node(TWO, {f"{PREFIX}slurm-node": None})
        for name in (FIRST, SECOND):
            kube.set_node_ready(name, ready=True)
        time.sleep(COUNT_PACE_S + QUIET_S)
        kube.annotate_pod(late, WORK, prefixed({"partition": "off"}))
        self._contradict()
        for name in (FIRST, SECOND, THIRD):
            kube.set_node_ready(name, ready=False)

    def _contradict(self) -> None:
        self.bed.kube.create(kube_objects.slurmd_pod(DOUBLE, namespace=SLURMD, name="double"))
        self.bed.kube.annotate_node(TWO, prefixed({"slurm_node": ONE}))

    def _fill(self) -> None:
        """Another scheduler's Pod fills a host; then comes a Pod of ours for this host."""
        container = {**kube_objects.CONTAINER, "resources": {"requests": {"cpu": "16"}}}
        other = kube_objects.pod(
            self._named("other"), namespace="default", node=FULL, spec={"containers": [container]}
        )
        self.bed.kube.create(other)
        time.sleep(0.5)
        spec = {**workload_spec(), "nodeSelector": {HOSTNAME: FULL}}
        self.bed.kube.create(kube_objects.pod(self._named("ours"), namespace=WORK, spec=spec))

    def _make_node_set(self) -> None:
        one = node_sets.node_set(self._named("set"), namespace=SLURMD, replicas=2)
        self._rest.call("POST", node_sets.path(SLURMD), one)

    def _shrink_node_set(self) -> None:
        path = f"{node_sets.path(SLURMD)}/{self._named('set')}"
        body = {"spec": {"replicas": 0}}
        self._rest.call("PATCH", path, body, content_type="application/merge-patch+json")

    def _of_node_set(self) -> Claims:
        def shown() -> Any:
            return self._get(f"{node_sets.path(SLURMD)}/{self._named('set')}")

        return {
            claims.NODE_SET_PODS: lambda: len(self._node_set_pods()) == 2,
            claims.NODE_SET_HELD: lambda: shown()["metadata"].get("finalizers"),
            claims.NODE_SET_STATUS: lambda: shown()["status"]["desired"] == 2,
        }

    def _node_set_pods(self) -> list[Any]:
        label = f"{PREFIX}nodeset%3D{self._named('set')}".replace("/", "%2F")
        pods = self._get(f"/api/v1/namespaces/{SLURMD}/pods?labelSelector={label}")
        return [one for one in pods["items"] if "deletionTimestamp" not in one["metadata"]]

    def _of_hosts(self) -> Claims:
        return {
            claims.NODE_CORDON: lambda: self._drained(CORDONED, "k8s: node cordoned"),
            claims.NODE_CONDITION: lambda: _status(self._node(CORDONED), "SlurmDrain") == "True",
            claims.NODE_METADATA: lambda: (
                _annotation(self._node(CORDONED), "drain")
                and self._node(CORDONED)["metadata"]["labels"].get(f"{PREFIX}pod")
            ),
            claims.NODE_GONE: lambda: self._drained(NODELESS, "k8s: node gone"),
            claims.POD_CORDON: lambda: self._drained(ANNOTATED, "k8s: pod cordoned"),
            claims.POD_CONDITION: lambda: (
                _status(self._slurmd_pod(ANNOTATED), "SlurmNodeStateDrain") == "True"
            ),
            claims.POD_ANNOTATION: lambda: _annotation(self._slurmd_pod(ANNOTATED), "drain"),
            claims.POD_GONE: lambda: self._drained(PODLESS, "k8s: pod terminated"),
            claims.POD_EVENT: lambda: self._event(SLURMD, "double"),
            claims.NODE_EVENT: lambda: self._event("default", TWO),
            claims.HOOKS_KEY: lambda: self._get(SECRET).get("data"),
        }

    def _of_pods(self) -> Claims:
        waits, runs = self._named("waits"), self._named("runs")
        return {
            claims.BOUND: lambda: self._pod_of(runs)["spec"].get("nodeName"),
            claims.SELECTS: lambda: self._pod_of(self._named("selects"))["spec"].get("nodeName"),
            claims.JOB_ID: lambda: _annotation(self._pod_of(waits), "job-id"),
            claims.WAITS: lambda: _status(self._pod_of(waits), "PodScheduled") == "False",
            claims.WAITS_EVENT: lambda: self._event(WORK, waits),
            claims.ORPHAN: lambda: self._jobs_of(self._named("orphan")) == [],
            claims.POD_GROUP: lambda: self._jobs_of(self._named("group-a")),
            claims.INDEXED_JOB: lambda: self._jobs_of(self._named("indexed")),
            claims.SELECTED: lambda: self._volumes.is_selected(self._named("volume")),
            claims.RESERVED: lambda: self._volumes.is_reserved(self._named("volume")),
            claims.ATTACHED: lambda: self._volumes.is_not_attached(self._named("volume")),
            claims.ROOM: lambda: self._volumes.has_no_room(self._named("volume")),
        }

    def _afterwards(self) -> Claims:
        runs = self._named("runs")
        return {
            claims.ENDED: lambda: self._ends(runs),
            claims.HELD: lambda: self._event(OWN, OWN),
            claims.SAID: lambda: self._volumes.is_said(self._named("volume")),
        }

    def _counted(self) -> Claims:
        return {
            claims.POD_COUNT: lambda: self._event(SLURMD, f"slurmd-{DOUBLE}", count=2),
            claims.NODE_COUNT: lambda: self._event("default", TWO, count=2),
            claims.LATE_COUNT: lambda: self._event(WORK, self._named("late"), count=2),
            claims.HELD_COUNT: lambda: self._event(OWN, OWN, count=2),
        }

    def _with_all_pods(self) -> Claims:
        ours = self._named("ours")
        return {
            claims.OTHERS: lambda: (
                _status(self._pod_of(ours), "PodScheduled") == "False" and not self._jobs_of(ours)
            ),
        }

    def _get(self, path: str) -> Any:
        return self._rest.call("GET", path)

    def _holder(self) -> Any:
        return self._get(f"{LEASES}/{LEASE}")["spec"]["holderIdentity"]

    def _node(self, name: str) -> Any:
        return self.bed.kube.node(name)

    def _slurmd_pod(self, slurm_node: str) -> Any:
        return self.bed.kube.pod(f"slurmd-{slurm_node}", SLURMD)

    def _pod_of(self, name: str) -> Any:
        return self.bed.kube.pod(name, WORK)

    def _ends(self, name: str) -> bool:
        pod = self.bed.kube.pod_if_any(name, WORK)
        return pod is None or "deletionTimestamp" in pod["metadata"]

    def _jobs_of(self, name: str) -> list[Any]:
        """Return the live jobs of a Pod, or of the gang whose first Pod has this name."""
        prefix = f"k8s/{WORK}/{name}"
        return [job for job in all_jobs(self.bed) if job["name"].startswith(prefix) and lives(job)]

    def _drained(self, slurm_node: str, reason: str) -> bool:
        row = self.bed.slurm.slurm_node(slurm_node)
        return "DRAIN" in row["state"] and str(row["reason"]) == reason

    def _event(self, namespace: str, name: str, *, count: int = 1, reason: str = "") -> bool:
        """Return whether sunk-sync wrote an Event; Kubernetes writes one about each new Node."""
        items = self._get(EVENTS[namespace])["items"]
        return any(
            (one["reportingComponent"], one["involvedObject"]["name"]) == (EVENT_COMPONENT, name)
            and one["count"] >= count
            and reason in ("", one["reason"])
            for one in items
        )

    def close(self) -> None:
        self._ports.close()
        self._rest.call("DELETE", f"{CRDS}/{NAME}")
        node_sets.remove(self.bed.kube)


def _holds(claim: Callable[[], Any]) -> bool:
    with suppress(RestError, KeyError):
        return bool(claim())
    return False


def _status(an_object: Any, kind: str) -> str:
    return kube_objects.status_of(an_object, kind)


def _annotation(an_object: Any, name: str) -> str:
    annotations = an_object["metadata"].get("annotations") or {}
    return str(annotations.get(PREFIX + name, ""))
