"""Volumes are read from the first workload Pod with a claim on, or for a claim still selected."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from sunk_sync.core.model.facts import News, Observed, Row, Tell
from sunk_sync.core.model.volumes import VolumeClaim
from sunk_sync.kube.api.answers import KubeError
from sunk_sync.kube.api.backoff import Ambient
from sunk_sync.kube.read import first_claim
from sunk_sync.kube.read.first_claim import FirstClaim
from tests.kit.build import POD

CLAIM = VolumeClaim(namespace="ns", name="data", uid="u1")
SELECTED = replace(CLAIM, selected_for="slurm-scheduler/7")
AWAY = KubeError(kind="connection", why="away")
FORBIDDEN = KubeError(kind="answer", why="no", status=403)


class Answers:
    """Stands for a Listing: each run gives the next of these answers."""

    def __init__(self, *answers: KubeError | Sequence[Row]) -> None:
        self.answers = list(answers)

    def __call__(self, *_: object, tell: Tell, **__: object) -> "Answers":
        self._tell = tell
        return self

    async def run(self) -> str | KubeError:
        answer = self.answers.pop(0)
        if isinstance(answer, KubeError):
            return answer
        await self._tell([Observed(row, 1.0) for row in answer])
        return "7"


async def told(_: Sequence[News]) -> None:
    """Pass nothing on."""


def first_claim_of(ambient: Ambient) -> FirstClaim:
    nothing: Any = defaultdict(str)
    return FirstClaim(told, nothing, selections=nothing, ambient=ambient)


async def at_once(_: float) -> None:
    """Wait for nothing."""


@pytest.mark.parametrize(
    ("answers", "seen"),
    [
        ([[SELECTED]], True),
        ([[CLAIM, SELECTED]], True),
        ([[CLAIM]], False),
        ([[]], False),
        ([AWAY, AWAY, [SELECTED]], True),
        ([FORBIDDEN], False),
    ],
)
async def test_a_claim_selected_for_a_pod_that_went_is_found_at_the_start_P8(
    monkeypatch: pytest.MonkeyPatch, answers: list[Any], seen: bool
) -> None:
    """Simulator, seed 9528593: after a restart no Pod had a claim, and it stayed selected."""
    listing = Answers(*answers)
    monkeypatch.setattr(first_claim, "Listing", listing)
    first = first_claim_of(Ambient(sleep=at_once))
    await first.find_selected()
    assert first.seen.is_set() == seen
    assert not listing.answers


async def test_the_first_pod_with_a_claim_is_enough_P8() -> None:
    first = first_claim_of(Ambient())
    await first.tell([Observed(POD, 1.0)])
    assert not first.seen.is_set()
    await first.tell([Observed(replace(POD, volume_claims=("data",)), 1.0)])
    assert first.seen.is_set()
