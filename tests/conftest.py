"""Set-up of all tests."""

import hypothesis
import pytest

from tests.tiers import changed_since, keep_commit_tier, mark_older_slurm, widened

hypothesis.settings.register_profile("busy machines", deadline=None)
hypothesis.settings.load_profile("busy machines")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--tier",
        choices=("commit", "night"),
        default="night",
        help="commit: leave out the tests that are marked `night` (default: run them)",
    )
    parser.addoption(
        "--changed-since",
        metavar="REVISION",
        help="with --tier commit: run more where files changed since this commit (tests/tiers.py)",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    mark_older_slurm(items)
    if config.getoption("tier") == "commit":
        revision = config.getoption("changed_since")
        whole = widened(changed_since(revision)) if revision else ()
        keep_commit_tier(config, items, whole=whole)
