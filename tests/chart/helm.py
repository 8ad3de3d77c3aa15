"""Helm as a process, without files of the user."""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.real.testbed import cache
from tests.real.testbed.errors import BedError
from tools.chart import CHART

Values = Mapping[str, Any]
Object = dict[str, Any]
DEADLINE_S = 60
RELEASE = "sunk-sync"
NAMESPACE = "slurm"


class Helm:
    """The helm of the cache; `home` is a folder for its own files."""

    def __init__(self, home: Path, kubeconfig: Path | None = None) -> None:
        self._command = helm_command(home, kubeconfig)

    def run(self, *words: str | Path, values: Values | None = None) -> str:
        """Return the output of a helm command. BedError with its errors if it fails."""
        values_file = ["--values", "-"] if values is not None else []
        done = subprocess.run(
            [*self._command, *words, *values_file],
            input=json.dumps(values),
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
        )
        if done.returncode:
            raise BedError((done.stderr + done.stdout).strip())
        return done.stdout

    def template(
        self, values: Values, *flags: str, release: str = RELEASE, namespace: str = NAMESPACE
    ) -> str:
        """Render the chart."""
        where = ("--namespace", namespace)
        return self.run("template", release, CHART, *where, *flags, values=values)

    def objects(self, values: Values, **names: str) -> list[Object]:
        """Render the chart; return its objects."""
        return [one for one in yaml.safe_load_all(self.template(values, **names)) if one]


def helm_command(home: Path, kubeconfig: Path | None) -> list[str | Path]:
    """Return the command that runs helm with its own files in `home` and nothing of the user."""
    variables = {f"HELM_{name}_HOME": home / name for name in ("CACHE", "CONFIG", "DATA")}
    variables["HOME"] = home
    if kubeconfig:
        variables["KUBECONFIG"] = kubeconfig
    set_here = [f"{name}={value}" for name, value in variables.items()]
    return ["env", "--ignore-environment", *set_here, cache.chart_tools().path / "helm"]


def of_kind(objects: list[Object], kind: str) -> list[Object]:
    return [one for one in objects if one["kind"] == kind]


def the(objects: list[Object], kind: str) -> Object:
    """Return the only object of this kind."""
    (one,) = of_kind(objects, kind)
    return one
