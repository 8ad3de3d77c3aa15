"""A test bed with the manifests applied and many hosts, and one service on it at a time.

Each test takes hosts that no other test has used, so no test has to clean up.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from tests.real.service import NAMESPACE, QUICK, Service, install
from tests.real.testbed import Bed, BedError, SlurmConf, kube_objects
from tests.real.testbed.closing import Closing
from tests.real.testbed.kube_objects import Object
from tests.real.testbed.sandbox import wait_until

HOSTS = 40
"""Of a stage, unless its test module has STAGE_HOSTS: each costs the servers CPU."""
WITHIN_S = 30.0
STAYS_S = 0.8
"""Four polls of Slurm: a change that must not happen would have happened by then."""
PREFIX = "sunk.coreweave.com/"
Text = TypeVar("Text", str, str | None)
CONF = (
    "ReturnToService=1",  # a node that a test sets DOWN stays so; with 2 each registration ends it
    "SuspendTime=86400",
    "SuspendProgram=/bin/true",
    "ResumeProgram=/bin/true",
    "SuspendTimeout=2",
    "ResumeTimeout=600",
    "RebootProgram=/bin/true",
)


def eventually(
    claim: Callable[[], Any], what: str, *, within_s: float = WITHIN_S, show: Any = str
) -> None:
    """Wait until the claim is true; an AssertionError names it, after what `show` returns."""
    try:
        wait_until(lambda: bool(claim()), what, deadline_s=within_s)
    except BedError as error:
        raise AssertionError(f"{show()}\n{error}") from None


def stays(claim: Callable[[], Any], *, for_s: float = STAYS_S) -> bool:
    """Check that the claim is true and stays true."""
    end = time.monotonic() + for_s
    while claim():
        if time.monotonic() > end:
            return True
        time.sleep(0.05)
    return False


class Host:
    """One machine: its state on both servers, and operations of users."""

    def __init__(self, bed: Bed, name: str) -> None:
        self.bed = bed
        self.name = name
        self.pod_name = f"slurmd-{name}"

    def __repr__(self) -> str:
        state = "+".join(self.slurm["state"])
        return f"{self.name}: {state} {self.reason!r} {self._shown()}"

    def _shown(self) -> Any:
        known: dict[str, Any] = {}
        with suppress(Exception):
            known["node"] = self.node_conditions
        with suppress(Exception):
            known["pod"] = sorted(self.pod_states)
        return known

    def until(self, claim: Callable[[], Any], *, within_s: float = WITHIN_S) -> None:
        eventually(claim, f"not within {within_s} s", within_s=within_s, show=self.__repr__)

    def until_drained(self, reason: str, *, within_s: float = WITHIN_S) -> None:
        self.until(lambda: self.drained_as(reason), within_s=within_s)

    def until_free(self, *, within_s: float = WITHIN_S) -> None:
        self.until(lambda: self.free, within_s=within_s)

    @property
    def slurm(self) -> Any:
        return self.bed.slurm.slurm_node(self.name)

    @property
    def state(self) -> set[str]:
        return set(self.slurm["state"])

    @property
    def reason(self) -> str:
        return str(self.slurm["reason"])

    @property
    def comment(self) -> str:
        return str(self.slurm["comment"])

    @property
    def mark(self) -> Any:
        """Return our mark in the comment, decoded; None if there is none."""
        with suppress(ValueError, KeyError, TypeError):
            return json.loads(self.comment)["sunk-sync"]
        return None

    @property
    def drain(self) -> tuple[bool, str, int, str]:
        """Return DRAIN, the reason, and when and by whom it was written, from slurmctld."""
        row = self.slurm
        since = row["reason_changed_at"]["number"]
        return "DRAIN" in row["state"], row["reason"], since, row["reason_set_by_user"]

    def drained_as(self, reason: str) -> bool:
        row = self.slurm
        return "DRAIN" in row["state"] and row["reason"] == reason

    @property
    def free(self) -> bool:
        """Whether the node is not drained and has no reason of ours."""
        row = self.slurm
        return "DRAIN" not in row["state"] and not row["reason"].startswith("k8s:")

    def update(self, **fields: str) -> None:
        words = [f"{name}={value}" for name, value in fields.items()]
        self.bed.slurm.scontrol("update", f"nodename={self.name}", *words)

    def run_job(self, *options: str, script: str = "sleep 600") -> str:
        """Submit a real job here; return its id when it runs."""
        slurm = self.bed.slurm
        argv = ["sbatch", "--parsable", "-w", self.name, "-o", "/dev/null", *options]
        job = slurm.run_in_root(*argv, "--wrap", script).strip()
        self.until(lambda: slurm.squeue("-h", "-j", job, "-o", "%T").strip() == "RUNNING")
        return job

    def cancel(self, job: str) -> None:
        self.bed.slurm.run_in_root("scancel", job)

    @property
    def pod(self) -> Any:
        return self.bed.kube.pod(self.pod_name, NAMESPACE)

    @property
    def pod_if_any(self) -> Any:
        return self.bed.kube.pod_if_any(self.pod_name, NAMESPACE)

    @property
    def node(self) -> Any:
        return self.bed.kube.node(self.name)

    @property
    def pod_states(self) -> dict[str, Any]:
        """Return the conditions SlurmNodeState… of the Pod, without the prefix."""
        return _ours(self.pod, "SlurmNodeState")

    @property
    def node_conditions(self) -> dict[str, str]:
        """Return the status of conditions Slurm… of the Node, without the prefix."""
        return {kind: one["status"] for kind, one in _ours(self.node, "Slurm").items()}

    def cordon(self, *, reason: str | None = None) -> None:
        if reason is not None:
            self.annotate_node(**{"cordon-reason": reason})
        self.bed.kube.cordon(self.name)

    @property
    def cordoned(self) -> bool:
        return bool(self.node["spec"].get("unschedulable"))

    def uncordon(self) -> None:
        self.bed.kube.cordon(self.name, unschedulable=False)

    def annotate_pod(self, **annotations: str | None) -> None:
        self.bed.kube.annotate_pod(self.pod_name, NAMESPACE, prefixed(annotations))

    def annotate_node(self, **annotations: str | None) -> None:
        self.bed.kube.annotate_node(self.name, prefixed(annotations))

    def annotation(self, name: str) -> tuple[str | None, str | None]:
        """Return an annotation of ours on the Pod and on the Node."""
        return annotation(self.pod, name), annotation(self.node, name)

    def set_pod_condition(self, kind: str, status: str) -> None:
        condition = kube_objects.condition(kind, status)
        self.bed.kube.patch_pod_status(self.pod_name, NAMESPACE, {"conditions": [condition]})

    def set_pod_ready(self, *, ready: bool) -> None:
        self.bed.kube.set_pod_ready(self.pod_name, NAMESPACE, ready=ready)

    def set_node_ready(self, *, ready: bool) -> None:
        self.bed.kube.set_node_ready(self.name, ready=ready)

    def delete_pod(self, *, slowly: bool = False) -> None:
        """Delete the Pod; `slowly`: it stays terminating until `let_pod_end`."""
        if slowly:
            self.bed.kube.annotate_pod(self.pod_name, NAMESPACE, {"testbed/end-delay-s": "inf"})
        self.bed.kube.delete_pod(self.pod_name, NAMESPACE)

    def let_pod_end(self) -> None:
        self.bed.kube.annotate_pod(self.pod_name, NAMESPACE, {"testbed/end-delay-s": "0"})

    def create_pod(self, **more: Any) -> None:
        """Create the slurmd Pod again, or another one with a name."""
        self.bed.kube.create(kube_objects.slurmd_pod(self.name, **more))

    def events(self) -> str:
        """Return the Events of the Pod and of the Node, as `kubectl describe` shows them."""
        kubectl = self.bed.kube.kubectl
        pod = kubectl("describe", "pod", "-n", NAMESPACE, self.pod_name)
        return pod + kubectl("describe", "node", self.name)


def _ours(an_object: Object, prefix: str) -> dict[str, Any]:
    return {
        kind.removeprefix(prefix): one
        for kind, one in kube_objects.conditions(an_object).items()
        if kind.startswith(prefix)
    }


def annotation(an_object: Object, name: str) -> str | None:
    """Return an annotation of ours."""
    value = an_object["metadata"].get("annotations", {}).get(PREFIX + name)
    return None if value is None else str(value)


def prefixed(annotations: Mapping[str, Text]) -> dict[str, Text]:
    """Spell annotations of ours, given without prefix and with `_` for `-`, in full."""
    return {PREFIX + name.replace("_", "-"): value for name, value in annotations.items()}


class Stage(Closing):
    """`serve` starts the one service, `take` returns an unused host."""

    def __init__(self, slurm: str, *, hosts: int = HOSTS, crowd: int = 0) -> None:
        """`crowd`: hosts without a slurmd, for operations on many at once; tests reuse them."""
        self.hosts = hosts
        self.crowd_size = crowd
        conf = self.conf()
        self.bed = Bed.start(slurm=slurm, conf=conf)
        self.crowd = [Host(self.bed, name) for name in conf.external_names]
        self._fresh: Iterator[str] = iter(conf.slurmd_names)
        self.service: Service | None = None
        """The running one."""
        try:
            install(self.bed)
        except BaseException:
            self.close()
            raise

    def conf(self) -> SlurmConf:
        return SlurmConf(
            slurmds=self.hosts, external_nodes=self.crowd_size, gpus=2, extra_lines=CONF
        )

    def settings(self, flags: Mapping[str, str]) -> dict[str, str]:
        return {**QUICK, **flags}

    @property
    def version(self) -> str:
        return self.bed.slurm.version

    def take(self) -> Host:
        name = next(self._fresh, None)
        assert name is not None, "all hosts of the stage are used: raise STAGE_HOSTS of the module"
        return Host(self.bed, name)

    def serve(self, **flags: str) -> Service:
        """Return the service with these settings on top of QUICK; start it unless it runs."""
        wanted = self.settings(flags)
        service = self.service
        if service is not None and service.flags == wanted and service.running:
            return service
        self.quit()
        self.service = Service(self.bed, **wanted)
        return self.service.start().wait_ready().settle()

    def quit(self) -> None:
        if self.service is not None:
            self.service.kill9()
            self.service = None

    def close(self) -> None:
        self.quit()
        self.bed.close()
