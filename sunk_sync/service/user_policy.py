"""Read the file of --user-policy again when it changes; a wrong version changes nothing (P5)."""

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, Protocol

import anyio
import anyio.to_thread

from sunk_sync.core.model.facts import Tell
from sunk_sync.core.model.user_policy import PolicyRead, UserPolicy
from sunk_sync.settings.types import PolicyFile, read_user_policy

CHECK_EVERY_S: Final = 2.0
"""The kubelet itself takes up to a minute to bring a changed ConfigMap to its mounts."""

Stamp = tuple[int, ...]


class Journal(Protocol):
    def policy_applied(self, policy: UserPolicy) -> None:
        """Report that a policy applies from now on."""

    def policy_wrong(self, why: str) -> None:
        """Report what is wrong with the file; empty: nothing is."""


class PolicyWatch:
    """Follows one file. A mounted ConfigMap is a link to a new file after each change."""

    def __init__(self, file: PolicyFile, *, tell: Tell, journal: Journal) -> None:
        self._path = file.path
        self._applied = file.policy
        self._tell = tell
        self._journal = journal
        self._seen: Stamp | None = None
        """Of the version that was read last. The first check reads the file in any case."""

    async def run(self, sleep: Callable[[float], Awaitable[None]] = anyio.sleep) -> None:
        self._journal.policy_applied(self._applied)
        while True:
            await self.check()
            await sleep(CHECK_EVERY_S)

    async def check(self) -> None:
        """Read the file if it changed. A thread does this: the file may be large or slow."""
        read = await anyio.to_thread.run_sync(_read, self._path, self._seen)
        if read is None:
            return
        self._seen, found = read
        self._journal.policy_wrong(found if isinstance(found, str) else "")
        if isinstance(found, UserPolicy) and found != self._applied:
            self._applied = found
            await self._tell((PolicyRead(found),))
            self._journal.policy_applied(found)


def _read(path: Path, seen: Stamp | None) -> tuple[Stamp, UserPolicy | str] | None:
    """Return another version than the seen one, or what is wrong with it; None: there is none."""
    stamp = _stamp(path)
    if stamp == seen:
        return None
    try:
        found: UserPolicy | str = read_user_policy(path)
    except ValueError as error:
        found = str(error)
    return (stamp, found) if _stamp(path) == stamp else None  # else somebody still writes it


def _stamp(path: Path) -> Stamp:
    try:
        status = os.stat(path)
    except OSError:
        return ()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
