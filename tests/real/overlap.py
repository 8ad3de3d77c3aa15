"""Sampler of both sides every 40 ms: does a job run beside a live Pod of another job?

A job runs from the start of its body: RUNNING without CONFIGURING, which the gate's prolog causes.
The script itself records this second, too. A Pod lives until its containers have ended: phase
Succeeded or Failed, or gone.
"""

import statistics
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPConnection
from itertools import pairwise

from tests.real.pod_bed import SCHEDULER, PodBed
from tests.real.service import NAMESPACE
from tests.real.testbed.rest import Rest

EVERY_S = 0.04
LIVING = (
    f"/api/v1/namespaces/{NAMESPACE}/pods?includeObject=None&fieldSelector="
    f"spec.schedulerName={SCHEDULER},spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
)
"""Our bound Pods whose containers have not ended."""
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
"""As `kubectl get` requests it: a thirtieth of the size and time of a listing."""


@dataclass
class Duel:
    """A Pod that ends on a host, and the other job that waits for the host.

    Of each change two samples are kept: the last one before and the first one after it. Between
    request and response of a read the state was as it says.
    """

    pod: str
    host: str
    job: str = ""
    """Id of the other job."""
    last_live_s: float = 0.0
    """Wall clock at the request of the last read in which the Pod lived."""
    gone_s: float = 0.0
    """Wall clock at the response of the first read without the live Pod."""
    ran_s: float = 0.0
    """Wall clock at the response of the first read in which the job ran."""
    began_s: float | None = None
    """Start that the job's script recorded."""

    @property
    def over(self) -> bool:
        return self.gone_s > 0 and self.ran_s > 0 and self.began_s is not None

    @property
    def overlap_s(self) -> float:
        """Minimum overlap in seconds: both were seen at the same time."""
        assert self.began_s is not None
        return max(self.last_live_s - min(self.began_s, self.ran_s), 0.0)

    @property
    def overlap_at_most_s(self) -> float:
        """Maximum overlap, if the Pod lived until the response without it."""
        assert self.began_s is not None
        return max(self.gone_s - self.began_s, self.overlap_s)

    @property
    def idle_s(self) -> float:
        """From the end of the Pod to the start of the job: the cost of safety."""
        assert self.began_s is not None
        return max(0.0, self.began_s - self.gone_s)


class Sampler:
    """A thread for each side, so that neither waits for the other; `duels` may grow."""

    def __init__(self, bed: PodBed) -> None:
        self.bed = bed
        self.duels: list[Duel] = []
        self.asked: dict[str, list[float]] = {}
        """Side → wall clock of each sample."""
        self.failure: BaseException | None = None
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(side, read), daemon=True)
            for side, read in (("Pods", self._see_pods), ("jobs", self._see_jobs))
        ]

    def __enter__(self) -> "Sampler":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        if self.failure is not None:
            raise self.failure

    def summary(self) -> str:
        return "; ".join(f"{side}: {spacing(asked)}" for side, asked in self.asked.items())

    def _run(self, side: str, see: Callable[[HTTPConnection, float], None]) -> None:
        asked = self.asked.setdefault(side, [])
        try:
            with closing(self._rest(side).connect()) as over:
                while not self._stop.is_set():
                    asked.append(time.time())
                    see(over, asked[-1])
                    self._stop.wait(max(0.0, asked[-1] + EVERY_S - time.time()))
        except BaseException as error:  # noqa: BLE001 - raised by __exit__
            self.failure = error

    def _rest(self, side: str) -> Rest:
        return self.bed.bed.kube.rest if side == "Pods" else self.bed.bed.slurm.rest

    def _see_pods(self, over: HTTPConnection, asked_s: float) -> None:
        rows = self._rest("Pods").call("GET", LIVING, accept=TABLE, over=over)["rows"]
        answered_s = time.time()
        alive = {row["cells"][0] for row in rows}
        for duel in self.duels:
            if duel.pod in alive:
                duel.last_live_s = asked_s
            elif duel.last_live_s and not duel.gone_s:
                duel.gone_s = answered_s

    def _see_jobs(self, over: HTTPConnection, _: float) -> None:
        path = self.bed.bed.slurm.path("jobs/state/")
        rows = self._rest("jobs").call("GET", path, over=over)["jobs"]
        answered_s = time.time()
        running = {str(row["job_id"]) for row in rows if runs(row["state"])}
        for duel in self.duels:
            if duel.job in running and not duel.ran_s:
                duel.ran_s = answered_s
            if duel.job and duel.began_s is None:
                duel.began_s = self.bed.began(duel.pod)


def spacing(asked: list[float]) -> str:
    gaps_ms = sorted(1000 * (later - earlier) for earlier, later in pairwise(asked))
    p99 = gaps_ms[int(len(gaps_ms) * 0.99)]
    median = statistics.median(gaps_ms)
    return f"{len(asked)} samples, {median:.0f} ms apart (p99 {p99:.0f}, max {gaps_ms[-1]:.0f})"


def runs(state: Iterable[str]) -> bool:
    """Whether the body of the job has started and not ended."""
    return "RUNNING" in set(state) and not {"CONFIGURING", "COMPLETING"} & set(state)
