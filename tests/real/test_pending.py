"""P1, P10: each reason and error that a real Slurm can be made to give, read back from it."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial

import pytest

from sunk_sync.core.translate.pending import error_in_words
from sunk_sync.core.translate.slurm_errors import ERRORS, RANGES
from tests.kit import slurm_names
from tests.real import slurm_names as library
from tests.real.conftest import for_each_slurm, require
from tests.real.refusals import DENIALS, OTHER_CALLS, SUBMISSIONS, Refusal
from tests.real.slurm_jobs import CONF, Jobs, Scene, check_reasons
from tests.real.testbed import BedError, RestError, SlurmServer
from tests.real.testbed.cache import SLURM_SUITES
from tests.real.testbed.sandbox import wait_until
from tests.real.waits import SCENES

pytestmark = [pytest.mark.real, pytest.mark.both_slurms("each version has its own reasons")]


server = for_each_slurm(lambda version: SlurmServer(version, CONF), kube=None)


def resumed(slurm: SlurmServer) -> list[str]:
    """Resume nodes that are down or drained; return them."""
    names = [name for name, state in slurm.states().items() if {"DRAIN", "DOWN"} & set(state)]
    for name in names:
        with suppress(BedError):  # it came back by itself meanwhile: Slurm refuses
            slurm.scontrol("update", f"nodename={name}", "state=resume")
    return names


@pytest.fixture
def jobs(server: SlurmServer) -> Iterator[Jobs]:
    """Restore the configuration and remove all jobs afterwards."""
    slurm, jobs = server, Jobs(server)
    yield jobs
    if not slurm.daemons["slurmctld"].running:
        slurm.start_slurmctld()
    jobs.cancel_all()
    wait_until(lambda: not resumed(slurm), "no node down or drained", deadline_s=20)
    slurm.scontrol("update", "partitionname=one", "state=up")
    for name in ("later", "others"):
        if name in slurm.scontrol("show", "reservation"):
            slurm.scontrol("delete", f"ReservationName={name}")
    if slurm.conf != CONF:
        slurm.reconfigure(CONF)
    slurm.wait_until_idle()


def refused(call: Callable[[], object]) -> list[tuple[int, str]]:
    """Return numbers and texts of a refusal; empty if there is none."""
    try:
        call()
    except RestError as refusal:
        return [(error["error_number"], error["error"]) for error in refusal.body["errors"]]
    return []


def check_error(number: int, answered: list[tuple[int, str]], what: str) -> None:
    """Check that Slurm gave this number and that our text for it contains the number."""
    assert [one for one, _ in answered] == [number], what
    _, text = answered[0]
    words = error_in_words(number, text)
    assert text.rstrip(".") in words.text
    assert f"({number})" in words.text
    assert number in ERRORS or any(number in numbers for numbers in RANGES)


@pytest.mark.parametrize("refusals", [SUBMISSIONS, OTHER_CALLS], ids=["submissions", "others"])
def test_each_refusal_has_its_number(jobs: Jobs, refusals: Sequence[Refusal]) -> None:
    for refusal in refusals:
        if jobs.slurm.version in refusal.versions:
            check_error(refusal.number, refused(partial(refusal.play, jobs)), refusal.what)


@pytest.mark.parametrize("denial", DENIALS, ids=lambda one: one.play.__name__)
def test_each_temporary_refusal_has_its_number(jobs: Jobs, denial: Scene) -> None:
    for number, call in denial.pairs(jobs):
        check_error(number, refused(call), denial.play.__name__)


@pytest.mark.parametrize("scene", SCENES, ids=lambda one: one.play.__name__)
def test_each_waiting_job_has_its_reason(jobs: Jobs, scene: Scene) -> None:
    check_reasons(jobs, scene)


@pytest.mark.parametrize("version", SLURM_SUITES)
def test_the_list_of_names_matches_this_slurm(version: str) -> None:
    require(slurm=version)
    assert slurm_names.read()[version] == library.ask(version)
