"""The catalogue of seeded defects fits the source as it stands."""

from pathlib import Path

import pytest

import sunk_sync
from tests.sim.mutants.mutant import Mutant
from tests.sim.mutation import CATALOGUE

SOURCE = Path(sunk_sync.__file__).parent


@pytest.mark.parametrize("mutant", CATALOGUE, ids=lambda mutant: mutant.name)
def test_a_mutant_changes_one_place(mutant: Mutant) -> None:
    """A defect that cannot be planted any more proves nothing."""
    assert (SOURCE / mutant.path).read_text().count(mutant.old) == 1
    assert mutant.new != mutant.old
