"""The cgroups of one kubelet: a folder in each hierarchy of cgroup v1."""

import contextlib
import os
import re
import signal
import time
from pathlib import Path

from tests.real.testbed.errors import BedError

ROOT = Path("/sys/fs/cgroup")
PREFIX = "sunk-sync-e2e-"
WITHIN_S = 10


def name_of(node: str) -> str:
    """Return the name of the folder, with our PID: two runs at once do not share it."""
    return f"{PREFIX}{os.getpid()}-{node}"


def is_v1() -> bool:
    return any(v1_hierarchies())


def hierarchies() -> list[Path]:
    found = {path.resolve() for path in ROOT.iterdir() if path.is_dir()}
    return sorted(path for path in found if (path / "cgroup.procs").exists())


def v1_hierarchies() -> list[Path]:
    return [path for path in hierarchies() if (path / "tasks").exists()]


def make(name: str) -> None:
    for hierarchy in v1_hierarchies():
        folder = hierarchy / name
        folder.mkdir()
        for file in ("cpuset.cpus", "cpuset.mems"):
            if (folder / file).exists():  # without them no process can enter
                (folder / file).write_text((hierarchy / file).read_text())


def processes(name: str) -> list[int]:
    """Return the processes in it and below."""
    folders = [folder for one in hierarchies() if (folder := one / name).exists()]
    files = [file for folder in folders for file in folder.rglob("cgroup.procs")]
    return sorted({int(line) for file in files for line in file.read_text().split()})


def kill(name: str) -> None:
    """End all its processes with SIGKILL."""
    end = time.monotonic() + WITHIN_S
    while left := processes(name):
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > end:
            raise BedError(f"processes do not end: {left}")
        time.sleep(0.05)


def remove(name: str) -> None:
    """Remove it once its processes have ended, also where runc made one: in a v2 beside v1."""
    end = time.monotonic() + WITHIN_S
    while left := [folder for hierarchy in hierarchies() if (folder := hierarchy / name).exists()]:
        for folder in left:
            _remove(folder)
        if time.monotonic() > end:
            raise BedError(f"cgroups are left: {', '.join(map(str, left))}")
        time.sleep(0.05)


def _remove(folder: Path) -> None:
    for below, _, _ in os.walk(folder, topdown=False):
        with contextlib.suppress(OSError):  # the kernel ends its processes at this moment
            os.rmdir(below)


def sweep() -> None:
    """Remove what killed runs have left."""
    for hierarchy in hierarchies():
        for folder in hierarchy.glob(PREFIX + "*"):
            found = re.match(rf"{PREFIX}(\d+)-", folder.name)
            if found and not Path(f"/proc/{found[1]}").exists():
                _remove(folder)
