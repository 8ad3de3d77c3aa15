"""The cache of built servers: one folder per version and recipe, complete or absent."""

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.real.testbed.accounting import MAKE_DATABASE

GO = Path(__file__).parents[1] / "go"
KUBE_VERSIONS = ("1.35.4", "1.30.14")
KUBE_DEFAULT = os.environ.get("KUBE") or KUBE_VERSIONS[0]
CHART_TOOLS = {
    "helm": "helm.sh/helm/v3/cmd/helm",
    "kubeconform": "github.com/yannh/kubeconform/cmd/kubeconform",
}
# Each manager, with its package. They need different versions of the same libraries, so there are
# three modules.
CONTROLLERS = {
    "jobset": "sigs.k8s.io/jobset",
    "lws": "sigs.k8s.io/lws/cmd",
}
KUEUE = {"kueue": "sigs.k8s.io/kueue/cmd/kueue"}
FRAMEWORKS = {
    "kuberay": "github.com/ray-project/kuberay/ray-operator",
    "trainer": "github.com/kubeflow/trainer/v2/cmd/trainer-controller-manager",
}
LOCAL_PATH = "github.com/rancher/local-path-provisioner"
MANIFESTS = {"kuberay": "config/crd", "trainer": "manifests/base/crds"}
"""Folder of a module with the kinds of its manager, where it is not the default."""
MANIFESTS_DEFAULT = "config/default"
# The Kubernetes of `helm template`; without these helm renders for 1.20.
HELM_VALUES = {
    "helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor": "1",
    "helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor": "35",
    "helm.sh/helm/v3/pkg/lint/rules.k8sVersionMajor": "1",
    "helm.sh/helm/v3/pkg/lint/rules.k8sVersionMinor": "35",
}
# Debian suites change: the build checks the version that the suite provides.
SLURM_SUITES = {"26.05": "forky", "24.11": "trixie"}
SLURM_PACKAGES = (
    "slurmctld,slurmd,slurmrestd,slurmdbd,slurm-client,munge,slurm-wlm-jwt-plugin,"
    "slurm-wlm-basic-plugins,slurm-wlm-mysql-plugin,mariadb-server-core,curl"
)

GET_PROMTOOL = """
cd "$1" && apt-get download prometheus && dpkg-deb --extract prometheus_*.deb root &&
mv root/usr/bin/promtool . && rm -r root prometheus_*.deb
"""
IMAGE_COMMANDS = ("podman", "runc")
BROWSER = "chromium"
# A stand-in for the image python:3.13-slim: the same Debian and Python, with pip, not compiled.
IMAGE_BASE_SUITE = "trixie"
IMAGE_BASE_PACKAGES = "ca-certificates,python3,python3-venv"
MAKE_IMAGE_BASE = """
wheels=/usr/share/python-wheels
PYTHONPATH=$(echo $wheels/pip-*.whl) python3 -m pip install --quiet --no-index \
  --find-links=$wheels --break-system-packages --root-user-action=ignore pip
rm -rf /var/cache/apt /var/lib/apt/lists /var/log/*
find / -xdev -name __pycache__ -prune -exec rm -r {} +
"""


def root() -> Path:
    if explicit := os.environ.get("TESTBED_CACHE"):
        return Path(explicit)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sunk-sync/testbed"


@dataclass(frozen=True)
class Artifact:
    """A folder of the cache. A changed recipe changes its name, so it is built again."""

    name: str
    recipe: str

    @property
    def path(self) -> Path:
        digest = hashlib.sha256(self.recipe.encode()).hexdigest()[:8]
        return root() / f"{self.name}-{digest}"

    @property
    def log(self) -> Path:
        return root() / f"{self.name}.log"

    @property
    def built(self) -> bool:
        return self.path.is_dir()

    def ensure(self, build: Callable[[Path], None]) -> bool:
        """Build into a temporary folder and rename it; return False if it existed already.

        If two processes build at once, the second waits and finds the result.
        """
        if self.built:
            return False
        root().mkdir(parents=True, exist_ok=True)
        with self._lock():
            return self._build(build)

    def _build(self, build: Callable[[Path], None]) -> bool:
        if self.built:  # by another process in the meantime
            return False
        for left in root().glob(f".{self.name}-*.part"):  # of a build that was killed
            shutil.rmtree(left)
        part = Path(tempfile.mkdtemp(prefix=f".{self.name}-", suffix=".part", dir=root()))
        part.chmod(0o755)
        try:
            build(part)
            part.rename(self.path)
        finally:
            shutil.rmtree(part, ignore_errors=True)
        return True

    @contextmanager
    def _lock(self) -> Iterator[None]:
        with (root() / f".{self.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def kube(version: str) -> Artifact:
    """kube-apiserver, kube-controller-manager, kubectl and etcd of one Kubernetes version."""
    return Artifact(f"kube-{version}", _module(f"kube-{version}"))


def kube_scheduler(version: str) -> Artifact:
    """kube-scheduler alone, so that the other servers need not be built again for it."""
    return Artifact(f"kube-scheduler-{version}", kube(version).recipe)


def kubelet(version: str = KUBE_VERSIONS[0]) -> Artifact:
    """A real kubelet, for tests/e2e. It needs modules that the other servers do not have."""
    return Artifact(f"kubelet-{version}", _module(f"kubelet-{version}"))


def local_path() -> Artifact:
    """A real provisioner of volumes, for tests/e2e: local-path, as in k3s."""
    return Artifact("local-path", f"{LOCAL_PATH} {_module('local-path')}")


def chart_tools() -> Artifact:
    """helm and kubeconform, for the tests of the chart."""
    return Artifact("chart-tools", f"{HELM_VALUES} {_module('chart-tools')}")


def controllers() -> Artifact:
    """The managers of JobSet and LeaderWorkerSet, with their manifests."""
    return Artifact("controllers", f"{CONTROLLERS} {_module('controllers')}")


def kueue() -> Artifact:
    """The manager of Kueue, with its manifests."""
    return Artifact("kueue", f"{KUEUE} {_module('kueue')}")


def frameworks() -> Artifact:
    """The managers of KubeRay and Kubeflow Trainer, with their kinds."""
    return Artifact("frameworks", f"{FRAMEWORKS} {MANIFESTS} {_module('frameworks')}")


def with_manager(name: str) -> Artifact:
    """Return the artifact with the manager of this name."""
    if name in FRAMEWORKS:
        return frameworks()
    return kueue() if name in KUEUE else controllers()


def promtool() -> Artifact:
    """promtool of Debian, for the tests of the alerts."""
    return Artifact("promtool", GET_PROMTOOL)


def image_base() -> Artifact:
    """A root file system with Python as a tar file, from which the tests build the image."""
    return Artifact("image-base", f"{IMAGE_BASE_SUITE} {IMAGE_BASE_PACKAGES} {MAKE_IMAGE_BASE}")


def _module(name: str) -> str:
    return "".join((GO / name / file).read_text() for file in ("go.mod", "go.sum"))


def slurm(version: str) -> Artifact:
    """A Debian root with all of Slurm and an empty MariaDB."""
    recipe = f"{SLURM_SUITES[version]} {SLURM_PACKAGES} {MAKE_DATABASE}"
    return Artifact(f"slurm-{version}", recipe)
