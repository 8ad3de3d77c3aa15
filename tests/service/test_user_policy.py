"""The file of --user-policy is read again when it changes; a wrong version changes nothing (P5)."""

import os
from pathlib import Path

import pytest
import structlog
from structlog.testing import LogCapture

from sunk_sync.core.model.user_policy import PolicyRead, UserPolicy
from sunk_sync.service.user_policy import CHECK_EVERY_S, PolicyWatch
from sunk_sync.settings.types import PolicyFile, read_user_policy
from sunk_sync.settings.yaml_file import FILE_BYTES_MAX
from sunk_sync.telemetry.alarms import AlarmGauges
from sunk_sync.telemetry.metrics import Figures
from tests.kit.news import NewsLog

FIRST = "team: {root: true}\n"
SECOND = "team: {root: true, accounts: games}\n"
GAUGE = "sunk_sync_user_policy_wrong"


class Watched:
    """A watched file, as a mounted ConfigMap replaces it."""

    def __init__(self, directory: Path, text: str = FIRST) -> None:
        self.path = directory / "policy.yaml"
        self.count = 0
        self.put(text)
        self.log = NewsLog()
        self.lines = LogCapture()
        logger = structlog.wrap_logger(structlog.PrintLogger(), processors=[self.lines])
        self.figures: Figures = {GAUGE: 0}
        journal = AlarmGauges(logger, self.figures)
        start = PolicyFile(self.path, read_user_policy(self.path))
        self.watch = PolicyWatch(start, tell=self.log.tell, journal=journal)

    def put(self, text: str) -> None:
        """Replace the file in one step."""
        self.count += 1
        version = self.path.with_name(f"version-{self.count}")
        version.write_text(text)
        link = self.path.with_name("link")
        link.symlink_to(version)
        link.rename(self.path)

    @property
    def policies(self) -> list[UserPolicy]:
        return [one.policy for one in self.log.news if isinstance(one, PolicyRead)]

    def events(self) -> list[str]:
        return [line["event"] for line in self.lines.entries]


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path)


async def test_an_unchanged_file_is_not_told_again_P5(watched: Watched) -> None:
    for _ in range(3):
        await watched.watch.check()
    assert watched.policies == []


async def test_a_changed_file_is_told_once_P5(watched: Watched) -> None:
    watched.put(SECOND)
    for _ in range(3):
        await watched.watch.check()
    assert watched.policies == [read_user_policy(watched.path)]
    assert watched.events() == ["user policy applies"]
    assert watched.figures[GAUGE] == 0


async def test_a_change_between_the_start_and_the_first_check_counts_P5(watched: Watched) -> None:
    await watched.watch.check()
    watched.put(SECOND)
    watched.put(FIRST)
    await watched.watch.check()
    assert watched.policies == []


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ("team: {accounts: a b}\n", "line 1: rule accounts: allowed is"),
        ("team: [1", "line 1: not YAML"),
        ("", "must be a mapping"),
        ("#" * (FILE_BYTES_MAX + 1), "larger than 1 MiB"),
    ],
)
async def test_a_wrong_version_changes_nothing_and_is_logged_once_P5(
    watched: Watched, wrong: str, why: str
) -> None:
    watched.put(wrong)
    for _ in range(3):
        await watched.watch.check()
    assert watched.policies == []
    (line,) = watched.lines.entries
    assert (line["log_level"], line["event"]) == ("error", "the file of --user-policy is wrong")
    assert why in line["why"]
    assert watched.figures[GAUGE] == 1
    watched.put(SECOND)
    await watched.watch.check()
    assert len(watched.policies) == 1
    assert watched.events()[1:] == [
        "the file of --user-policy is right again", "user policy applies",
    ]  # fmt: skip
    assert watched.figures[GAUGE] == 0


async def test_a_missing_file_changes_nothing_and_may_return_P5(watched: Watched) -> None:
    watched.path.unlink()
    await watched.watch.check()
    assert watched.figures[GAUGE] == 1
    assert watched.lines.entries[0]["why"] == "No such file or directory"
    watched.put(FIRST)
    await watched.watch.check()
    assert (watched.policies, watched.figures[GAUGE]) == ([], 0)


async def test_a_file_that_becomes_readable_without_a_change_is_read_P5(watched: Watched) -> None:
    """chmod changes no content, only the time of the inode's change."""
    await watched.watch.check()
    real = read_user_policy(watched.path)
    os.chmod(watched.path, 0o600)
    await watched.watch.check()
    assert watched.policies == []
    assert real == read_user_policy(watched.path)


async def test_a_file_that_is_written_meanwhile_waits_for_the_next_check_P5(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A half is a valid policy too."""

    def half(path: Path) -> UserPolicy:
        read = read_user_policy(path)
        watched.put(SECOND)
        monkeypatch.undo()
        return read

    watched.put("team: {users: 5}\n")
    monkeypatch.setattr("sunk_sync.service.user_policy.read_user_policy", half)
    await watched.watch.check()
    assert watched.policies == []
    await watched.watch.check()
    assert watched.policies == [read_user_policy(watched.path)]


async def test_the_namespaces_restricted_in_users_alone_are_logged_at_the_start_P5(
    watched: Watched,
) -> None:
    watched.put("open: 5\nteam: {root: true}\n")
    pauses: list[float] = []

    class OverError(Exception):
        pass

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        raise OverError

    with pytest.raises(OverError):
        await watched.watch.run(sleep)
    assert pauses == [CHECK_EVERY_S]
    first, second = watched.lines.entries
    assert (first["namespaces"], first["users_alone"]) == (1, None)
    assert (second["namespaces"], second["users_alone"]) == (2, "open")
