"""Users of both sides: real controllers' Pods and plain jobs come and go, hosts are cordoned.

A human drains hosts only while nothing is disturbed: what a human writes between sunk-sync's read
and its write is lost (S0), and a fault can make that moment long.
"""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.client import HTTPException
from typing import Any

from tests.chaos.checkers import REPAIRED, HumanDrains
from tests.chaos.retries import BACKGROUND, BATCH, IGNORES_DISRUPTIONS, KEPT_S, MERGE, Retries
from tests.chaos.world import HOSTS, World
from tests.real.pod_bed import SCHEDULER
from tests.real.service import NAMESPACE
from tests.real.stage import annotation, prefixed
from tests.real.testbed import BedError, RestError, kube_objects
from tests.real.testbed.closing import Closing
from tests.real.testbed.kube_objects import Object
from tests.real.testbed.kubelet import END_DELAY, RUN

APPS = f"/apis/apps/v1/namespaces/{NAMESPACE}"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
PAUSE_S = 1.2
WAITING_MAX = 12
"""With more Pods waiting no more are created: the hosts, not the queue, shall be busy."""
DRAINS_MAX = 2
CORDONS = 0.25
"""Share of the hosts that are cordoned: most of them shall run Pods."""
ASIDE_S = 6.0
"""A human acts only on a host without a change in Kubernetes for so long."""
AWAY = (OSError, HTTPException, RestError, BedError)
SLURMS_OWN = (
    "Duplicate jobid",
    "Kill task failed",
    "Prolog error",
    "batch job complete failure",
    REPAIRED,
)
WEB, DATABASE = 3, 2
PROBE = "probe"
"""Users leave Pods and jobs of such a name alone."""


class Traffic(Closing):
    """A thread that does one thing after the other; a server that is away is no failure."""

    def __init__(
        self,
        world: World,
        rng: random.Random,
        *,
        humans: HumanDrains,
        on_cancel: Callable[[str], None],
        calm: Callable[[], bool],
    ) -> None:
        self._world = world
        self._kube, self._slurm = world.bed.kube, world.bed.slurm
        self._rng = rng
        self._humans = humans
        self._on_cancel = on_cancel
        self._calm = calm
        self._numbers = 0
        self._touched: dict[str, float] = {}
        self._drained: dict[str, str] = {}
        """Host → reason of a human's drain."""
        self.done: Counter[str] = Counter()
        self._retries = Retries(self._kube, rng, template=self._batch)
        self._acts: tuple[tuple[Callable[[], None], int], ...] = (
            (self._job, 4),
            (self._gang, 2),
            (self._bare_pod, 2),
            (self._plain_job, 5),
            (self._delete_pod, 3),
            (self._scale, 2),
            (self._cordon, 4),
            (self._slurmd_pod, 2),
            (self._human, 4),
            (self._cancel, 2),
            (self._repair, 3),
            (self._retrying, 5),
            (self._retries.apply_again, 2),
            (self._retries.suspend, 2),
            (self._retries.resize, 1),
        )
        self._stop = threading.Event()
        self.failure: BaseException | None = None
        self._make_controllers()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        acts, weights = zip(*self._acts, strict=True)
        while not self._stop.wait(self._rng.uniform(0, PAUSE_S)):
            (act,) = self._rng.choices(acts, weights)
            try:
                act()
                self.done[act.__name__.strip("_").replace("_", " ")] += 1
            except AWAY:
                self.done["server was away"] += 1
            except BaseException as error:  # noqa: BLE001 - raised by close
                self.failure = error
                return

    def close(self) -> None:
        """End; raise the exception of the thread."""
        self._stop.set()
        self._thread.join()
        if self.failure is not None:
            raise self.failure

    def _make_controllers(self) -> None:
        call = self._kube.rest.call
        web = _controller("web", replicas=WEB, cpus=4)
        call("POST", f"{APPS}/deployments", {**web, "kind": "Deployment"})
        database = _controller("database", replicas=DATABASE, cpus=16)
        spec = {**database["spec"], "serviceName": "database"}
        call("POST", f"{APPS}/statefulsets", {**database, "kind": "StatefulSet", "spec": spec})

    def _name(self, what: str) -> str:
        self._numbers += 1
        return f"{what}-{self._numbers}"

    def _host(self) -> str:
        return f"n{self._rng.randint(1, HOSTS)}"

    def _partition(self) -> str:
        """Most Pods run in a partition that plain jobs preempt."""
        return self._rng.choice(("main", "low", "low", "grace"))

    def _is_crowded(self) -> bool:
        return sum("nodeName" not in pod["spec"] for pod in self._ours()) > WAITING_MAX

    def _job(self) -> None:
        """A Job whose Pods may be disrupted without counting as failed."""
        if self._is_crowded():
            return
        count = self._rng.randint(1, 3)
        spec = {
            "completions": count,
            "parallelism": count,
            "backoffLimit": 3,
            "ttlSecondsAfterFinished": KEPT_S,
            **IGNORES_DISRUPTIONS,
            "template": self._batch(cpus=self._rng.choice((2, 8, 16))),
        }
        self._kube.rest.call("POST", BATCH, {"metadata": {"name": self._name("job")}, "spec": spec})

    def _gang(self) -> None:
        if self._is_crowded():
            return
        spec = {
            "completions": 2,
            "parallelism": 2,
            "completionMode": "Indexed",
            "ttlSecondsAfterFinished": KEPT_S,
            "backoffLimit": 3,
            "template": self._batch(cpus=8, gang="job"),
        }
        name = self._name("gang")
        self._kube.rest.call("POST", BATCH, {"metadata": {"name": name}, "spec": spec})

    def _retrying(self) -> None:
        """A Job whose Pods fail, most often a gang."""
        if not self._is_crowded():
            self._retries.make()

    def _batch(self, *, cpus: int, **annotations: str) -> Object:
        run_s = {RUN: f"{self._rng.uniform(2, 25):.0f}"}
        ours = prefixed({"partition": self._partition(), **annotations})
        spec = {**_spec(cpus), "restartPolicy": "Never"}
        return {"metadata": {"annotations": {**run_s, **ours}}, "spec": spec}

    def _bare_pod(self) -> None:
        if self._is_crowded():
            return
        end_s = self._rng.choice(("0", "1", "3"))
        annotations = {
            END_DELAY: end_s,
            RUN: "30",
            **prefixed({"partition": self._partition()}),
        }
        cpus = self._rng.choice((4, 16))
        name = self._name("pod")
        spec = {**_spec(cpus), "restartPolicy": "Never"}
        made = kube_objects.pod(name, namespace=NAMESPACE, annotations=annotations, spec=spec)
        self._kube.create(made)

    def _plain_job(self) -> None:
        sleep_s = self._rng.randint(1, 20)
        self._slurm.submit(
            f"#!/bin/sh\nexec sleep {sleep_s}\n",
            name=self._name("plain"),
            partition=self._rng.choice(("main", "again")),
            cpus_per_task=self._rng.choice((4, 16)),
            requeue=self._rng.random() < 0.5,
        )

    def _ours(self) -> list[Any]:
        selector = f"fieldSelector=spec.schedulerName%3D{SCHEDULER}"
        items = self._kube.rest.call("GET", f"{PODS}?{selector}")["items"]
        return [pod for pod in items if not pod["metadata"]["name"].startswith(PROBE)]

    def _delete_pod(self) -> None:
        if pods := self._ours():
            self._kube.delete_pod(self._rng.choice(pods)["metadata"]["name"], NAMESPACE)

    def _scale(self) -> None:
        self._scale_to(self._rng.randint(0, 4))

    def _scale_to(self, web: int) -> None:
        patch = {"spec": {"replicas": web}}
        path = f"{APPS}/deployments/web"
        self._kube.rest.call("PATCH", path, patch, content_type=MERGE)

    def _cordon(self) -> None:
        host = self._host()
        self._touched[host] = time.monotonic()
        self._kube.cordon(host, unschedulable=self._rng.random() < CORDONS)

    def _slurmd_pod(self) -> None:
        """It is cordoned, unready, or replaced by another one of the same name."""
        host = self._host()
        name = f"slurmd-{host}"
        self._touched[host] = time.monotonic()
        match self._rng.randint(0, 2):
            case 0:
                value = self._rng.choice((None, None, "true"))
                self._kube.annotate_pod(name, NAMESPACE, prefixed({"cordon": value}))
            case 1:
                self._kube.set_pod_ready(name, NAMESPACE, ready=self._rng.random() < 0.7)
            case _:
                self._replace_slurmd_pod(host)

    def _replace_slurmd_pod(self, host: str) -> None:
        if self._kube.pod_if_any(f"slurmd-{host}", NAMESPACE) is not None:
            self._kube.delete_pod(f"slurmd-{host}", NAMESPACE, grace_s=0)
        self._kube.create(kube_objects.slurmd_pod(host, namespace=NAMESPACE))

    def _cancel(self) -> None:
        """Somebody cancels the job of a Pod."""
        path = self._slurm.path("jobs/")
        jobs = self._slurm.rest.call("GET", path)["jobs"]
        ours = [
            job
            for job in jobs
            if "RUNNING" in job["job_state"]
            and job["name"].startswith(f"k8s/{NAMESPACE}/")
            and not job["name"].startswith(f"k8s/{NAMESPACE}/{PROBE}")
        ]
        if ours:
            job = str(self._rng.choice(ours)["job_id"])
            self._on_cancel(job)
            self._slurm.cancel(job)

    def _human(self) -> None:
        """A human drains a host, or lifts an own drain."""
        host = self._host()
        quiet_s = time.monotonic() - self._touched.get(host, 0.0)
        if not self._calm() or quiet_s < ASIDE_S:
            return
        if len(self._drained) >= DRAINS_MAX:
            host = next(iter(self._drained))
        if host in self._drained:
            self._lift(host)
            return
        row = self._slurm.slurm_node(host)
        if row["reason"] or {"DRAIN", "DOWN", "NOT_RESPONDING"} & set(row["state"]):
            return
        reason = f"bad DIMM {self._numbers}"
        self._drained[host] = reason
        self._slurm.update_slurm_node(host, state=["DRAIN"], reason=reason)
        self._humans.drained(host, reason=reason, at_s=time.monotonic())

    def _lift(self, host: str) -> None:
        """A slurmctld that was killed may have lost the drain."""
        self._humans.lifting(host)
        reason = self._drained.pop(host)
        if self._slurm.slurm_node(host)["reason"] == reason:
            self._slurm.update_slurm_node(host, state=["UNDRAIN"], reason=REPAIRED)

    def _repair(self) -> None:
        """An operator frees the hosts that slurmctld itself has drained, and cancels held jobs.

        A slurmctld that lost its last job ids gives them again, and drains where they still run.
        After a failed prolog it drains the host, and holds a job that may be requeued.
        """
        for node in self._slurm.slurm_nodes():
            if "DRAIN" in node["state"] and node["reason"].startswith(SLURMS_OWN):
                self._slurm.update_slurm_node(node["name"], state=["UNDRAIN"], reason=REPAIRED)
        self._cancel_plain(lambda job: job["state_reason"].startswith("JobHeld"))

    def _cancel_plain(self, which: Callable[[Any], bool]) -> None:
        for job in self._slurm.rest.call("GET", self._slurm.path("jobs/"))["jobs"]:
            live = {"PENDING", "RUNNING"} & set(job["job_state"])
            if job["name"].startswith("plain-") and live and which(job):
                self._slurm.cancel(str(job["job_id"]))

    def _ask_again(self) -> None:
        """Ask for new jobs of waiting Pods whose job somebody cancelled: else they get none (P17).

        The Pod of a job that was cancelled while it started is not bound yet.
        """
        for pod in self._ours():
            if annotation(pod, "cancelled") is not None and "nodeName" not in pod["spec"]:
                name = pod["metadata"]["name"]
                self._kube.annotate_pod(name, NAMESPACE, prefixed({"resubmit": "please"}))

    def make_room(self) -> None:
        """Free every host, let the work that runs end, and add none; call it after `close`."""
        self._world.site.mend()
        for host in list(self._drained):
            self._lift(host)
        self._repair()
        for number in range(1, HOSTS + 1):
            host = f"n{number}"
            self._kube.cordon(host, unschedulable=False)
            pod = self._kube.pod_if_any(f"slurmd-{host}", NAMESPACE)
            if pod is None or "deletionTimestamp" in pod["metadata"]:
                self._replace_slurmd_pod(host)
            self._kube.annotate_pod(f"slurmd-{host}", NAMESPACE, prefixed({"cordon": None}))
            self._kube.set_pod_ready(f"slurmd-{host}", NAMESPACE, ready=True)
        self._ask_again()
        self._scale_to(WEB)
        self._cancel_plain(bool)
        self.tend()

    def tend(self) -> None:
        """Free the hosts that Slurm drains meanwhile, and let Jobs' Pods end at once."""
        self._repair()
        for pod in self._ours():
            runs = RUN in pod["metadata"].get("annotations", {}) and "nodeName" in pod["spec"]
            if runs and pod["metadata"]["annotations"][RUN] != "0":
                with suppress(RestError):  # it can be gone since the listing
                    self._kube.annotate_pod(pod["metadata"]["name"], NAMESPACE, {RUN: "0"})

    def wind_down(self) -> None:
        """Leave only the controllers' Pods."""
        self._kube.rest.call("DELETE", BATCH + BACKGROUND)
        for pod in self._ours():
            if pod["metadata"]["name"].startswith("pod-"):
                self._kube.delete_pod(pod["metadata"]["name"], NAMESPACE)


def _controller(name: str, *, replicas: int, cpus: int) -> Object:
    labels = {"app": name}
    annotations = prefixed({"partition": "low"})
    template = {"metadata": {"labels": labels, "annotations": annotations}, "spec": _spec(cpus)}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "metadata": {"name": name}, "spec": spec}


def _spec(cpus: int) -> Mapping[str, Any]:
    requests = {"cpu": str(cpus), "memory": "64Mi"}
    return {
        "containers": [{**kube_objects.CONTAINER, "resources": {"requests": requests}}],
        "schedulerName": SCHEDULER,
        "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": False,
    }
