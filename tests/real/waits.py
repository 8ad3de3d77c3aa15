"""Reasons of jobs that wait or have ended, and how a real Slurm gives each of them.

`test_pending.py` plays the scenes and reads the reasons back. docs/pending.md lists them as seen,
because that test reads them back.
"""

import time
from collections.abc import Iterable, Mapping

from tests.real.slurm_jobs import ALICE, NEW, Jobs, Scenes, number, versions_by

Waiting = Iterable[tuple[str, int]]


SCENES = Scenes()


@SCENES.add("JobHeldUser", "JobHeldAdmin", "BeginTime", "PartitionTimeLimit", "PartitionNodeLimit",
            "PartitionDown", "PartitionConfig", "AccountNotAllowed", "MaxMemPerLimit",
            "JobArrayTaskLimit")  # fmt: skip
def asks_what_it_may_not_have(jobs: Jobs) -> Waiting:
    """Slurm accepts these jobs and lets them wait."""
    # An immediate allocation is answered as if it ran, but it waits.
    yield "PartitionTimeLimit", jobs.allocate(partition="short", time_limit=number(60))
    yield "JobHeldUser", jobs.submit(hold=True)
    yield "JobHeldUser", jobs.submit(priority=number(0))
    held = jobs.submit(hold=True)
    jobs.update(held, hold=True)
    yield "JobHeldAdmin", held
    yield "BeginTime", jobs.submit(begin_time=number(int(time.time()) + 3600))
    yield "PartitionTimeLimit", jobs.submit(partition="short", time_limit=number(60))
    yield "PartitionNodeLimit", jobs.submit(partition="small", nodes="2")
    yield "PartitionDown", jobs.submit(partition="off")
    yield "PartitionConfig", jobs.submit(partition="root", **ALICE)
    yield "AccountNotAllowed", jobs.submit(partition="members", **ALICE)
    yield "MaxMemPerLimit", jobs.submit(partition="tight", memory_per_node=number(2000))
    yield "JobArrayTaskLimit", jobs.submit(array="0-3%1")


@SCENES.add("PartitionConfig", versions=NEW)
def asks_for_more_than_there_is(jobs: Jobs) -> Waiting:
    """24.11 refuses these."""
    yield "PartitionConfig", jobs.submit(nodes="99")
    yield "PartitionConfig", jobs.submit(cpus_per_task=999)


@SCENES.add("JobHeldAdmin")
def user_unknown_on_the_node(jobs: Jobs) -> Waiting:
    """slurmd cannot start the script, and slurmctld holds the job."""
    yield "JobHeldAdmin", jobs.submit(**ALICE)


@SCENES.add("Resources", "Priority", "Dependency", "None")
def full_cluster(jobs: Jobs) -> Waiting:
    full = jobs.running(nodes="3", tasks=3, shared=["none"])
    yield "None", full
    yield "Resources", jobs.submit(nodes="3", priority=number(10))
    yield "Priority", jobs.submit(nodes="1", priority=number(5))
    yield "Dependency", jobs.submit(dependency=f"afterok:{full}")
    yield "Dependency", jobs.submit(dependency="singleton")


@SCENES.add("Licenses")
def licence_in_use(jobs: Jobs) -> Waiting:
    jobs.running(licenses="matlab:1")
    yield "Licenses", jobs.submit(licenses="matlab:1")


@SCENES.add("NonZeroExitCode", "RaisedSignal", "DependencyNeverSatisfied")
def ends_badly(jobs: Jobs) -> Waiting:
    failed = jobs.submit(script="#!/bin/sh\nexit 1\n")
    yield "RaisedSignal", jobs.submit(script="#!/bin/sh\nkill -9 $$\n")
    jobs.until(lambda: jobs.ended(failed), "a job has failed")
    yield "NonZeroExitCode", failed
    yield "DependencyNeverSatisfied", jobs.submit(dependency=f"afterok:{failed}")


@SCENES.add("NodeDown")
def its_node_is_set_down(jobs: Jobs) -> Waiting:
    """It ends as NODE_FAIL, although its `requeue` reads true: it has no script."""
    job = jobs.allocate(required_nodes=["n3"])
    jobs.slurm.scontrol("update", "nodename=n3", "state=down", "reason=x")
    yield "NodeDown", job


@SCENES.add("ReqNodeNotAvail", "Resources")
def nodes_drained_and_down(jobs: Jobs) -> Waiting:
    jobs.slurm.scontrol("update", "nodename=n3", "state=drain", "reason=x")
    jobs.slurm.scontrol("update", "nodename=n2", "state=down", "reason=x")
    yield "ReqNodeNotAvail", jobs.submit(required_nodes=["n3"])
    yield "ReqNodeNotAvail", jobs.submit(required_nodes=["n2"])
    yield "Resources", jobs.submit(nodes="3")
    yield "Resources", jobs.submit(partition="two")


@SCENES.add("Reservation", "ReqNodeNotAvail", "Resources")
def reservations(jobs: Jobs) -> Waiting:
    jobs.reserve("later", "StartTime=now+3600", "Nodes=n1", "Users=root")
    jobs.reserve("others", "StartTime=now", "Nodes=n2", "Users=daemon")
    yield "Reservation", jobs.submit(reservation="later")
    yield "ReqNodeNotAvail", jobs.submit(required_nodes=["n2"])
    yield "Resources", jobs.submit(partition="two")


@SCENES.add("BadConstraints", "PartitionInactive")
def taken_away_while_it_waits(jobs: Jobs) -> Waiting:
    jobs.slurm.update_slurm_node("n3", features=["old"], features_act=["old"])
    soon = number(int(time.time()) + 2)
    yield "BadConstraints", jobs.submit(constraints="old", begin_time=soon)
    yield "PartitionInactive", jobs.submit(partition="one", begin_time=soon)
    jobs.slurm.update_slurm_node("n3", features=["new"], features_act=["new"])
    jobs.slurm.scontrol("update", "partitionname=one", "state=inactive")


@SCENES.add("BeginTime", "JobHeldUser")
def requeued(jobs: Jobs) -> Waiting:
    again, held = jobs.running(), jobs.running()
    jobs.slurm.scontrol("requeue", str(again))
    jobs.slurm.scontrol("requeuehold", str(held))
    yield "BeginTime", again
    yield "JobHeldUser", held


def seen_reasons() -> Mapping[str, frozenset[str]]:
    """Return the versions in which each reason was read."""
    return versions_by(SCENES.versions())
