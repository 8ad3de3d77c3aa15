"""Reads both sides all the time, over its own connections, and hands each view to the checkers."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime
from functools import partial
from http.client import HTTPConnection, HTTPException
from typing import Any

from tests.chaos.checkers import (
    Allocations,
    FalseCancels,
    HumanDrains,
    LonelyJobs,
    LonelyPods,
    OneWriter,
    Pairing,
    Submissions,
    Violation,
    WaitingPods,
)
from tests.chaos.retries import BATCH
from tests.chaos.views import KubeView, SlurmView, is_complete, job_row, pod_row, slurm_node_row
from tests.chaos.world import World
from tests.real.pod_bed import SCHEDULER
from tests.real.service import NAMESPACE
from tests.real.testbed import RestError
from tests.real.testbed.closing import Closing
from tests.real.testbed.rest import Rest

EVERY_S = 0.4
AWAY_STATES = {"DRAIN", "DOWN", "FAIL", "NOT_RESPONDING"}
UNREADABLE = (OSError, HTTPException, RestError, ValueError, KeyError)
"""A server is away, or says so."""
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods?fieldSelector=spec.schedulerName%3D{SCHEDULER}"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/sunk-sync-slurm"
HOOKS_ADDRESS = "sunk.coreweave.com/hooks-address"


class Observer(Closing):
    """A thread for each side. `violations` has each text once."""

    def __init__(self, world: World, *, calm_s: Callable[[], float], elects: bool) -> None:
        self._bed = bed = world.bed
        self._calm_s = calm_s
        self._elects = elects
        self.allocations = Allocations()
        self.pods, self.jobs = LonelyPods(slack=world.slack), LonelyJobs(slack=world.slack)
        self.waiting = WaitingPods(slack=world.slack)
        self.cancelled: set[str] = set()
        """Ids of jobs of Pods that a user cancelled, or tried to."""
        self._false_cancels = FalseCancels(lambda: list(self.cancelled))
        self.submissions = Submissions(world.starts)
        self.humans, self.writer = HumanDrains(), OneWriter()
        self._pairing = Pairing()
        self._lock = threading.Lock()
        self.kube: KubeView | None = None
        self.slurm: SlurmView | None = None
        self.views = {"kube": 0, "slurm": 0, "both": 0}
        self.bound: set[str] = set()
        """UIDs of Pods that were seen bound."""
        self.seen_jobs: set[str] = set()
        self.violations: dict[str, Violation] = {}
        self.failure: BaseException | None = None
        self._begun_s = time.monotonic()
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=side, daemon=True)
            for side in ((bed.kube.rest, self._see_kube), (bed.slurm.rest, self._see_slurm))
        ]
        for thread in self._threads:
            thread.start()

    def _run(self, rest: Rest, see: Callable[[Callable[[str], Any]], None]) -> None:
        over: HTTPConnection | None = None
        while not self._stop.wait(EVERY_S):
            try:
                over = over or rest.connect()
                see(partial(_get, rest, over))
            except UNREADABLE:
                if over is not None:
                    over.close()
                over = None
            except BaseException as error:  # noqa: BLE001 - raised by close
                self.failure = error
                return

    def _see_kube(self, get: Callable[[str], Any]) -> None:
        asked_s = time.monotonic()
        jobs = get(BATCH)["items"]
        pods = [pod_row(one) for one in get(PODS)["items"]]
        answered_s = time.monotonic()
        holder, acquired_s = self._lease(get) if self._elects else ("", 0.0)
        cordoned = [
            one["metadata"]["name"]
            for one in get("/api/v1/nodes")["items"]
            if one["spec"].get("unschedulable")
        ]
        view = KubeView(
            asked_s=asked_s,
            answered_s=answered_s,
            pods={pod.uid: pod for pod in pods},
            cordoned=frozenset(cordoned),
            complete=frozenset(one["metadata"]["uid"] for one in jobs if is_complete(one)),
            holder=holder,
            acquired_s=acquired_s,
        )
        with self._lock:
            self.kube = view
            self.views["kube"] += 1
            self.bound |= {pod.uid for pod in pods if pod.node}
            self.writer.see_kube(view)
            self.report(self._false_cancels.name, self._false_cancels.check(view))
            for sides in self._pairing.see_kube(view):
                self.views["both"] += 1
                for checker in (self.allocations, self.pods, self.jobs, self.waiting):
                    self.report(checker.name, checker.check(sides, self._calm_s()))

    def _lease(self, get: Callable[[str], Any]) -> tuple[str, float]:
        with suppress(RestError, KeyError):
            lease = get(LEASE)
            address = (lease["metadata"].get("annotations") or {}).get(HOOKS_ADDRESS, "")
            if lease["spec"]["holderIdentity"] and address:
                acquired = datetime.fromisoformat(lease["spec"]["acquireTime"])
                return f"{lease['spec']['holderIdentity']} at {address}", acquired.timestamp()
        return "", 0.0

    def _see_slurm(self, get: Callable[[str], Any]) -> None:
        asked_s = time.monotonic()
        jobs = tuple(job_row(one) for one in get(self._bed.slurm.path("jobs/"))["jobs"])
        nodes = [slurm_node_row(one) for one in get(self._bed.slurm.path("nodes/"))["nodes"]]
        view = SlurmView(
            asked_s=asked_s,
            answered_s=time.monotonic(),
            jobs=jobs,
            nodes={node.name: node for node in nodes},
        )
        with self._lock:
            self.slurm = view
            self.views["slurm"] += 1
            self.seen_jobs |= {job.job_id for job in jobs if job.pods}
            self._pairing.see_slurm(view)
            self.report(self.humans.name, self.humans.check(view))
            self.report(self.submissions.name, self.submissions.check(view))

    def report(self, checker: str, found: Iterator[str]) -> None:
        for text in found:
            if text not in self.violations:
                violation = Violation(checker, time.monotonic() - self._begun_s, text)
                self.violations[text] = violation
                print(f"VIOLATION {violation}", flush=True)

    def now(self) -> str:
        """Say in one line how busy both sides are."""
        with self._lock:
            kube, slurm, bound = self.kube, self.slurm, len(self.bound)
        if kube is None or slurm is None:
            return "nothing was read yet"
        waiting = sum(not pod.node for pod in kube.pods.values())
        away = [one.name for one in slurm.nodes.values() if AWAY_STATES & one.states]
        plain = sum(one.runs and not one.pods for one in slurm.jobs)
        return (
            f"{bound} Pods were bound, {waiting} wait, {plain} plain jobs run,"
            f" drained or down: {','.join(away) or 'none'}"
        )

    def close(self) -> None:
        """End; raise the exception of a thread."""
        self._stop.set()
        for thread in self._threads:
            thread.join()
        if self.failure is not None:
            raise self.failure


def _get(rest: Rest, over: HTTPConnection, path: str) -> Any:
    return rest.call("GET", path, over=over)
