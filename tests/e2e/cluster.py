"""A cluster with real kubelets: its slurmd Pods are containers that sunk-sync's NodeSet makes."""

import base64
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from tests.e2e.images import SLURMD
from tests.e2e.kubelets import Kubelets
from tests.e2e.network import ADDRESS, own_network
from tests.e2e.requirements import KUBE
from tests.real.node_farm import CRD, NODESETS, Cluster
from tests.real.service import QUICK, Service, install
from tests.real.testbed import Bed, BedError, KubeServer, SlurmConf, SlurmServer

NODES = ("k1", "k2", "k3", "k4", "k5", "k6")
ADDRESSES = tuple(f"10.65.0.{10 + number}" for number in range(1, len(NODES) + 1))
LINES = (
    "SlurmctldParameters=enable_configless",
    # 26.05 does not log the jobs that backfill starts, and a test reads the starts in the log.
    "SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=3600",
)
CONF = SlurmConf(slurmds=0, address=ADDRESS, extra_lines=LINES)
SHAPE = "sunk.coreweave.com/shape"
SECRETS = "/api/v1/namespaces/slurm/secrets"
KEY = {"secret": {"name": "slurm-key"}}
HOOKS = {
    "secret": {
        "name": "sunk-sync-lock",
        "optional": True,
        "items": [
            {"key": name, "path": f"sunk-sync/{name}"} for name in ("sunk-sync.conf", "lock-token")
        ],
    }
}
ALONE = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {
                "topologyKey": "kubernetes.io/hostname",
                "labelSelector": {"matchExpressions": [{"key": SHAPE, "operator": "Exists"}]},
            }
        ]
    }
}
"""One slurmd Pod on each Node: sunk-sync acts on none of two that share one (S16)."""


ONE_BY_ONE = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}}


class RealCluster(Cluster):
    """NodeSet `cpu` on real kubelets."""

    image = SLURMD.format(1)

    def __init__(self, bed: Bed, service: Service, kubelets: Kubelets) -> None:
        super().__init__(bed, service)
        self.bed, self.kubelets = bed, kubelets

    def slurmd(self) -> dict[str, Any]:
        container = super().slurmd()
        mounts = {"slurm": "/etc/slurm", "shared": "/shared"}
        return {
            **container,
            "args": ["-D", *container["args"]],
            "imagePullPolicy": "Never",
            "securityContext": {"privileged": True},
            "volumeMounts": [{"name": name, "mountPath": at} for name, at in mounts.items()],
        }

    def template(self) -> dict[str, Any]:
        shared = {"path": str(self.kubelets.shared), "type": "Directory"}
        return {
            **super().template(),
            "automountServiceAccountToken": False,
            "dnsPolicy": "Default",
            "enableServiceLinks": False,
            "affinity": ALONE,
            "volumes": [
                {"name": "slurm", "projected": {"defaultMode": 0o400, "sources": [KEY, HOOKS]}},
                {"name": "shared", "hostPath": shared},
            ],
        }

    def set_slurmd(self, **fields: Any) -> None:
        """Give the container of the template other fields, as `kubectl edit` does."""
        spec = self.template()
        spec["containers"][0].update(fields)
        self.change(template={"spec": spec})

    def images(self) -> dict[str, str]:
        """Return the image of each Pod that is not being deleted."""
        return {
            name: pod["spec"]["containers"][0]["image"]
            for name, pod in self.pods_of().items()
            if "deletionTimestamp" not in pod["metadata"]
        }

    def in_use(self) -> list[str]:
        """Return the Slurm nodes on which jobs can start."""
        away = {"DRAIN", "DOWN", "NOT_RESPONDING"}
        return sorted(name for name, state in self.records().items() if not state & away)

    def nodes_of(self) -> dict[str, str]:
        return {name: pod["spec"].get("nodeName", "") for name, pod in self.pods_of().items()}

    def put_secret(self, name: str, files: Mapping[str, str | bytes]) -> None:
        content = {
            file: base64.b64encode(text.encode() if isinstance(text, str) else text).decode()
            for file, text in files.items()
        }
        body = {"metadata": {"name": name}, "data": content}
        self.kube.rest.call("POST", SECRETS, body)

    def put_key(self) -> None:
        """Give the slurmd Pods the key of the cluster."""
        key = (self.slurm.root / "etc/slurm/slurm.key").read_bytes()
        self.put_secret("slurm-key", {"slurm.key": key})

    def serve(self, **flags: str) -> None:
        """Replace the service by one with these settings."""
        self.service.kill9()
        self.service = Service(self.bed, **{"components": "syncer,nodesets", **QUICK, **flags})
        self.service.start().wait_ready()

    def run_job(self, script: str, *options: str) -> str:
        """Submit a job as a user does, and return its id."""
        argv = ["sbatch", "--parsable", "-D", "/tmp", "-o", "/dev/null", *options]
        return self.slurm.run_in_root(*argv, "--wrap", script).strip()

    def file(self, name: str) -> str:
        """Return what a Pod has written to /shared/NAME; empty if there is no such file."""
        path = self.kubelets.shared / name
        return path.read_text() if path.exists() else ""

    def show(self) -> str:
        """Return what is to be seen of the Pods and of Slurm's nodes."""
        pods = self.kube.kubectl("get", "pods,nset", "-A", "-o", "wide")
        events = self.kube.kubectl("get", "events", "-n", "slurm", "--sort-by=.lastTimestamp")
        return f"{pods}\n{events[-4000:]}\n{self._logs()}\n{self.slurm.sinfo('-N', '-l')}"

    def _logs(self) -> str:
        """Return the last lines of each slurmd."""
        of = ("logs", "-n", "slurm", "-l", SHAPE, "--prefix", "--tail=5")
        try:
            return self.kube.kubectl(*of)
        except BedError as error:  # no container has started
            return str(error)


@contextmanager
def real_cluster(version: str) -> Iterator[RealCluster]:
    with ExitStack() as stack:
        stack.enter_context(own_network(*ADDRESSES))
        kube = stack.enter_context(KubeServer(KUBE, kubelet=False))
        slurm = stack.enter_context(SlurmServer(version, CONF))
        bed = Bed(kube=kube, slurm=slurm)
        install(bed)
        # The service is a process here: no kubelet needs to start its Pods.
        kube.kubectl("delete", "deployment", "-n", "slurm", "sunk-sync")
        kube.kubectl("apply", "-k", NODESETS)
        kube.kubectl("wait", "--for=condition=Established", "-f", CRD)
        kube.start_scheduler()
        kubelets = stack.enter_context(Kubelets(kube, *NODES, slurm=version))
        cluster = RealCluster(bed, Service(bed), kubelets)
        cluster.put_key()
        stack.callback(lambda: cluster.service.kill9())
        cluster.serve()
        yield cluster
