"""A minute of chaos on real servers, with two replicas. `make night PART=chaos` runs ten."""

import pytest

from tests.chaos.run import Options, Run
from tests.real.conftest import require
from tests.real.testbed.bed import SLURM_DEFAULT
from tests.real.testbed.cache import KUBE_DEFAULT
from tests.real.testbed.kube import REPOSITORY

SEED = 5205
"""Its plan kills or stops each replica, and each server; a run of CI must not depend on luck."""
SECONDS = 60
"""With the start of the servers and the time until all has converged a minute and a half."""


@pytest.mark.real
def test_a_minute_of_faults_leave_no_violation() -> None:
    require(kube=KUBE_DEFAULT, slurm=SLURM_DEFAULT)
    folder = REPOSITORY / "build" / "chaos" / f"test-{SEED}"
    options = Options(seed=SEED, seconds=SECONDS, replicas=2, slurm=SLURM_DEFAULT, folder=folder)
    found = Run(options, print).go()
    assert not found, "\n".join(map(str, found))
