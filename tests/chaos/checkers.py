"""The checkers: each is given every view of both sides and reports what must never be.

They know which faults are active only through `calm_s`: for how long there has been none.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tests.chaos.views import JobRow, KubeView, PodRow, SlurmView

ENDED_JOB_S = 20.0
"""A Pod follows its ended job within this calm time, and a job its last Pod (P13, P16, P21)."""
LOST_JOB_S = 110.0
"""Two listings 30 s apart, none in slurmctld's first 60 s (P30), and time to end.

So long slurmctld may also take to end a job whose script it did not launch before it was killed.
"""
WAITING_S = 20.0
"""A Pod has a job, and the Node of a job that has started, within this calm time."""
PAUSE_S, PAUSE_MAX_S = 5.0, 300.0
"""The pause after a job that Slurm ended doubles with each that it still remembers (P17)."""
SUBMISSIONS_MAX = 5
"""A minute and workload (P32); a process that has just started does not know the earlier ones."""
MINUTE_S = 60.0
CLOCK_S = 0.05
EXPECTED_ERRORS = {"lost the Lease: this process ends", "source cannot be read for a long time"}
REPAIRED = "repaired"
PROLOG_ERRORS = {"Prolog error", REPAIRED}
"""slurmd may report one failure every 15 s for minutes: each time slurmctld drains its host.

24.11 keeps the reason with which the operator freed it.
"""
BEFORE_MAX = 64
"""Reads of Kubernetes that can end during one read of Slurm."""


class Violation(NamedTuple):
    checker: str
    at_s: float
    text: str

    def __str__(self) -> str:
        return f"{self.checker} at {self.at_s:.1f} s: {self.text}"


class Sides:
    """A read of Slurm between two reads of Kubernetes: what both of these show was so meanwhile."""

    def __init__(self, before: KubeView, slurm: SlurmView, after: KubeView) -> None:
        self.slurm = slurm
        self.at_s = slurm.answered_s
        self.kube = after
        both = (*before.pods.values(), *after.pods.values())
        self.unended = {pod.uid for pod in both if not pod.ended}
        """UIDs of Pods that may have existed and not ended."""
        self.waiting = {
            uid: pod
            for uid, pod in after.pods.items()
            if pod.waits and uid in before.pods and before.pods[uid].waits
        }
        self.live = {
            uid: pod
            for uid, pod in after.pods.items()
            if pod.alive and uid in before.pods and before.pods[uid].alive
        }
        """Pods that were bound and alive all the time."""
        self.jobs_of: defaultdict[str, list[JobRow]] = defaultdict(list)
        for job in slurm.jobs:
            for uid in job.pods:
                self.jobs_of[uid].append(job)


class Pairing:
    """Brings each read of Slurm together with the reads of Kubernetes around it."""

    def __init__(self) -> None:
        self._before: deque[KubeView] = deque(maxlen=BEFORE_MAX)
        self._waiting: list[tuple[KubeView, SlurmView]] = []

    def see_kube(self, view: KubeView) -> Iterator[Sides]:
        ready = [one for one in self._waiting if one[1].answered_s <= view.asked_s]
        self._waiting = [one for one in self._waiting if one[1].answered_s > view.asked_s]
        self._before.append(view)
        for before, slurm in ready:
            yield Sides(before, slurm, view)

    def see_slurm(self, view: SlurmView) -> None:
        earlier = [one for one in self._before if one.answered_s <= view.asked_s]
        if earlier:
            self._waiting.append((earlier[-1], view))


class Allocations:
    """No host is given away twice: its live Pods and the users' running jobs fit on it.

    A placeholder uses nothing itself. One may run beside the Pod of another: that Pod's end is
    awaited before the next Pod is bound (P11), and a slurmctld that lost its last seconds shows
    ended jobs as running. So a job whose end was seen does not count.
    """

    name = "double allocation"

    def __init__(self) -> None:
        self._ended: set[tuple[str, float]] = set()

    def check(self, sides: Sides, calm_s: float) -> Iterator[str]:  # noqa: ARG002
        self._ended |= {job.body for job in sides.slurm.jobs if not job.live}
        demand: defaultdict[str, dict[str, float]] = defaultdict(dict)
        for pod in sides.live.values():
            demand[pod.node][f"Pod {pod.name}"] = pod.cpus
        for job in sides.slurm.jobs:
            runs = job.runs and not job.pods and job.body not in self._ended
            for host in job.hosts if runs else ():
                demand[host][f"job {job.job_id} {job.name}"] = job.cpus_per_host
        for host, parts in demand.items():
            node = sides.slurm.nodes.get(host)
            if node is not None and sum(parts.values()) > node.cpus:
                told = ", ".join(f"{name}: {cpus:g}" for name, cpus in sorted(parts.items()))
                yield f"{host} has {node.cpus:g} CPUs, in use: {told}"


class Timed:
    """Subclasses say what is wrong; it may be so for a while, in which nothing is disturbed."""

    name = ""

    def __init__(self, *, slack: float = 1.0) -> None:
        """`slack`: how many times slower than usual this machine is."""
        self._slack = slack
        self._calm_since_s: dict[str, float] = {}
        self.noticed = 0
        """How many were seen, whether for a moment or for long."""
        self.longest_s: float = 0.0
        self._told: set[str] = set()

    def wrong(self, sides: Sides) -> Iterator[tuple[str, float]]:
        """Yield what is wrong and for how many calm seconds it may be."""
        raise NotImplementedError

    def check(self, sides: Sides, calm_s: float) -> Iterator[str]:
        """Count from when it was first seen, or from the end of the last fault."""
        wrong = dict(self.wrong(sides))
        self.noticed += len(wrong.keys() - self._calm_since_s.keys())
        self._calm_since_s = {
            text: max(self._calm_since_s.get(text, sides.at_s), sides.at_s - calm_s)
            for text in wrong
        }
        for text, limit_s in wrong.items():
            since_s = sides.at_s - self._calm_since_s[text]
            self.longest_s = max(self.longest_s, since_s)
            if since_s > limit_s * self._slack and text not in self._told:
                self._told.add(text)
                yield f"{text}, for {since_s:.0f} calm seconds"


class LonelyPods(Timed):
    """A bound Pod has a live job that holds its Node."""

    name = "Pod without job"

    def wrong(self, sides: Sides) -> Iterator[tuple[str, float]]:
        for uid, pod in sides.live.items():
            jobs = sides.jobs_of[uid]
            if pod.terminating or any(pod.node in job.hosts for job in jobs if job.live):
                continue
            known = ", ".join(_told(job) for job in jobs)
            limit_s = ENDED_JOB_S if jobs else LOST_JOB_S
            yield f"Pod {pod.name} on {pod.node} has no job there ({known or 'no record'})", limit_s


class LonelyJobs(Timed):
    """A live placeholder has a Pod that has not ended."""

    name = "job without Pod"

    def wrong(self, sides: Sides) -> Iterator[tuple[str, float]]:
        for job in sides.slurm.jobs:
            if job.live and job.pods and not job.pods & sides.unended:
                yield f"no Pod of {_told(job)} is left", ENDED_JOB_S


class WaitingPods(Timed):
    """A waiting Pod has a job, its job starts if there is room, and then it is bound."""

    name = "Pod stuck"

    def wrong(self, sides: Sides) -> Iterator[tuple[str, float]]:
        room = _has_room(sides)
        for pod in stuck(sides.kube):
            if pod.uid not in sides.waiting:
                continue
            jobs = sides.jobs_of[pod.uid]
            live = [job for job in jobs if job.live]
            if not live:
                ended = len(jobs)
                pause_s = min(PAUSE_MAX_S, PAUSE_S * 2.0 ** (ended - 1)) if ended else 0.0
                yield f"Pod {pod.name} has no job, after {ended}", WAITING_S + pause_s
            elif any(job.hosts for job in live):
                limit_s = WAITING_S if any(job.began for job in live) else LOST_JOB_S
                yield f"Pod {pod.name} is not bound, and has {_told(live[0])}", limit_s
            elif room:
                yield f"Pod {pod.name} waits beside free hosts", WAITING_S


def stuck(kube: KubeView) -> Iterator[PodRow]:
    """Yield the Pods that wait and that nothing in Kubernetes keeps waiting.

    A gang waits for Pods that its Job has yet to make, and for the earlier ones that still run. If
    its Job is gone it waits for the garbage collector, and after a person's cancel for a person.
    """
    running = {pod.owner for pod in kube.pods.values() if pod.alive}
    for pod in kube.pods.values():
        waits_for_others = pod.gang and (pod.owner in running or pod.owner not in kube.complete)
        if pod.waits and not pod.cancelled and not waits_for_others:
            yield pod


def _has_room(sides: Sides) -> bool:
    """Whether there is a free host for each waiting Pod and each plain job that may start."""
    used = {pod.node for pod in sides.kube.pods.values() if not pod.ended} | sides.kube.cordoned
    for job in sides.slurm.jobs:
        used |= job.hosts if "COMPLETING" in job.states or job.live else frozenset()
    free = [one for one in sides.slurm.nodes.values() if one.states == {"IDLE"}]
    plain = sum(job.live and not (job.pods or job.hosts or job.held) for job in sides.slurm.jobs)
    waiting = sum(pod.waits for pod in sides.kube.pods.values())
    return len([one for one in free if one.name not in used]) >= waiting + plain


class FalseCancels:
    """A Pod waits for a person only after a person cancelled its job."""

    name = "false cancel"

    def __init__(self, cancelled: Callable[[], Iterable[str]]) -> None:
        """`cancelled`: ids of the jobs that users cancelled so far."""
        self._cancelled = cancelled

    def check(self, view: KubeView) -> Iterator[str]:
        known = set(self._cancelled())
        for pod in view.pods.values():
            if pod.waits and pod.cancelled and pod.cancelled not in known:
                yield f"Pod {pod.name} waits: job {pod.cancelled}, which nobody cancelled"


def _told(job: JobRow) -> str:
    where = ",".join(sorted(job.hosts))
    return f"job {job.job_id} {'+'.join(sorted(job.states))} {where}".strip()


class HumanDrains:
    """A drain of a human stays as it is until the human lifts it."""

    name = "human drain"

    def __init__(self) -> None:
        self._drains: dict[str, tuple[str, float]] = {}

    def drained(self, host: str, *, reason: str, at_s: float) -> None:
        """Slurm has confirmed the drain."""
        self._drains[host] = reason, at_s

    def lifting(self, host: str) -> None:
        """The human is about to lift it."""
        self._drains.pop(host, None)

    def lost(self, *, since_s: float) -> None:
        """slurmctld was killed: it may have lost what it did not save since then."""
        self._drains = {host: one for host, one in self._drains.items() if one[1] < since_s}

    @property
    def hosts(self) -> list[str]:
        return sorted(self._drains)

    def check(self, view: SlurmView) -> Iterator[str]:
        for host, (reason, since_s) in list(self._drains.items()):
            node = view.nodes.get(host)
            if node is None or view.asked_s < since_s:
                continue
            if "DRAIN" not in node.states or node.reason != reason:
                state = "+".join(sorted(node.states))
                yield f"{host} was drained as {reason!r} and is {state} {node.reason!r}"


class Submissions:
    """No workload gets more than a few jobs a minute."""

    name = "submissions"

    def __init__(self, starts: Callable[[], Sequence[float]]) -> None:
        """`starts`: when each process of sunk-sync was started so far, in wall clock."""
        self._starts = starts
        self._known: set[tuple[str, float]] = set()
        self._of: defaultdict[str, deque[float]] = defaultdict(deque)
        self.most = 0

    def check(self, view: SlurmView) -> Iterator[str]:
        for job in sorted(view.jobs, key=lambda one: one.submitted_s):
            key = job.name, job.submitted_s
            if not job.pods or key in self._known:
                continue
            self._known.add(key)
            for uid in job.pods:
                yield from self._count(uid, job)

    def _count(self, uid: str, job: JobRow) -> Iterator[str]:
        times, now_s = self._of[uid], job.submitted_s
        times.append(now_s)
        while times[0] < now_s - MINUTE_S:
            times.popleft()
        starts = sum(now_s - MINUTE_S <= one <= now_s + 1 for one in self._starts())
        self.most = max(self.most, len(times))
        if len(times) > SUBMISSIONS_MAX * (1 + starts):
            yield f"{job.name} is submission {len(times)} of its workload within a minute"


class Write(NamedTuple):
    wall_s: float
    writer: str
    what: str


class OneWriter:
    """Between two changes of the Lease only its holder writes."""

    name = "one writer"

    def __init__(self) -> None:
        self._epochs: list[tuple[float, str]] = []
        """When each holder acquired the Lease."""
        self.writes = 0

    def see_kube(self, view: KubeView) -> None:
        epoch = view.acquired_s, view.holder
        if view.holder and epoch not in self._epochs:
            self._epochs.append(epoch)

    @property
    def changes(self) -> int:
        return max(0, len(self._epochs) - 1)

    def check(self, writes: Iterable[Write], owner_of: Callable[[str], str]) -> Iterator[str]:
        """`owner_of`: the writer behind the holder of a Lease; empty: not known."""
        epochs = sorted(self._epochs)
        for write in writes:
            self.writes += 1
            around = {_epoch(epochs, write.wall_s + off) for off in (-CLOCK_S, CLOCK_S)}
            owners = {owner_of(holder) for _, holder in around}
            if not {"", write.writer} & owners:
                at_s, holder = min(around)
                late = f"{write.wall_s - at_s:.2f} s after {holder} got the Lease"
                yield f"{write.writer} wrote {write.what}, {late}"


def _epoch(epochs: Sequence[tuple[float, str]], wall_s: float) -> tuple[float, str]:
    """Return since when who holds the Lease at this moment; no name: nobody has had it yet."""
    return next((one for one in reversed(epochs) if one[0] <= wall_s), (0.0, ""))


def alarming(lines: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the errors in a log that no fault explains, and what is no line of the log."""
    for line in lines:
        unknown = line.get("level") == "error" and line["event"] not in EXPECTED_ERRORS
        if unknown or line["event"] == "not JSON":
            yield ", ".join(f"{name}: {value}" for name, value in line.items())


def unconverged(kube: KubeView, slurm: SlurmView) -> list[str]:
    """Return what is not yet as it must be when nothing is disturbed and every host is free."""
    return [
        *(f"{name} is cordoned" for name in sorted(kube.cordoned)),
        *(
            f"Slurm node {node.name} is {'+'.join(sorted(node.states))} {node.reason!r}"
            for node in slurm.nodes.values()
            if {"DRAIN", "DOWN", "FAIL", "NOT_RESPONDING"} & node.states
            and node.reason not in PROLOG_ERRORS
        ),
        *_unsettled_pods(kube, slurm),
        *(
            f"{_told(job)} is left"
            for job in slurm.jobs
            if job.live and job.pods and not job.pods & kube.pods.keys()
        ),
    ]


def _unsettled_pods(kube: KubeView, slurm: SlurmView) -> Iterator[str]:
    running: defaultdict[str, list[JobRow]] = defaultdict(list)
    for job in slurm.jobs:
        for uid in job.pods if job.live else ():
            running[uid].append(job)
    for uid, pod in kube.pods.items():
        jobs = running[uid]
        if pod.phase in ("Succeeded", "Failed"):
            if jobs:
                yield f"Pod {pod.name} has ended, and its {_told(jobs[0])} has not"
        elif not (pod.node and pod.ready) or pod.terminating:
            yield f"Pod {pod.name} is not ready on a Node"
        elif len(jobs) != 1 or pod.node not in jobs[0].hosts or not jobs[0].runs:
            yield f"Pod {pod.name} on {pod.node} has {[_told(one) for one in jobs]}"
