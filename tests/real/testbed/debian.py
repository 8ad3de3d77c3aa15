"""Requirements on a Debian machine: commands, root, and its package mirror."""

import os
import shutil
import subprocess
from pathlib import Path

from tests.real.testbed.errors import CannotRunError
from tests.real.testbed.progress import Progress

MIRROR_VARIABLE = "DEBIAN_MIRROR"
TARGET_FORMAT = "$(CREATED_BY) $(ORIGIN) $(LABEL) $(REPO_URI)"


def is_debian() -> bool:
    return Path("/etc/debian_version").exists() and shutil.which("apt-get") is not None


def require_root() -> None:
    if os.geteuid() != 0:
        raise CannotRunError("building Slurm needs root (debootstrap): run it as root")


def require_command(command: str, package: str, progress: Progress) -> None:
    """Install the package if the command is missing and this is Debian as root."""
    if shutil.which(command):
        return
    if not is_debian() or os.geteuid() != 0:
        raise CannotRunError(f"{command} is missing: apt-get install {package} (as root)")
    progress.say(command, f"missing; running apt-get install {package}")
    _require_lists(progress)
    _apt("install", "--yes", "--no-install-recommends", package)
    if not shutil.which(command):
        raise CannotRunError(f"{command} is not on PATH although {package} is installed")


def mirror(progress: Progress) -> str:
    """Return DEBIAN_MIRROR, else the mirror of this machine's apt."""
    if explicit := os.environ.get(MIRROR_VARIABLE):
        return explicit
    if not is_debian():
        raise CannotRunError(
            f"this is not Debian: set {MIRROR_VARIABLE} to the address of a Debian mirror"
        )
    _require_lists(progress)
    targets = subprocess.run(
        ["apt-get", "indextargets", "--format", TARGET_FORMAT], capture_output=True, text=True
    ).stdout
    for line in targets.splitlines():
        made_by, origin, label, *uri = line.split(" ", 3)
        if (made_by, origin, label) == ("Packages", "Debian", "Debian") and uri:
            return uri[0]
    raise CannotRunError(
        f"apt knows no Debian mirror (apt-get indextargets): set {MIRROR_VARIABLE} to one"
    )


def _require_lists(progress: Progress) -> None:
    if not any(Path("/var/lib/apt/lists").glob("*Release")):
        progress.say("apt", "no package lists; running apt-get update")
        _apt("update")


def _apt(*argv: str) -> None:
    done = subprocess.run(
        ["apt-get", *argv],
        capture_output=True,
        text=True,
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
    )
    if done.returncode:
        raise CannotRunError(f"apt-get {' '.join(argv)} failed: {done.stderr.strip()}")
