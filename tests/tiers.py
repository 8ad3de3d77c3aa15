"""The tiers: what runs with each commit, and what runs at night. Markers say it, with a reason.

A test runs with each commit unless it is marked `night("reason")`. On the older Slurm it runs with
each commit only if it is marked `both_slurms("what differs")`: most claims are the same on both,
and one version shows them. `make night` runs everything.
"""

from collections.abc import Iterable

import pytest

OLDER_SLURM = "24.11"
SAME_CLAIM = "the same claim as on the newer Slurm"


def mark_older_slurm(items: Iterable[pytest.Item]) -> None:
    """Move the tests of the older Slurm to the night, unless they say what differs there."""
    for item in items:
        if _is_older(item) and item.get_closest_marker("both_slurms") is None:
            item.add_marker(pytest.mark.night(SAME_CLAIM))


def _is_older(item: pytest.Item) -> bool:
    """Whether the version is a parameter of this test with real servers."""
    call = getattr(item, "callspec", None)
    if call is None or item.get_closest_marker("real") is None:
        return False
    return OLDER_SLURM in map(str, call.params.values())
