"""The tiers: what runs with each commit, and what runs at night. Markers say it, with a reason.

A test runs with each commit unless it is marked `night("reason")`. On the older Slurm it runs with
each commit only if it is marked `both_slurms("what differs")`: most claims are the same on both,
and one version shows them. A change of the paths in `MORE` runs the night tests of some files, too.
`make night` runs everything.
"""

import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
OLDER_SLURM = "24.11"
SAME_CLAIM = "the same claim as on the newer Slurm"
MORE: Mapping[str, tuple[str, ...]] = {
    "sunk_sync/slurm/": (
        "tests/real/test_slurm_",
        "tests/real/test_differential_slurm",
        "tests/real/test_differential_jobs",
    ),
    "sunk_sync/embedded/slurm/": (
        "tests/real/test_differential_slurm",
        "tests/real/test_differential_jobs",
    ),
    "sunk_sync/kube/": ("tests/real/test_kube_", "tests/real/test_differential_kube"),
    "sunk_sync/server/": ("tests/real/test_hooks",),
    "deploy/slurm/": ("tests/real/test_hooks", "tests/real/test_topology_file", "tests/server/"),
    "deploy/helm/": ("tests/chart/", "tests/real/permissions/"),
    "requirements": ("tests/test_locks",),
    "Makefile": ("tests/test_locks",),
}
"""Beginning of a changed path → beginnings of test files that then run whole with the commit."""


def widened(changed: Iterable[str]) -> tuple[str, ...]:
    """Return the beginnings of the test files that run whole after these changes."""
    found: dict[str, None] = {}
    for path in changed:
        for begins, files in MORE.items():
            found.update(dict.fromkeys(files if path.startswith(begins) else ()))
    return tuple(found)


def changed_since(revision: str) -> list[str]:
    """Return the paths that differ from a revision, committed or not."""
    argv = ["git", "diff", "--name-only", revision]
    return subprocess.run(
        argv, cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.splitlines()


def mark_older_slurm(items: Iterable[pytest.Item]) -> None:
    """Move the tests of the older Slurm to the night, unless they say what differs there."""
    for item in items:
        if _is_older(item) and item.get_closest_marker("both_slurms") is None:
            item.add_marker(pytest.mark.night(SAME_CLAIM))


def keep_commit_tier(
    config: pytest.Config, items: list[pytest.Item], *, whole: tuple[str, ...]
) -> None:
    """Deselect what runs at night, but nothing of the files that begin with one of `whole`."""
    left_out = [
        item
        for item in items
        if item.get_closest_marker("night") and not item.nodeid.startswith(whole)
    ]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        gone = set(left_out)
        items[:] = [item for item in items if item not in gone]


def _is_older(item: pytest.Item) -> bool:
    """Whether the version is a parameter of this test with real servers."""
    call = getattr(item, "callspec", None)
    if call is None or item.get_closest_marker("real") is None:
        return False
    return OLDER_SLURM in map(str, call.params.values())
