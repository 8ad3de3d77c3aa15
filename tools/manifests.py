"""Renews deploy/{manifests,all-pods,lock,nodesets} from the chart: `python -m tools.manifests`.

It needs helm 3: `make testbed` builds one.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.real.testbed.cache import chart_tools
from tools.chart import CHART, DEPLOY

Template = Callable[..., str]
"""Runs `helm template sunk-sync CHART --namespace slurm` with further flags."""

HEADER = "# Made by `python -m tools.manifests` from deploy/helm/sunk-sync. Do not edit.\n"
ALL_PODS = "all-pods.yaml"
LOCK = "lock.yaml"
NODE_SETS = {
    "nodesets.yaml": "roles.yaml",
    "nodesets-crd.yaml": "crd.yaml",
    "nodesets-objects.yaml": "objects.yaml",
}
"""Template → file in deploy/nodesets."""
_SOURCE = re.compile(r"^---\n# Source: sunk-sync/templates/(\S+)\n", re.MULTILINE)
_HELM_ONLY = re.compile(
    r"^  annotations:\n    helm\.sh/resource-policy: keep\n"
    r"|^ +(?:app\.kubernetes\.io/managed-by|helm\.sh/chart): .*\n",
    re.MULTILINE,
)


def rendered(template: Template) -> Mapping[Path, str]:
    """Return the files with their texts, without the labels and annotations of Helm."""
    files = {DEPLOY / "manifests" / name: text for name, text in _by_file(template()).items()}
    wider = _by_file(template("--set", "scheduler.watchAllPods=true"))
    with_lock = _by_file(template("--set", "lock.enabled=true"))
    with_node_sets = _by_file(template("--set", "nodesets.enabled=true"))
    return (
        files
        | {DEPLOY / "all-pods" / "roles.yaml": wider[ALL_PODS]}
        | {DEPLOY / "lock" / "roles.yaml": with_lock[LOCK]}
        | {DEPLOY / "nodesets" / file: with_node_sets[name] for name, file in NODE_SETS.items()}
    )


def _by_file(text: str) -> dict[str, str]:
    """Split the output of helm by template."""
    _, *parts = _SOURCE.split(_HELM_ONLY.sub("", text))
    files: dict[str, list[str]] = {}
    for name, document in zip(parts[::2], parts[1::2], strict=True):
        files.setdefault(name, []).append(document.strip("\n") + "\n")
    return {name: HEADER + "---\n".join(documents) for name, documents in files.items()}


def _helm() -> str:
    built = chart_tools().path / "helm"
    found = str(built) if built.exists() else shutil.which("helm")
    if not found:
        sys.exit("helm is missing: make testbed, or put helm 3 on PATH")
    return found


def _template(*flags: str) -> str:
    command = [_helm(), "template", "sunk-sync", str(CHART), "--namespace", "slurm", *flags]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


if __name__ == "__main__":
    for path, content in rendered(_template).items():
        path.write_text(content, encoding="utf-8")
