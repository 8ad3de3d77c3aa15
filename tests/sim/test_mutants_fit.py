"""The seeded defects match the current source."""

from pathlib import Path

import pytest

import sunk_sync
from tests.sim.mutants.mutant import Mutant
from tests.sim.mutation import CATALOGUE

SOURCE = Path(sunk_sync.__file__).parent


@pytest.mark.parametrize("mutant", CATALOGUE, ids=lambda mutant: mutant.name)
def test_each_mutant_fits_exactly_one_place(mutant: Mutant) -> None:
    assert (SOURCE / mutant.path).read_text().count(mutant.old) == 1
    assert mutant.new != mutant.old
