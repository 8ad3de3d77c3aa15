"""What the tests with real kubelets need of the machine, and how to get it."""

import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from tests.e2e import cgroups
from tests.e2e.images import BUSYBOX, build_images, images
from tests.real.testbed import cache, debian
from tests.real.testbed.bed import SLURM_DEFAULT
from tests.real.testbed.build import build, build_kubelet, build_local_path
from tests.real.testbed.errors import CannotRunError
from tests.real.testbed.progress import Progress
from tests.real.testbed.requirements import why_not

KUBE = cache.KUBE_VERSIONS[0]
PLUGINS = Path("/usr/lib/cni")
COMMANDS = {
    "ip": "iproute2",
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    str(PLUGINS / "ptp"): "containernetworking-plugins",
    str(BUSYBOX): "busybox-static",
}
"""command: its package on Debian"""


def why_no_kubelets(slurm: str = SLURM_DEFAULT) -> str | None:
    """Return why real kubelets cannot run here, or None if they can."""
    if reason := why_not(kube=KUBE, slurm=slurm, scheduler=True):
        return reason
    for command, package in COMMANDS.items():
        if shutil.which(command) is None:
            return f"{command} is missing: make e2e (or apt-get install {package})"
    if not cgroups.is_v1():
        return "this machine has cgroup v2 alone; these tests make the cgroups of v1"
    for artifact in (cache.kubelet(KUBE), cache.local_path(), images(slurm)):
        if not artifact.built:
            return f"{artifact.name} is not built: make e2e (or python -m tests.e2e)"
    return None


def build_all(slurm: Sequence[str], progress: Progress) -> None:
    """Build and install what is missing. CannotRunError says what the machine lacks."""
    steps: list[Callable[[], None]] = [
        partial(debian.require_command, command, package, progress)
        for command, package in COMMANDS.items()
    ]
    for step in steps:
        step()
    if not cgroups.is_v1():
        raise CannotRunError("it has cgroup v2 alone")
    build(KUBE, slurm, progress)
    build_kubelet(KUBE, progress)
    build_local_path(progress)
    for version in slurm:
        build_images(version, progress)
