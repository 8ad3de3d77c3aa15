"""The Pythons of this machine: on the PATH, and the versions of pyenv."""

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

MINORS = range(11, 30)
"""Of Python 3, from the oldest that sunk-sync supports."""


@cache
def pythons() -> dict[tuple[int, int], Path]:
    """Return the working interpreters from 3.11 on, by version."""
    found: dict[tuple[int, int], Path] = {}
    for path in _candidates():
        version = _version(path)
        if version is not None and version[1] in MINORS:
            found.setdefault(version, path)
    return found


def _candidates() -> list[Path]:
    names = ["python3", *(f"python3.{minor}" for minor in MINORS)]
    on_path = [Path(place) for place in map(shutil.which, names) if place]
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    return [*on_path, *sorted(root.glob("versions/3.*/bin/python3"))]


def _version(python: Path) -> tuple[int, int] | None:
    """Return major and minor; a shim without a version behind it has none."""
    argv = [str(python), "-c", "import venv, ensurepip, sys; print(sys.version_info[:2])"]
    said = subprocess.run(argv, cwd="/", capture_output=True, text=True)
    major_minor = re.fullmatch(r"\((\d+), (\d+)\)", said.stdout.strip())
    return None if major_minor is None else (int(major_minor[1]), int(major_minor[2]))
