"""The Pod of deploy/manifests as podman runs it: what a kubelet would give it, and no more."""

import os
import re
import time
from pathlib import Path
from typing import Any

import yaml

from tests.image.podman import Podman
from tests.real.service import MANIFESTS, NAMESPACE, READY_DEADLINE_S, get, log_lines
from tests.real.testbed import Bed
from tests.real.testbed.sandbox import wait_until

NAME = "sunk-sync"
ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
USER = 65532
POD_SECURITY = {
    "runAsNonRoot": True,
    "runAsUser": USER,
    "runAsGroup": USER,
    "fsGroup": USER,
    "seccompProfile": {"type": "RuntimeDefault"},
}
SECURITY = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
SECURITY_FLAGS = (
    f"--user={USER}:{USER}",
    "--read-only",
    "--read-only-tmpfs=false",
    "--cap-drop=all",
    "--security-opt=no-new-privileges",
)
"""The same for podman, whose default is the seccomp profile of a container runtime."""


def manifest(name: str) -> Any:
    return yaml.safe_load((MANIFESTS / f"{name}.yaml").read_text())


class Pod:
    """`start` runs it against a test bed where the manifests are applied."""

    def __init__(self, podman: Podman, bed: Bed, tag: str) -> None:
        self._podman, self._bed, self._tag = podman, bed, tag
        self._folder = podman.directory / "pod"
        self._spec = manifest("deployment")["spec"]["template"]["spec"]
        (self._container,) = self._spec["containers"]
        assert self._spec["securityContext"] == POD_SECURITY
        assert self._container["securityContext"] == SECURITY
        self.seconds_to_ready = 0.0

    def start(self) -> None:
        begin_s = time.monotonic()
        self._daemon = self._podman.spawn(NAME, "run", "--rm", f"--name={NAME}", *self._flags())
        wait_until(
            self._ready, "the Pod ready", deadline_s=READY_DEADLINE_S, daemons=[self._daemon]
        )
        self.seconds_to_ready = time.monotonic() - begin_s

    def _ready(self) -> bool:
        opened = [line for line in self.log() if line.get("event") == "metrics server open"]
        return bool(opened) and get(opened[0]["health"], "/readyz")[0] == 200

    def log(self) -> list[dict[str, Any]]:
        return log_lines(self._podman.directory / f"{NAME}.log")

    def execute(self, *argv: str) -> str:
        """Run a command in the container, as `kubectl exec` does. BedError if it fails."""
        return self._podman.run("exec", NAME, *argv)

    def status(self) -> dict[str, str]:
        """Return what the kernel says of its process."""
        text = self.execute("cat", "/proc/1/status")
        return dict(re.findall(r"^(\w+):\s+(.*)$", text, re.MULTILINE))

    def stop(self) -> float:
        """End it as a kubelet does; return the seconds. No effect if it has ended."""
        begin_s = time.monotonic()
        if not self._daemon.running:
            return 0
        grace_s = self._spec["terminationGracePeriodSeconds"]
        self._podman.run("stop", f"--time={grace_s}", NAME)
        wait_until(lambda: not self._daemon.running, "the Pod ended", deadline_s=30)
        return time.monotonic() - begin_s

    def _flags(self) -> list[str | Path]:
        memory = self._container["resources"]["limits"]["memory"].replace("Mi", "m")
        return [
            *SECURITY_FLAGS,
            f"--memory={memory}",
            "--network=host",
            *(f"--env={name}={value}" for name, value in self._variables().items()),
            *(f"--volume={file}:{path}:ro" for path, file in self._volumes().items()),
            self._tag,
            *self._container["args"],
        ]

    def _variables(self) -> dict[str, str]:
        own = {one["name"]: one["value"] for one in self._container["env"]}
        addresses = ("METRICS_BIND", "HEALTH_PROBE_BIND", "HOOKS_API_BIND")
        return {
            **own,
            **{f"SUNK_SYNC_{name}_ADDRESS": "127.0.0.1:0" for name in addresses},
            "SUNK_SYNC_SLURM_API_BASE": self._bed.slurm.url,
            "SUNK_SYNC_LOG_FORMAT": "json",
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": str(self._bed.kube.port),
        }

    def _volumes(self) -> dict[str, Path]:
        """Write what is mounted; return the folders by their path in the container."""
        kube = self._bed.kube
        paths = {one["name"]: one["mountPath"] for one in self._container["volumeMounts"]}
        account = {
            "token": kube.token_for(NAME, NAMESPACE),
            "ca.crt": kube.ca_file.read_text(),
            "namespace": NAMESPACE,
        }
        return {
            paths["config"]: self._write("config", manifest("configmap")["data"]),
            paths["token"]: self._write("token", {"token": self._bed.slurm.token()}),
            ACCOUNT: self._write("account", account),
        }

    def _write(self, name: str, files: dict[str, str]) -> Path:
        """Write a volume as a kubelet does: of root and of the group fsGroup."""
        folder = self._folder / name
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in files.items():
            path = folder / file
            path.touch(mode=0o440)
            path.write_text(text)
            os.chown(path, 0, USER)
        return folder
