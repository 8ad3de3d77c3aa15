"""Row P17 with the real servers: Slurm itself ends a job before it begins."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.real.stage import Host, eventually, stays
from tests.real.workloads import PodStage

STAGE_HOSTS = 16
pytestmark = [pytest.mark.real, pytest.mark.usefixtures("scheduler")]

FOLDER = "/etc/slurm"
PROLOG, PROLOG_SLURMCTLD = "site-prolog.sh", "site-prolog-slurmctld.sh"
EPILOG_SLURMCTLD = "site-epilog-slurmctld.sh"
SCRIPTS = {
    "Prolog": PROLOG,
    "PrologSlurmctld": PROLOG_SLURMCTLD,
    "EpilogSlurmctld": EPILOG_SLURMCTLD,
}
FINE = "exit 0"


@pytest.fixture(scope="module")
def prologs(pods: PodStage) -> Iterator[PodStage]:
    """Give Slurm two prologs and an epilog that succeed."""
    for name in SCRIPTS.values():
        write(pods, name, FINE)
    before = pods.bed.slurm.conf
    lines = [f"{option}={FOLDER}/{name}" for option, name in SCRIPTS.items()]
    pods.bed.slurm.reconfigure(replace(before, extra_lines=(*before.extra_lines, *lines)))
    yield pods
    pods.bed.slurm.reconfigure(before)


def write(pods: PodStage, name: str, text: str) -> None:
    path = pods.bed.slurm.root / FOLDER.lstrip("/") / name
    fresh = path.with_suffix(".fresh")
    fresh.write_text(f"#!/bin/sh\n{text}\n")
    fresh.chmod(0o755)
    fresh.rename(path)


@pytest.fixture(autouse=True)
def mended(prologs: PodStage) -> Iterator[None]:
    yield
    for name in SCRIPTS.values():
        write(prologs, name, FINE)


def idle(hosts: list[Host]) -> None:
    eventually(lambda: all("IDLE" in host.state for host in hosts), "all are idle")


def test_a_failed_prolog_is_no_cancel_of_a_person_P17(prologs: PodStage) -> None:
    hosts = prologs.pool("prolog")
    idle(hosts)
    bad, good = hosts
    write(prologs, PROLOG, f'[ "$SLURMD_NODENAME" != {bad.name} ]')
    prologs.bed.slurm.scontrol("update", f"nodename={good.name}", "weight=9")
    load = prologs.load(nodeSelector={"pool": "prolog"})
    load.until(lambda: load.jobs)
    first = load.jobs[0]["job_id"]
    assert load.until_bound(within_s=40) != str(first)
    why = f"Slurm ended job {first} on {bad.name} before it began: Prolog error"
    said = load.events_of("SlurmJobEndedEarly")
    # On a slow machine the Pod has said something else before, and speaks once a minute.
    assert said == [f"{why}; another job follows"] or load.events_of("FailedScheduling")
    assert (load.node, len(load.jobs)) == (good.name, 2)
    assert load.annotation("cancelled") is None


@pytest.fixture(params=["launch", "allocation"])
def when(request: pytest.FixtureRequest, prologs: PodStage) -> Iterator[str]:
    """The prolog runs before the script of a job, or already for its allocation."""
    before = prologs.bed.slurm.conf
    flags = () if request.param == "launch" else ("PrologFlags=Alloc",)
    prologs.bed.slurm.reconfigure(replace(before, extra_lines=(*before.extra_lines, *flags)))
    yield request.param
    prologs.bed.slurm.reconfigure(before)


def test_a_failed_prolog_is_no_cancel_of_a_person_while_epilog_slurmctld_runs_P17(
    prologs: PodStage, when: str
) -> None:
    """Meanwhile the job is COMPLETING, and its record has no nodes: the gate has such a script."""
    hosts = prologs.pool(when)
    idle(hosts)
    bad, good = hosts
    write(prologs, PROLOG, f'[ "$SLURMD_NODENAME" != {bad.name} ]')
    write(prologs, EPILOG_SLURMCTLD, "sleep 2")
    prologs.bed.slurm.scontrol("update", f"nodename={good.name}", "weight=9")
    load = prologs.load(nodeSelector={"pool": when})
    load.until_bound(within_s=40)
    assert (load.node, len(load.jobs)) == (good.name, 2)
    assert load.annotation("cancelled") is None


def test_a_failed_prolog_of_slurmctld_is_no_cancel_of_a_person_P17(
    prologs: PodStage, host: Host
) -> None:
    idle([host])
    write(prologs, PROLOG_SLURMCTLD, "exit 1")
    load = prologs.load(host)
    load.until(lambda: "before it began: a prolog failed, or" in load.message, within_s=90)
    write(prologs, PROLOG_SLURMCTLD, FINE)
    load.until_bound(within_s=90)
    assert load.annotation("cancelled") is None
    assert len(load.jobs) <= 6


def test_a_gang_goes_elsewhere_after_a_failed_prolog_P17(prologs: PodStage) -> None:
    hosts = [*prologs.pool("gang"), *prologs.pool("gang", size=1)]
    idle(hosts)
    bad, *good = hosts
    write(prologs, PROLOG, f'[ "$SLURMD_NODENAME" != {bad.name} ]')
    for host in good:
        prologs.bed.slurm.scontrol("update", f"nodename={host.name}", "weight=9")
    loads = [
        prologs.load(nodeSelector={"pool": "gang"}, annotations={"gang": "ends", "gang_size": "2"})
        for _ in range(2)
    ]
    for load in loads:
        load.until_bound(within_s=40)
    assert {load.node for load in loads} == {host.name for host in good}


def test_a_person_may_still_cancel_a_job_that_waits_or_runs_P17(
    prologs: PodStage, host: Host
) -> None:
    idle([host])
    load, blocker = prologs.waiting(host)
    prologs.scancel(load.job["job_id"])
    load.until(lambda: load.condition("PodScheduled")[1] == "SlurmJobCancelled")
    assert stays(lambda: not load.live, for_s=7)
    prologs.scancel(blocker)
