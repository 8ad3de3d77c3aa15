"""The seeded defects match the current source."""

import re
from pathlib import Path

import pytest

import sunk_sync
from tests.sim.mutants.mutant import Mutant
from tests.sim.mutation import CATALOGUE, ROOT, SUITES

SOURCE = Path(sunk_sync.__file__).parent


@pytest.mark.parametrize("mutant", CATALOGUE, ids=lambda mutant: mutant.name)
def test_each_mutant_fits_exactly_one_place(mutant: Mutant) -> None:
    assert (SOURCE / mutant.path).read_text().count(mutant.old) == 1
    assert mutant.new != mutant.old


def test_every_suite_selects_tests() -> None:
    """An empty suite fails, and every mutant would count as noticed."""
    for _, arguments in SUITES:
        if "-k" in arguments:
            file, word = arguments[0], arguments[-1]
            names = re.findall(r"def (test_\w+)", (ROOT / file).read_text())
            assert [name for name in names if word in name], arguments
