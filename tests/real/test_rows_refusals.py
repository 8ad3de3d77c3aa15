"""Rows P10 and P20 with the real servers: a site's job_submit.lua refuses without a number."""

import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import pytest

from tests.real.job_submit_lua import PLUGIN, write_job_submit
from tests.real.service import Service
from tests.real.stage import Host
from tests.real.workloads import Load, PodStage

STAGE_HOSTS = 4
pytestmark = [pytest.mark.real, pytest.mark.usefixtures("scheduler")]


@pytest.fixture(scope="module")
def site(pods: PodStage) -> Iterator[PodStage]:
    """Give Slurm a job_submit.lua that accepts all."""
    write_job_submit(pods.bed.slurm.root)
    before = pods.bed.slurm.conf
    lines = (*before.extra_lines, PLUGIN)
    pods.bed.slurm.reconfigure(replace(before, extra_lines=lines))
    yield pods
    pods.bed.slurm.reconfigure(before)


@pytest.fixture(autouse=True)
def accepting(site: PodStage) -> Iterator[None]:
    yield
    write_job_submit(site.bed.slurm.root)


def refusals(scheduler: Service) -> float:
    """Return how many submissions were refused. The log has equal ones once a minute."""
    return scheduler.metric("sunk_sync_writes_total", action="submit-job", outcome="refused")


def refusal_s(scheduler: Service, load: Load, count: float) -> float:
    load.until(lambda: refusals(scheduler) >= count, within_s=60)
    return time.monotonic()


@pytest.mark.parametrize("number", [-1, 7777])
def test_a_refusal_by_job_submit_lua_is_said_and_tried_ever_more_rarely_P10_P33(
    site: PodStage, scheduler: Service, host: Host, number: int
) -> None:
    before = refusals(scheduler)
    write_job_submit(site.bed.slurm.root, submit=str(number))
    load = site.load(host)
    load.until(lambda: load.events_of("SlurmRefused"))
    assert f"({number})" in load.message
    assert load.waits_for == "SlurmRefused"
    times = [refusal_s(scheduler, load, before + count) for count in (1, 2, 3)]
    first, second = (later - sooner for sooner, later in pairwise(times))
    assert first > 5  # the first one is read late
    assert second > 18
    write_job_submit(site.bed.slurm.root)
    load.until_bound(within_s=60)
    assert len(load.jobs) == 1


def test_an_edit_that_job_submit_lua_refuses_is_not_repeated_at_once_P20(
    site: PodStage, scheduler: Service, host: Host
) -> None:
    load, blocker = site.waiting(host)
    since = scheduler.mark()
    write_job_submit(site.bed.slurm.root, modify="slurm.ERROR")
    load.annotate(comment="edited")
    load.until(lambda: scheduler.writes("update-job", since=since))
    (line,) = scheduler.writes("update-job", since=since)
    assert "(-1)" in line["why"]
    write_job_submit(site.bed.slurm.root)
    load.until(lambda: [job["comment"] for job in load.live] == ["edited"], within_s=90)
    site.scancel(blocker)
    load.until_bound()
