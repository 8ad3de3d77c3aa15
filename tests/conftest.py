"""Set-up of all tests."""

import hypothesis
import pytest

from tests.tiers import mark_older_slurm

hypothesis.settings.register_profile("busy machines", deadline=None)
hypothesis.settings.load_profile("busy machines")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark before pytest selects by markers."""
    mark_older_slurm(items)
