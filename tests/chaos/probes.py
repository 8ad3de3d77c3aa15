"""Measures drains and bindings on hosts that nobody else uses, one after the other."""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import count

from msgspec import Struct

from tests.bench.figures import percentile
from tests.chaos.traffic import PROBE
from tests.chaos.world import HOSTS, KILL_WAIT_S
from tests.real.pod_bed import PARTITIONS, PodBed, pod_conf
from tests.real.stage import annotation
from tests.real.testbed import RestError, SlurmConf
from tests.real.testbed.closing import Closing

DRAINED, BOUND = f"n{HOSTS + 1}", f"n{HOSTS + 2}"
OFTEN_S = 0.05
PAUSE_S = 0.2
GIVE_UP_S = 60.0


def probe_conf() -> SlurmConf:
    """Return the Slurm of chaos with two hosts more, where no other job runs."""
    others = (one.replace("Nodes=ALL", f"Nodes=n[1-{HOSTS}]") for one in PARTITIONS)
    own = f"PartitionName={PROBE} Nodes={BOUND} MaxTime=INFINITE PriorityTier=20 PreemptMode=OFF"
    conf = pod_conf(HOSTS + 2, kill_wait_s=KILL_WAIT_S)
    return SlurmConf(
        slurmds=conf.slurmds,
        kill_wait_s=conf.kill_wait_s,
        partitions=(*others, own),
        extra_lines=(*conf.extra_lines, "MinJobAge=30"),  # short listings, also for ourselves
    )


class Waited(Struct, frozen=True, kw_only=True):
    name: str
    begun_s: float
    """Monotonic."""
    own_s: float
    """What sunk-sync took: everything but the time for which the job waited in Slurm."""
    total_s: float


class Probes(Closing):
    """Two threads. What never happens counts with `GIVE_UP_S`."""

    def __init__(self, pods: PodBed) -> None:
        self._pods = pods
        self.drains: list[Waited] = []
        """A cordon until the drain, and an uncordon until its end."""
        self.bindings: list[Waited] = []
        """The creation of a Pod until its binding."""
        self._stop = threading.Event()
        self.failure: BaseException | None = None
        self._threads = [
            threading.Thread(target=self._run, args=(one,), daemon=True)
            for one in (self._drain, self._bind)
        ]
        for thread in self._threads:
            thread.start()

    def _run(self, probe: Callable[[int], None]) -> None:
        try:
            for number in count(1):
                if self._stop.wait(PAUSE_S):
                    return
                probe(number)
        except BaseException as error:  # noqa: BLE001 - raised by close
            self.failure = error

    def _drain(self, number: int) -> None:
        cordoned = bool(number % 2)
        begun_s = time.monotonic()
        self._pods.bed.kube.cordon(DRAINED, unschedulable=cordoned)
        while time.monotonic() - begun_s < GIVE_UP_S:
            asked_s = time.monotonic()
            if ("DRAIN" in self._pods.bed.slurm.slurm_node(DRAINED)["state"]) == cordoned:
                break
            time.sleep(OFTEN_S)
        spent_s = asked_s - begun_s
        what = "cordon" if cordoned else "uncordon"
        self.drains.append(Waited(name=what, begun_s=begun_s, own_s=spent_s, total_s=spent_s))

    def _bind(self, number: int) -> None:
        """Slurm's part: while the job is seen waiting. At the gate it has its nodes already."""
        name = f"{PROBE}-{number}"
        begun_s = asked_s = time.monotonic()
        self._pods.make_pod(name, cpus=1, partition=PROBE)
        waiting: list[float] = []
        while asked_s - begun_s < GIVE_UP_S:
            asked_s = time.monotonic()
            pod = self._pods.pod(name)
            if pod["spec"].get("nodeName"):
                break
            submitted_s = self._waits_since(annotation(pod, "job-id"))
            if submitted_s is not None:
                waiting += [min(submitted_s, asked_s), asked_s]
            time.sleep(OFTEN_S)
        theirs_s = waiting[-1] - waiting[0] if waiting else 0.0
        total_s = asked_s - begun_s
        self.bindings.append(
            Waited(name=name, begun_s=begun_s, own_s=total_s - theirs_s, total_s=total_s)
        )
        self._pods.delete_pod(name, grace_s=0)

    def _waits_since(self, job_id: str | None) -> float | None:
        """Return when this job was submitted, None if it does not wait in Slurm.

        A listing of all jobs would be slow. Slurm tells the second, so here is its end.
        """
        if not job_id:
            return None
        slurm = self._pods.bed.slurm
        with suppress(RestError):  # Slurm has forgotten it
            (job,) = slurm.rest.call("GET", slurm.path(f"job/{job_id}"))["jobs"]
            if "PENDING" in job["job_state"]:
                return float(job["submit_time"]["number"]) + 1 - time.time() + time.monotonic()
        return None

    def close(self) -> None:
        """End; raise the exception of a thread."""
        self._stop.set()
        for thread in self._threads:
            thread.join()
        self._pods.bed.kube.cordon(DRAINED, unschedulable=False)
        if self.failure is not None:
            raise self.failure


def told(waits: list[Waited]) -> str:
    """Spell median and maximum of both times."""
    if not waits:
        return "none"
    own, total = [one.own_s for one in waits], [one.total_s for one in waits]
    return (
        f"{len(waits)}, ours p50 {percentile(own, 50):.2f} s, max {max(own):.2f} s;"
        f" in all p50 {percentile(total, 50):.2f} s, max {max(total):.2f} s"
    )
