"""A submission is sent only after slurmctld has answered."""

import asyncio
import time

import pytest

from sunk_sync.slurm.api.answers import SlurmError, SlurmResponse
from sunk_sync.slurm.api.requests import SlurmCall, allocate_job, submit_job
from tests.kit.slurm_client import V45, connected, kind_of
from tests.slurm.recorded.server import Server, drop, http, in_turn, send

PROBE = f"GET /slurm/{V45}/jobs/state/?job_id=1"
SUBMIT = f"POST /slurm/{V45}/job/submit"
THERE = send(http(b'{"jobs":[],"errors":[]}'))
MADE = send(http(b'{"job_id":7,"errors":[]}'))
BAD_GATEWAY = send(http(b"<html>502 Bad Gateway</html>", status=502))
AWAY = send(http(b'{"errors":[{"error_number":1800,"error":"connect failure"}]}', status=502))


def submission() -> SlurmCall:
    return submit_job(b"{}", since_s=time.monotonic())


async def test_a_submission_is_not_sent_where_slurmctld_does_not_answer_F2(server: Server) -> None:
    server.answers[PROBE] = in_turn(BAD_GATEWAY, drop(), drop(), AWAY)
    async with connected(server) as client:
        for kind in ("garbage", "broken", "controller_down"):
            failure = await client.call(submission())
            assert kind_of(failure) == kind
            assert isinstance(failure, SlurmError)
            assert failure.nothing_done
    assert SUBMIT not in server.lines


async def test_submissions_that_begin_together_share_one_probe_F2(server: Server) -> None:
    server.answers = {PROBE: THERE, SUBMIT: MADE}
    async with connected(server) as client:
        calls = [submission() for _ in range(3)]
        answers = await asyncio.gather(*map(client.call, calls))
        assert all(isinstance(answer, SlurmResponse) for answer in answers)
        assert server.lines == [PROBE, *[SUBMIT] * 3]
        await client.call(allocate_job(b"{}", since_s=time.monotonic()))
    assert server.lines[4:] == [PROBE, f"POST /slurm/{V45}/job/allocate"]


async def test_after_a_failure_the_next_submission_sends_a_probe_first_F2(server: Server) -> None:
    server.answers = {PROBE: THERE, SUBMIT: BAD_GATEWAY}
    async with connected(server) as client:
        failure = await client.call(submission())
        assert isinstance(failure, SlurmError)
        assert not failure.nothing_done
        await client.call(submission())
    assert server.lines == [PROBE, SUBMIT] * 2


async def test_a_submission_before_any_version_is_agreed_is_not_sent_F2(server: Server) -> None:
    server.answers[f"GET /slurm/{V45}/ping/"] = BAD_GATEWAY
    async with connected(server, version="auto") as client:
        failure = await client.call(submission())
    assert isinstance(failure, SlurmError)
    assert failure.nothing_done
    assert failure.kind == "garbage"


async def test_a_refused_probe_is_an_answer_of_slurmctld_F2(server: Server) -> None:
    refused = b'{"errors":[{"error_number":2017,"error":"Invalid job id"}]}'
    server.answers = {PROBE: send(http(refused)), SUBMIT: MADE}
    async with connected(server) as client:
        assert isinstance(await client.call(submission()), SlurmResponse)


async def test_a_submission_follows_its_probe(server: Server, second: Server) -> None:
    server.answers[PROBE] = BAD_GATEWAY
    second.answers = {PROBE: THERE, SUBMIT: MADE}
    async with connected(server, second) as client:
        assert isinstance(await client.call(submission()), SlurmResponse)


NOTHING_DONE = [
    *[SlurmError("controller_down", "", number) for number in (1001, 1800, 1804, 1805, 2027, 2131)],
    SlurmError("unreachable", "connection refused"),
    SlurmError("unserved", "404"),
    SlurmError("auth", "", 1007),
    SlurmError("unwanted", ""),
    SlurmError("timeout", "", sent=False),
    SlurmError("garbage", "", sent=False),
]
PERHAPS_DONE = [
    SlurmError("controller_down", "receive failure", 1802),
    SlurmError("controller_down", "Unspecified error", -1),
    *[SlurmError(kind, "") for kind in ("broken", "timeout", "garbage", "too_large")],
    SlurmError("auth", "", 1007, job_id=7),
]


@pytest.mark.parametrize("failure", [*NOTHING_DONE, *PERHAPS_DONE], ids=str)
def test_only_a_proof_means_nothing_done_F2(failure: SlurmError) -> None:
    assert failure.nothing_done is (failure in NOTHING_DONE)
