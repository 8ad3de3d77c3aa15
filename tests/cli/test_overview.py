"""`sunk-sync diff` and `sunk-sync status`: text, JSON and exit codes."""

import io
import json
from collections.abc import Sequence
from typing import Any

import httpx
import msgspec
import pytest
import respx

from sunk_sync.cli.overview import diff, status
from sunk_sync.core.explain.differences import Difference, DifferenceKind
from sunk_sync.server.metrics_server import Check
from sunk_sync.service.overview import Differences, Status
from sunk_sync.settings.types import Address
from sunk_sync.telemetry.latencies import Latency

URL = "http://127.0.0.1:8082"
HERE = Address("127.0.0.1", 8082)
AT = "2026-11-26T03:00:01Z"
DRAIN = Difference(kind="drain", about="host n1", what="drained in Slurm", age_s=400.0)
WRITE = Difference(kind="write", about="host n2", what="drain: tried 3 times", age_s=2.0)
STATUS = Status(
    at=AT,
    code="0.1.0",
    leads=True,
    checks=(Check("loop", "ok", "last step 0.1 s ago"),),
    waiting={"kubernetes": 3, "slurm": 0},
    hosts={"all": 8, "busy": 2},
    pods={},
    latencies={"Pods bound": Latency(count=12, median_s=0.0284, most_s=3.0)},
)


def answered(answer: object, code: int = 200) -> httpx.Response:
    return httpx.Response(code, content=msgspec.json.encode(answer))


def test_differences_are_counted_by_kind_and_shown_with_their_ages(
    respx_mock: respx.MockRouter,
) -> None:
    answer = Differences(at=AT, total=3, differences=(DRAIN, WRITE), standby="a standby")
    respx_mock.get(f"{URL}/v1/diff").mock(return_value=answered(answer))
    out = io.StringIO()
    assert diff(HERE, older_than_s=60.0, out=out) == 1
    assert out.getvalue().splitlines() == [
        "3 differences: 1 drain, 1 write",
        "  drain       7 m  host n1: drained in Slurm",
        "  write     2.0 s  host n2: drain: tried 3 times",
        "  and 1 more",
        "note: a standby",
    ]


@pytest.mark.parametrize(
    ("kinds", "first"),
    [
        (("drain", "drain", "write"), "3 differences: 2 drains, 1 write"),
        (("held", "held"), "2 differences: 2 held"),
        (("job",), "1 difference: 1 job"),
        ((), "0 differences"),
    ],
)
def test_the_first_line_of_diff_counts_in_words(
    kinds: Sequence[DifferenceKind], first: str, respx_mock: respx.MockRouter
) -> None:
    found = tuple(Difference(kind=kind, about="a", what="b", age_s=0.0) for kind in kinds)
    answer = Differences(at=AT, total=len(found), differences=found)
    respx_mock.get(f"{URL}/v1/diff").mock(return_value=answered(answer))
    out = io.StringIO()
    diff(HERE, older_than_s=60.0, out=out)
    assert out.getvalue().splitlines()[0] == first


@pytest.mark.parametrize(
    ("found", "older_than_s", "code"),
    [((), 60.0, 0), ((WRITE,), 60.0, 0), ((WRITE,), 1.0, 1), ((DRAIN,), 60.0, 1)],
)
def test_only_an_old_difference_is_exit_code_1(
    respx_mock: respx.MockRouter,
    found: tuple[Difference, ...],
    older_than_s: float,
    code: int,
) -> None:
    answer = Differences(at=AT, total=len(found), differences=found)
    respx_mock.get(f"{URL}/v1/diff").mock(return_value=answered(answer))
    out = io.StringIO()
    assert diff(HERE, older_than_s=older_than_s, form="json", out=out) == code
    assert json.loads(out.getvalue())["version"] == 1


def test_the_status_is_a_line_for_each_check_and_count(respx_mock: respx.MockRouter) -> None:
    respx_mock.get(f"{URL}/v1/status").mock(return_value=answered(STATUS))
    out = io.StringIO()
    assert status(HERE, out=out) == 0
    assert out.getvalue().splitlines() == [
        f"sunk-sync 0.1.0, leads, {AT}",
        "  ok       loop: last step 0.1 s ago",
        "  hosts: 8 all, 2 busy",
        "  workload Pods: none",
        "  writes that wait: 3 kubernetes, 0 slurm",
        "  last minute: Pods bound 12 (median 0.0284 s, at most 3 s)",
    ]


def test_a_check_that_is_not_ok_is_exit_code_1(respx_mock: respx.MockRouter) -> None:
    checks = (Check("slurm", "degraded", "cannot be read"),)
    answer = msgspec.structs.replace(STATUS, checks=checks)
    respx_mock.get(f"{URL}/v1/status").mock(return_value=answered(answer))
    assert status(HERE, out=io.StringIO()) == 1


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (httpx.ConnectError("refused"), "nothing answers at 127.0.0.1:8082"),
        (httpx.Response(404, json={"status": 404, "why": "there is"}), "is no operators server"),
        (httpx.Response(200, json=[]), "is no operators server"),
    ],
)
def test_a_service_that_cannot_be_asked_is_exit_code_2(
    respx_mock: respx.MockRouter, answer: Any, said: str
) -> None:
    how = "side_effect" if isinstance(answer, Exception) else "return_value"
    respx_mock.get(f"{URL}/v1/diff").mock(**{how: answer})
    errors = io.StringIO()
    assert diff(HERE, older_than_s=60.0, out=io.StringIO(), errors=errors) == 2
    assert said in errors.getvalue()
