"""Requirements of the test bed on the machine; says exactly what is missing."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.real.testbed import cache
from tests.real.testbed.bed import SLURM_DEFAULT

# command: how to get it
COMMANDS = {
    "unshare": "apt-get install util-linux",
    "nsenter": "apt-get install util-linux",
    "setpriv": "apt-get install util-linux",
    "openssl": "apt-get install openssl",
}
TRY_OVERLAY = """
mount -t tmpfs tmpfs "$1" && cd "$1" && mkdir lower upper work root &&
mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work root
"""


def why_not(
    *,
    kube: str | None = cache.KUBE_DEFAULT,
    slurm: str | None = SLURM_DEFAULT,
    scheduler: bool = False,
) -> str | None:
    """Return why servers of these versions cannot run here, or None if they can (built, as root).

    `scheduler`: include kube-scheduler of that Kubernetes version.
    """
    wanted = [cache.kube(kube)] if kube else []
    wanted += [cache.kube_scheduler(kube)] if kube and scheduler else []
    wanted += [cache.slurm(slurm)] if slurm else []
    return why_not_run() or why_not_built(wanted)


def why_not_image() -> str | None:
    """Return why the image cannot be built and run here, or None if it can."""
    missing = next(filter(None, map(why_not_command, cache.IMAGE_COMMANDS)), None)
    return missing or why_not_run() or why_not_built([cache.image_base()])


def why_not_command(command: str) -> str | None:
    """Return why a command that `make testbed` installs cannot run here, or None if it can."""
    if shutil.which(command) is None:
        return f"{command} is missing: make testbed (or apt-get install {command})"
    return None


def why_not_run() -> str | None:
    """Return what the machine lacks to run servers, built or not."""
    if not Path("/proc/self/ns/pid").exists():
        return "the test bed needs Linux with namespaces"
    if os.geteuid() != 0:
        return "the test bed needs root: it starts slurmd and makes mounts"
    for command, cure in COMMANDS.items():
        if shutil.which(command) is None:
            return f"{command} is missing: {cure}"
    return _why_no_namespaces()


def _why_no_namespaces() -> str | None:
    with tempfile.TemporaryDirectory() as directory:
        done = subprocess.run(
            ["unshare", "--mount", "--pid", "--fork", "sh", "-c", TRY_OVERLAY, "sh", directory],
            capture_output=True,
            text=True,
        )
    if done.returncode == 0:
        return None
    return (
        "this machine does not allow private mounts or overlayfs "
        f"({done.stderr.strip()}): run as root on a virtual machine or in a privileged container"
    )


def why_not_built(wanted: Sequence[cache.Artifact]) -> str | None:
    """Return the first of these that is not in the cache, and how to build it."""
    for artifact in wanted:
        if not artifact.built:
            return f"{artifact.name} is not built: make testbed (or python -m tests.real build)"
    return None
