"""A cluster without slurmd Pods of its own, and NodeSet `cpu`, whose Pods sunk-sync makes."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from tests.real.service import QUICK, Service, install
from tests.real.slurmd_pods import SlurmdPods, wait_for
from tests.real.testbed import Bed, BedError, SlurmConf
from tests.real.testbed.kube import REPOSITORY
from tests.real.testbed.kube_objects import node
from tests.real.trap import Trap, trapped

NODESETS = REPOSITORY / "deploy" / "nodesets"
CRD = NODESETS / "crd.yaml"
PATH = "/apis/sunk-sync.dev/v1alpha1/namespaces/slurm/nodesets"
PODS = "/api/v1/namespaces/slurm/pods?labelSelector=sunk.coreweave.com%2Fshape"
EVENTS = "/apis/events.k8s.io/v1/namespaces/slurm/events"
NODES = 6
CONF = SlurmConf(slurmds=1, cpus=4, extra_lines=("SlurmctldParameters=enable_configless",))


class Cluster:
    """A cluster whose slurmd Pods sunk-sync makes; NodeSet `cpu` is there during a test."""

    image = "none.invalid/slurmd:1"

    def __init__(self, bed: Bed, service: Service) -> None:
        self.kube, self.slurm, self.service = bed.kube, bed.slurm, service

    def slurmd(self) -> dict[str, Any]:
        """Return the container of the template."""
        return {
            "name": "slurmd",
            "image": self.image,
            "args": ["--conf-server", f"{self.slurm.conf.address}:{self.slurm.slurmctld_port}"],
            "resources": {"limits": {"cpu": "2", "memory": "2Gi"}, "requests": {"cpu": "100m"}},
        }

    def template(self) -> dict[str, Any]:
        return {"containers": [self.slurmd()], "terminationGracePeriodSeconds": 1}

    def make(
        self,
        replicas: int | None,
        *,
        name: str = "cpu",
        selector: Mapping[str, str] | None = None,
        **spec: Any,
    ) -> None:
        pod = self.template()
        if selector is not None:
            pod["nodeSelector"] = dict(selector)
        number = {} if replicas is None else {"replicas": replicas}
        body = {
            "apiVersion": "sunk-sync.dev/v1alpha1",
            "kind": "NodeSet",
            "metadata": {"name": name, "namespace": "slurm"},
            "spec": {**number, "template": {"spec": pod}, **spec},
        }
        self.kube.rest.call("POST", PATH, body)

    def change(self, **spec: Any) -> None:
        patch = json.dumps({"spec": spec})
        self.kube.kubectl("patch", "nset/cpu", "-n", "slurm", "--type=merge", "-p", patch)

    def scale(self, replicas: int) -> None:
        self.kube.kubectl("scale", "nset/cpu", "-n", "slurm", f"--replicas={replicas}")

    def pods_of(self) -> dict[str, Any]:
        return {pod["metadata"]["name"]: pod for pod in self.kube.rest.call("GET", PODS)["items"]}

    def records(self) -> dict[str, set[str]]:
        states = self.slurm.states()
        return {name: set(state) for name, state in states.items() if name.startswith("cpu-")}

    def usable(self, number: int) -> bool:
        """Whether exactly so many records exist, and jobs can start on each."""
        states = self.records().values()
        away = {"DRAIN", "DOWN", "NOT_RESPONDING"}
        return len(states) == number and not any(state & away for state in states)

    def is_available(self, number: int) -> bool:
        """Whether sunk-sync has seen so many Pods in use, and Slurm has so many usable nodes."""
        return self.usable(number) and self.status().get("available") == number

    def is_updated(self, number: int, *, memory_mib: int = 1024) -> bool:
        """Whether so many Pods are in use whose records have this memory, and no others."""
        records = [one for one in self.slurm.slurm_nodes() if one["name"].startswith("cpu-")]
        sizes = [one["real_memory"] for one in records]
        return sizes == [memory_mib] * number and self.is_available(number)

    def job(self, job_id: str) -> Mapping[str, Any]:
        # The number of an array returns all its tasks.
        jobs = self.slurm.rest.call("GET", self.slurm.path(f"job/{job_id}"))["jobs"]
        (job,) = (job for job in jobs if str(job["job_id"]) == job_id)
        return dict(job)

    def status(self, name: str = "cpu") -> Mapping[str, Any]:
        return dict(self.kube.rest.call("GET", f"{PATH}/{name}").get("status", {}))

    def condition(self, kind: str = "Progressing", *, name: str = "cpu") -> tuple[str, str]:
        """Return reason and message of a condition of the NodeSet; empty if it has none."""
        found = self.status(name).get("conditions", ())
        of_kind = [(one["reason"], one["message"]) for one in found if one["type"] == kind]
        return next(iter(of_kind), ("", ""))

    def events(self, reason: str) -> list[str]:
        """Return the messages of the Events with this reason."""
        found = self.kube.rest.call("GET", EVENTS)["items"]
        return [one["note"] for one in found if one["reason"] == reason]

    def clear(self) -> None:
        """Delete the NodeSet and wait until nothing is left."""
        for one in self.slurm.slurm_nodes():
            if "DRAIN" in one["state"] and not one["reason"].startswith("k8s:"):
                with suppress(BedError):  # its record may go at this moment
                    self.slurm.scontrol("update", f"nodename={one['name']}", "state=undrain")
        self.kube.kubectl("delete", "nset", "--all", "-n", "slurm", "--wait=false")
        wait_for(self.is_empty, "nothing left of the NodeSet", deadline_s=60)

    def is_empty(self) -> bool:
        sets = self.kube.rest.call("GET", PATH)["items"]
        return not (sets or self.pods_of() or self.records())


class Farm(Cluster):
    """A stand-in starts the slurmd of its Pods."""

    def __init__(self, bed: Bed, service: Service, pods: SlurmdPods) -> None:
        super().__init__(bed, service)
        self.pods = pods

    def clear(self) -> None:
        self.pods.starts = True
        super().clear()


@contextmanager
def farm_with(
    version: str,
    *,
    conf: SlurmConf = CONF,
    nodes: int = NODES,
    scheduler: bool = False,
    trap: Trap | None = None,
    flags_for: Callable[[Bed], Mapping[str, str]] | None = None,
) -> Iterator[Farm]:
    """`scheduler`: kube-scheduler binds the slurmd Pods, instead of a stand-in.

    `flags_for`: prepares the bed and returns more flags of the service.
    """
    with ExitStack() as stack:
        bed = stack.enter_context(Bed.start(slurm=version, conf=conf, hosts=False))
        install(bed)
        bed.kube.kubectl("apply", "-k", NODESETS)
        bed.kube.kubectl("wait", "--for=condition=Established", "-f", CRD)
        for number in range(nodes):
            bed.kube.rest.call("POST", "/api/v1/nodes", node(f"k{number}"))
        if scheduler:
            bed.kube.start_scheduler()
        flags = stack.enter_context(trapped(bed, trap)) if trap else {}
        flags = {"slurm_metrics_interval": "500ms", **flags}
        more = flags_for(bed) if flags_for else {}
        service = Service(bed, **{"components": "syncer,nodesets", **QUICK, **flags, **more})
        pods = stack.enter_context(SlurmdPods(bed, binds=not scheduler))
        if trap:
            trap.service = service
        stack.enter_context(service)
        yield Farm(bed, service, pods)
