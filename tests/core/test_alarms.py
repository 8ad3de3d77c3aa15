"""Alarms: jobs whose Pods cannot be read (P21), and placeholders that do not call (L6)."""

from typing import Any

import pytest
from msgspec.structs import replace

from sunk_sync.core.alarms import PATIENCE_S, SilentPlaceholders, kept_jobs
from sunk_sync.core.model.calls import JobNotice
from sunk_sync.core.model.facts import Job, Row
from tests.kit.build import POD, Core, identity, job, room, running

KEPT = running(POD)


def unreadable() -> Core:
    """Make a core where a read of the Pod of this running job failed."""
    core = Core(*room(), KEPT)
    core.wait(1)
    assert not kept_jobs(core.graph)
    core.answer(POD, "unknown")
    assert kept_jobs(core.graph) == [KEPT]
    return core


def test_a_job_is_kept_until_a_read_shows_that_its_pod_is_gone_P21() -> None:
    core = unreadable()
    core.wait(31)
    core.answer(POD, "no")
    assert not kept_jobs(core.graph)


@pytest.mark.parametrize("row", [POD, job(POD, state="CANCELLED", slurm_nodes=("n1",))])
def test_a_job_is_not_kept_once_its_pod_is_listed_or_the_job_ended_P21(row: Row) -> None:
    core = unreadable()
    core.see(row)
    assert not kept_jobs(core.graph)


def test_a_task_whose_namespace_is_not_watched_is_counted_P21() -> None:
    """An array names its Pods by UID alone: nothing can be asked."""
    task = running(POD, job_id="3_0", identity=identity(POD, pods=(), uids=(POD.uid,)))
    assert kept_jobs(Core(*room(), task, watch_namespaces=("other",)).graph) == [task]
    assert not kept_jobs(Core(*room(), task, watch_namespaces=("ns",)).graph)


class Watched:
    """A core with a Pod, and the silent placeholders seen in it."""

    def __init__(self, *jobs: Job, listed: bool = True) -> None:
        self.core = Core(*room(), POD, *jobs) if listed else Core(listed=False)
        self.placeholders = SilentPlaceholders()
        self.silent()

    def silent(self) -> list[str]:
        """Return the ids of the silent jobs now."""
        return [one.job_id for one in self.placeholders.sample(self.core.graph, now=self.core.now)]

    def silent_after(self, seconds: float) -> list[str]:
        self.silent()
        self.core.wait(seconds)
        return self.silent()


def test_a_script_that_runs_without_a_call_is_silent_after_a_while_L6() -> None:
    """It tries again while sunk-sync restarts."""
    watched = Watched()
    watched.core.see(running(POD))
    assert not watched.silent_after(PATIENCE_S - 1)
    assert watched.silent_after(1) == ["7"]


def test_a_script_that_has_called_is_never_silent_L6() -> None:
    """Its call may come before or after its `extra` is read."""
    watched = Watched()
    watched.core.see(running(POD, started=False))
    watched.core.see(JobNotice("7", "started", watched.core.now), running(POD))
    assert not watched.silent_after(PATIENCE_S)


@pytest.mark.parametrize(
    "news", [JobNotice("7", "started", 1100.0), job(POD, state="COMPLETED")], ids=["call", "end"]
)
def test_a_late_call_or_the_end_of_the_job_ends_the_silence_L6(news: JobNotice | Job) -> None:
    watched = Watched()
    watched.core.see(running(POD))
    assert watched.silent_after(PATIENCE_S) == ["7"]
    watched.core.see(news)
    assert not watched.silent()


def test_jobs_from_before_this_process_are_never_silent_L6() -> None:
    """They may have called another process."""
    watched = Watched(running(POD))
    assert not watched.silent_after(PATIENCE_S)
    watched.core.see(running(POD, job_id="8", submitted_at=6))
    assert watched.silent_after(PATIENCE_S) == ["8"]


def test_jobs_of_the_first_listing_are_from_before_this_process_L6() -> None:
    watched = Watched(listed=False)
    watched.core.see_listing("jobs", running(POD))
    assert not watched.silent_after(PATIENCE_S)


@pytest.mark.parametrize(
    "fields",
    [{"script": False}, {"started": False}, {"state": frozenset({"RUNNING", "CONFIGURING"})}],
)
def test_only_running_scripts_that_have_started_can_be_silent_L6(fields: dict[str, Any]) -> None:
    watched = Watched()
    watched.core.see(replace(running(POD), **fields))
    assert not watched.silent_after(PATIENCE_S)
