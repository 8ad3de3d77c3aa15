"""A Slurm with many partitions, and jobs on it, made through its slurmrestd."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import pytest

from sunk_sync.core.translate.pending import in_words
from tests.real.testbed import SlurmConf, SlurmServer
from tests.real.testbed.sandbox import wait_until

BOTH = ("24.11", "26.05")
NEW, OLD = ("26.05",), ("24.11",)
EXTRA_LINES = (
    "Licenses=matlab:1",
    "SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1",
    "MaxArraySize=10",
)
CONF = SlurmConf(
    slurmds=3,
    gpus=2,
    partitions=(
        "PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP",
        "PartitionName=short Nodes=ALL MaxTime=5 State=UP",
        "PartitionName=small Nodes=ALL MaxNodes=1 State=UP",
        "PartitionName=tight Nodes=ALL MaxMemPerNode=1000 MaxCPUsPerNode=4 State=UP",
        "PartitionName=one Nodes=n1 State=UP",
        "PartitionName=two Nodes=n2 State=UP",
        "PartitionName=off Nodes=ALL State=DOWN",
        "PartitionName=drained Nodes=ALL State=DRAIN",
        "PartitionName=inactive Nodes=ALL State=INACTIVE",
        "PartitionName=members Nodes=ALL AllowGroups=games State=UP",
        "PartitionName=reserved Nodes=ALL ReqResv=YES State=UP",
        "PartitionName=root Nodes=ALL RootOnly=YES State=UP",
    ),
    extra_lines=EXTRA_LINES,
)
ALICE: Mapping[str, Any] = {"user_id": "1001", "group_id": "1001"}
"""A user whom the host of Slurm does not know."""
SLEEP = "#!/bin/sh\nexec sleep 600\n"
Fields = Mapping[str, Any]
Key = TypeVar("Key")


def number(value: int) -> Fields:
    """Spell a number as v0.0.42 and later require it."""
    return {"set": True, "number": value}


class Jobs:
    """Makes jobs through slurmrestd, and reads why they wait."""

    def __init__(self, slurm: SlurmServer) -> None:
        self.slurm = slurm

    def call(self, method: str, path: str, body: Any = None) -> Any:
        return self.slurm.rest.call(method, self.slurm.path(path), body)

    def submit(self, *, script: str = SLEEP, **fields: Any) -> int:
        """Submit a job and return its id. RestError if Slurm refuses it."""
        body = {"script": script, **described(fields)}
        return int(self.call("POST", "job/submit", body)["job_id"])

    def allocate(self, **fields: Any) -> int:
        """Allocate a job at once and return its id. RestError if it cannot start."""
        body = described({"immediate": True, **fields})
        return int(self.call("POST", "job/allocate", body)["job_id"])

    def update(self, job: int, **fields: Any) -> None:
        self.call("POST", f"job/{job}", fields)

    def cancel_all(self) -> None:
        known = self.call("GET", "jobs/state/")["jobs"]
        # A started task of an array is spelled <its own id>_<task>; a cancel does not accept that.
        ids = {job["job_id"].partition("_")[0] for job in known if _lives(job["state"])}
        if ids:
            self.call("DELETE", "jobs/", {"jobs": sorted(ids)})
        self.until(lambda: not self.nodes_in_use(), "all nodes free")

    def nodes_in_use(self) -> bool:
        states = self.slurm.states().values()
        return any({"ALLOCATED", "MIXED", "COMPLETING"} & set(state) for state in states)

    def reasons(self, job: int) -> set[str]:
        return {one["state_reason"] for one in self.call("GET", f"job/{job}")["jobs"]}

    def until_it_waits(self, job: int, reason: str) -> None:
        self.until(lambda: reason in self.reasons(job), f"job {job} with reason {reason}")

    def runs(self, job: int) -> bool:
        return self._is(job, "RUNNING")

    def ended(self, job: int) -> bool:
        return self._is(job, "FAILED", "CANCELLED", "COMPLETED")

    def _is(self, job: int, *states: str) -> bool:
        return bool(set(states) & set(self.call("GET", f"job/{job}")["jobs"][0]["job_state"]))

    def until(self, claim: Callable[[], bool], what: str) -> None:
        wait_until(claim, what, deadline_s=20)

    def running(self, **fields: Any) -> int:
        job = self.submit(**fields)
        self.until(lambda: self.runs(job), f"job {job} runs")
        return job

    def reserve(self, name: str, *what: str) -> None:
        argv = ("create", "reservation", f"ReservationName={name}", "Duration=60", *what)
        self.slurm.scontrol(*argv)

    def reconfigure(self, *lines: str) -> None:
        """Reconfigure with the same partitions and these lines instead of EXTRA_LINES."""
        self.slurm.reconfigure(replace(CONF, extra_lines=lines))


@dataclass(frozen=True)
class Scene:
    """What a real Slurm answers, and `play`, which yields it with the job or request for it."""

    expected: tuple[Any, ...]
    play: Callable[[Jobs], Iterable[tuple[Any, Any]]]
    versions: tuple[str, ...] = BOTH

    def pairs(self, jobs: Jobs) -> Iterator[tuple[Any, Any]]:
        """Play it; at the end check that nothing is missing. Skip it for other versions."""
        if jobs.slurm.version not in self.versions:
            pytest.skip(f"not of {jobs.slurm.version}")
        played = set()
        for answer, what in self.play(jobs):
            yield answer, what
            played.add(answer)
        assert played == set(self.expected)


class Scenes(list[Scene]):
    """A decorator of scenes, and their list."""

    def add(self, *expected: Any, versions: tuple[str, ...] = BOTH) -> Callable[[Any], None]:
        return lambda play: self.append(Scene(expected, play, versions))

    def versions(self) -> Iterator[tuple[Any, tuple[str, ...]]]:
        yield from ((answer, scene.versions) for scene in self for answer in scene.expected)


def check_reasons(jobs: Jobs, scene: Scene) -> None:
    """Check that each job of the scene waits or ended for its reason, and our text for it."""
    for reason, job in list(scene.pairs(jobs)):
        jobs.until_it_waits(job, reason)
        assert not in_words(reason).text.startswith("Slurm gives the reason")


def _lives(state: Sequence[str]) -> bool:
    return bool({"PENDING", "RUNNING"} & set(state))


def described(fields: Fields) -> Fields:
    """Return a description that submit and allocate accept, with these fields."""
    asked = {"environment": ["A=b"], "name": "w", "time_limit": number(3), **fields}
    return {"job": {"current_working_directory": "/tmp", **asked}}


def versions_by(pairs: Iterable[tuple[Key, tuple[str, ...]]]) -> dict[Key, frozenset[str]]:
    """Return all versions of each key."""
    found: dict[Key, frozenset[str]] = {}
    for key, versions in pairs:
        found[key] = found.get(key, frozenset()) | set(versions)
    return found
