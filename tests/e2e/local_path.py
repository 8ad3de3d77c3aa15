"""A real provisioner of volumes: local-path, the default of k3s, in a cluster with real kubelets.

It makes a folder on the selected Node with a Pod of its own, and gives the volume that Node's
affinity.
"""

import json
from pathlib import Path
from typing import Any

from tests.e2e.images import SLURMD
from tests.e2e.kubelets import Kubelets, Machine
from tests.real.testbed import KubeServer, cache
from tests.real.testbed.closing import Closing
from tests.real.testbed.sandbox import Daemon

CLASS = "local-path"
PROVISIONER = "rancher.io/local-path"
NAMESPACE = "local-path-storage"
CONFIG_MAP = "local-path-config"
SETUP = '#!/bin/sh\nset -eu\nmkdir -m 0777 -p "$VOL_DIR"\n'
TEARDOWN = '#!/bin/sh\nset -eu\nrm -rf "$VOL_DIR"\n'
HELPER: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "helper-pod"},
    "spec": {
        "automountServiceAccountToken": False,
        "dnsPolicy": "Default",
        "enableServiceLinks": False,
        "containers": [
            {"name": "helper-pod", "image": SLURMD.format(1), "imagePullPolicy": "Never"}
        ],
    },
}


class LocalPath(Closing):
    """Use as a context manager, in the network of the kubelets."""

    def __init__(self, kube: KubeServer, kubelets: Kubelets) -> None:
        self._kube = kube
        self._folders = {one.node: folder(one) for one in kubelets.machines}
        kube.ensure_namespace(NAMESPACE)
        for one in (self._storage_class(), self._config_map()):
            self._apply(one)
        self._daemon = self._start()

    def _storage_class(self) -> dict[str, Any]:
        return {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": CLASS},
            "provisioner": PROVISIONER,
            "volumeBindingMode": "WaitForFirstConsumer",
        }

    def _config_map(self) -> dict[str, Any]:
        paths = [{"node": node, "paths": [path]} for node, path in self._folders.items()]
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": CONFIG_MAP, "namespace": NAMESPACE},
            "data": {
                "config.json": json.dumps({"nodePathMap": paths}),
                "setup": SETUP,
                "teardown": TEARDOWN,
                "helperPod.yaml": json.dumps(HELPER),
            },
        }

    def _apply(self, one: dict[str, Any]) -> None:
        file = self._kube.directory / f"{one['metadata']['name']}.json"
        file.write_text(json.dumps(one))
        self._kube.kubectl("apply", "-f", file)

    def _start(self) -> Daemon:
        config = self._kube.directory / "local-path-nodes.json"
        config.write_text(self._config_map()["data"]["config.json"])
        argv: list[str | Path] = [
            *(cache.local_path().path / "local-path", "start"),
            f"--config={config}",
            f"--kubeconfig={self._kube.admin_kubeconfig}",
            f"--provisioner-name={PROVISIONER}",
            f"--namespace={NAMESPACE}",
            f"--configmap-name={CONFIG_MAP}",
            "--service-account-name=default",
            f"--helper-image={SLURMD.format(1)}",
        ]
        return self._kube.spawn_beside("local-path", argv)

    def close(self) -> None:
        self._daemon.stop()
        self._kube.kubectl("delete", "storageclass", CLASS)


def folder(machine: Machine) -> str:
    """Return where the volumes of this Node are."""
    return str(machine.folder / "volumes")
