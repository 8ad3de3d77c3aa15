"""How soon a Pod that waits is bound once slurmrestd is back (F2, F4)."""

from typing import Literal

import pytest

from tests.sim.history import BrokenPromiseError
from tests.sim.stage import Stage, play
from tests.sim.workloads.people import NAMESPACE
from tests.sim.workloads.scenarios import Doing, pods, slurmrestd, story
from tests.sim.workloads.truth import place_of

BOUND_WITHIN_S = 2.0
"""After the outage: one poll, one submission, one round of Slurm's scheduler."""


def bound(name: str) -> Doing:
    def doing(stage: Stage) -> None:
        pod = next(one for one in stage.kube.pods(NAMESPACE) if one["metadata"]["name"] == name)
        if not place_of(pod):
            raise BrokenPromiseError(f"outage: Pod {name} is not bound")

    return doing


@pytest.mark.parametrize("how", ["refused", "html"])
@pytest.mark.parametrize("created_s", [0.0, 0.2, 3.0])
@pytest.mark.parametrize("lasts_s", [6.0, 90.0])
def test_a_pod_created_during_an_outage_is_bound_soon_after_it_F2(
    how: Literal["refused", "html"], created_s: float, lasts_s: float
) -> None:
    """This does not depend on the length of the outage, or on an earlier poll that failed."""
    play(
        story(
            "F2",
            (1, slurmrestd(how)),
            (created_s, pods("a")),
            (lasts_s - created_s, slurmrestd("")),
            (BOUND_WITHIN_S, bound("a")),
        )
    )
