"""Row P23 with the real servers: people, prologs and plugins write into our jobs."""

from dataclasses import replace
from typing import Any

import pytest

from sunk_sync.core.model.job_identity import job_name, workload_id
from tests.real.conftest import Serve
from tests.real.service import Service
from tests.real.stage import Host, eventually, stays
from tests.real.workloads import PodStage, state_of

STAGE_HOSTS = 16
pytestmark = [pytest.mark.real, pytest.mark.usefixtures("scheduler")]

NOTE = "admincomment=seen by the site"
RENAME = "jobname=other"
SITE_PROLOG = """#!/bin/sh
for job in $SLURM_JOB_ID ${SLURM_ARRAY_JOB_ID:-}; do
    scontrol update jobid=$job admincomment="checked by the site" >/dev/null 2>&1
done
exit 0
"""


def edit(pods: PodStage, job: Any, *changes: str) -> None:
    for change in changes:
        pods.bed.slurm.scontrol("update", f"jobid={job}", change)


def test_a_job_that_somebody_wrote_into_ends_with_its_pod_after_a_restart_P23(
    pods: PodStage, scheduler: Service
) -> None:
    changes = ((NOTE,), (RENAME,), (NOTE, RENAME), (NOTE, RENAME, "timelimit=60", "comment=x"))
    loads = [pods.load(pods.take()) for _ in changes]
    for load, change in zip(loads, changes, strict=True):
        edit(pods, load.until_bound(), *change)
    scheduler.restart()
    assert stays(lambda: all(len(load.jobs) == 1 and load.node for load in loads))
    for load, change in zip(loads, changes, strict=True):
        if NOTE in change:
            load.until(lambda load=load: len(load.events_of("JobCommentOverwritten")) == 1)
    eventually(lambda: scheduler.metric("sunk_sync_jobs_comment_overwritten") == 3, "counted")
    for load in loads:
        load.delete()
    for load in loads:
        load.until(load.ended)
        assert len(load.jobs) == 1


def test_a_waiting_job_that_somebody_wrote_into_gets_no_second_one_P23(
    pods: PodStage, scheduler: Service, host: Host
) -> None:
    load, blocker = pods.waiting(host)
    job = load.job["job_id"]
    edit(pods, job, NOTE, RENAME, "nice=5")
    load.annotate(comment="an update of the job")
    load.until(lambda: load.job["comment"] == "an update of the job")
    edit(pods, job, NOTE)
    scheduler.restart()
    assert stays(lambda: len(load.jobs) == 1)
    pods.scancel(blocker)
    assert load.until_bound() == str(job)
    load.delete()
    load.until(load.ended)
    assert len(load.jobs) == 1


def test_a_job_that_is_given_up_is_no_cancel_of_a_person_whatever_was_written_P17_P23(
    pods: PodStage, scheduler: Service, host: Host
) -> None:
    load, blocker = pods.waiting(host)
    first = load.job["job_id"]
    edit(pods, first, NOTE, RENAME)
    load.annotate(exclusive="user")
    load.until(lambda: len(load.jobs) == 2 and len(load.live) == 1)
    assert load.annotation("cancelled") is None
    scheduler.restart()
    pods.scancel(blocker)
    assert load.until_bound() != str(first)
    assert len(load.jobs) == 2


def test_the_prolog_of_a_site_may_write_admin_comment_P23(
    pods: PodStage, scheduler: Service
) -> None:
    slurm = pods.bed.slurm
    script = slurm.root / "etc/slurm/site-prolog.sh"
    script.write_text(SITE_PROLOG)
    script.chmod(0o755)
    before = slurm.conf
    lines = (*before.extra_lines, "PrologSlurmctld=/etc/slurm/site-prolog.sh")
    slurm.reconfigure(replace(before, extra_lines=lines))
    try:
        hosts = [pods.take() for _ in range(4)]
        eventually(lambda: all("IDLE" in host.state for host in hosts), "all are idle")
        loads = [pods.load(host) for host in hosts]
        for load in loads:
            load.until_bound(within_s=30)
            assert "checked by the site" in load.job["admin_comment"]
        scheduler.restart()
        for load in loads:
            load.delete()
        for load in loads:
            load.until(load.ended)
            assert len(load.jobs) == 1, load
    finally:
        slurm.reconfigure(before)


def test_a_user_cannot_claim_the_pod_of_another_P23(pods: PodStage, host: Host) -> None:
    load = pods.load(host)
    job = load.until_bound()
    forged = pods.bed.slurm.submit(
        "#!/bin/sh\nexec sleep 600\n",
        name=load.job["name"],
        argv=[load.job["command"]],
        partition="off",
        user_id="1001",
        group_id="1001",
    )
    assert stays(lambda: state_of(pods.bed, forged) == "PENDING", for_s=2)
    assert state_of(pods.bed, job) == "RUNNING"
    load.delete()
    load.until(lambda: not state_of(pods.bed, job))
    assert state_of(pods.bed, forged) == "PENDING"
    pods.scancel(forged)


def test_a_job_without_our_texts_is_named_and_keeps_its_pod_from_another_P23(
    pods: PodStage, schedule: Serve, host: Host
) -> None:
    """As a job of an earlier version, which has no identity in its command line."""
    pods.quit()
    load = pods.load(host)
    name = job_name(load.namespace, load.name, workload=workload_id([load.uid]))
    ours = pods.impostor("seen by the site", name=name, on=host)
    strange = pods.impostor("", name="k8s/slurm/gone/00000000")
    service = schedule()
    assert load.until_bound() == ours
    eventually(lambda: service.metric("sunk_sync_jobs_unproven") == 1, "it is counted")
    (line,) = service.lines("jobs look like ours, but nothing proves it", since=service.begun)
    assert line["first"] == f"{strange} k8s/slurm/gone/00000000"
    load.delete()
    load.until(lambda: not state_of(pods.bed, ours))
    pods.scancel(strange)
    eventually(lambda: service.metric("sunk_sync_jobs_unproven") == 0, "it is gone", within_s=40)
