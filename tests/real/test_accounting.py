"""P1, P10, P20: reasons and errors that need accounting, read back from a real Slurm."""

from collections.abc import Iterator
from contextlib import suppress

import pytest

from sunk_sync.core.translate.pending import in_words
from tests.real import limits
from tests.real.conftest import for_each_slurm
from tests.real.limits import ACCOUNT_LIMITS, ASKED, QOS_LIMITS
from tests.real.slurm_jobs import Jobs, Scene, check_reasons
from tests.real.test_pending import check_error, refused
from tests.real.testbed import BedError, RestError

pytestmark = pytest.mark.real


accounted = for_each_slurm(limits.accounted, kube=None)


@pytest.fixture
def jobs(accounted: Jobs) -> Iterator[Jobs]:
    yield accounted
    accounted.cancel_all()


def test_each_limit_of_accounting_has_a_reason(jobs: Jobs) -> None:
    wanted = {
        jobs.submit(**{field: name}, **ASKED): (limit, reason)
        for field, all_limits in (("qos", QOS_LIMITS), ("account", ACCOUNT_LIMITS))
        for name, (limit, reason) in all_limits.items()
    }

    def others() -> list[tuple[str, str, str]]:
        found = jobs.call("GET", "jobs/?flags=ALL")["jobs"]
        reasons = {one["job_id"]: one["state_reason"] for one in found}
        return [(*one, reasons[job]) for job, one in wanted.items() if reasons[job] != one[1]]

    with suppress(BedError):
        jobs.until(lambda: not others(), "every limit its reason")
    assert others() == []
    for _, reason in wanted.values():
        assert not in_words(reason).text.startswith("Slurm gives the reason")


@pytest.mark.parametrize("scene", limits.SCENES, ids=lambda one: one.play.__name__)
def test_each_waiting_job_has_its_reason(jobs: Jobs, scene: Scene) -> None:
    check_reasons(jobs, scene)


def test_each_refusal_has_its_number(jobs: Jobs) -> None:
    for refusal in limits.REFUSALS:
        check_error(refusal.number, refused(lambda: refusal.play(jobs)), refusal.what)  # noqa: B023


def test_an_update_changes_account_and_qos_of_a_waiting_job_P20(jobs: Jobs) -> None:
    def record(job: int) -> tuple[str, str]:
        (found,) = jobs.call("GET", f"job/{job}")["jobs"]
        return found["account"], found["qos"]

    job = jobs.submit(hold=True)
    assert record(job) == ("root", "normal")
    jobs.update(job, account="a0")
    jobs.update(job, qos="spare")
    assert record(job) == ("a0", "spare")
    for number, fields in ((2045, {"account": "nope"}), (2066, {"qos": "nope"})):
        with pytest.raises(RestError) as refusal:
            jobs.update(job, **fields)
        assert [one["error_number"] for one in refusal.value.body["errors"]] == [number]
    assert record(job) == ("a0", "spare")
