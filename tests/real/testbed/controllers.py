"""The real controllers of JobSet, LeaderWorkerSet, Kueue, KubeRay and Kubeflow Trainer.

A cluster would run them in Pods. Here they are processes, so the API server calls their webhooks by
URL, not by Service. The webhooks of KubeRay and Trainer only check their objects: nothing calls
them.
"""

import base64
import json
import socket
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import yaml

from tests.real.testbed import cache
from tests.real.testbed.closing import Closing
from tests.real.testbed.errors import BedError
from tests.real.testbed.kube import KubeServer
from tests.real.testbed.kube_objects import Object, status_of
from tests.real.testbed.ports import Ports
from tests.real.testbed.sandbox import Daemon, wait_until

KINDS = ("CustomResourceDefinition",)
WEBHOOKS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
CONFIGURATIONS: Mapping[str, Object] = {
    "jobset": {"apiVersion": "config.jobset.x-k8s.io/v1alpha1"},
    "lws": {"apiVersion": "config.lws.x-k8s.io/v1alpha1"},
    "kueue": {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "integrations": {"frameworks": ["batch/job", "pod"]},
        # Its server would need an aggregated API.
        "featureGates": {"VisibilityOnDemand": False},
    },
}
FRAMEWORK_FLAGS: Mapping[str, tuple[str, ...]] = {
    "kuberay": ("--metrics-addr=127.0.0.1:0", "--enable-leader-election=false"),
    "trainer": (),
}
TRAINER_OBJECTS: tuple[Object, ...] = (
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kubeflow-system"}},
    {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "kubeflow-trainer-webhook-cert", "namespace": "kubeflow-system"},
    },
    {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "validator.trainer.kubeflow.org"},
    },
)
"""Trainer starts no controller before it has made certificates and put them here."""
TRAINER_CERTIFICATES = "/tmp/k8s-webhook-server"
IN_ITS_TMP = f"""
mkdir -p {TRAINER_CERTIFICATES} && mount -t tmpfs tmpfs {TRAINER_CERTIFICATES} &&
mkdir {TRAINER_CERTIFICATES}/serving-certs &&
cp "$0"/tls.* {TRAINER_CERTIFICATES}/serving-certs && exec "$@"
"""
METRICS_CERTIFICATES = "/etc/kueue/metrics/certs"
"""Kueue reads them here, whatever its settings say."""
IN_ITS_ETC = f"""
mount -t tmpfs tmpfs /etc && mkdir -p {METRICS_CERTIFICATES} &&
cp "$0"/tls.* {METRICS_CERTIFICATES} && exec "$@"
"""
DEADLINE_S = 60


class Controllers(Closing):
    """Starts managers; they end with the control plane."""

    def __init__(self, kube: KubeServer) -> None:
        self._kube = kube
        self._ports = Ports()
        self._certificates = kube.directory / "webhooks"
        self._certificates.mkdir()
        for name, file in (("tls.crt", "apiserver.crt"), ("tls.key", "apiserver.key")):
            (self._certificates / name).write_bytes((kube.directory / file).read_bytes())

    def start(self, *names: str) -> None:
        """Start these at once."""
        with ThreadPoolExecutor(len(names)) as threads:
            list(threads.map(self._start, names))

    def _start(self, name: str) -> None:
        """Install the kinds of this controller, start its manager, then let webhooks call it."""
        artifact = cache.with_manager(name)
        if not artifact.built:
            raise BedError(f"{artifact.name} is not built: make testbed")
        port = self._ports.take()
        folder = cache.MANIFESTS.get(name, cache.MANIFESTS_DEFAULT).partition("/")[2]
        made = list(
            yaml.safe_load_all(
                self._kube.kubectl("kustomize", artifact.path / f"{name}-config" / folder)
            )
        )
        self._call_by_url(made, f"https://127.0.0.1:{port}")
        self._apply(name, [one for one in made if one["kind"] in KINDS])
        if name == "trainer":
            self._apply("trainer-certificates", list(TRAINER_OBJECTS))
        spawn = self._spawn_framework if name in cache.FRAMEWORKS else self._spawn
        daemon = spawn(name, artifact.path / name, port)
        wait_until(
            lambda: _answers(port), f"{name} answers", deadline_s=DEADLINE_S, daemons=[daemon]
        )
        self._apply(f"{name}-webhooks", [one for one in made if one["kind"] in WEBHOOKS])

    def _call_by_url(self, part: Any, url: str) -> None:
        """Replace each Service in a client's configuration, wherever it stands."""
        for one in part.values() if isinstance(part, dict) else part:
            if isinstance(one, dict) and "service" in one.get("clientConfig", {}):
                path = one["clientConfig"]["service"]["path"]
                bundle = base64.b64encode(self._kube.ca_file.read_bytes()).decode()
                one["clientConfig"] = {"url": url + path, "caBundle": bundle}
            elif isinstance(one, dict | list):
                self._call_by_url(one, url)

    def _apply(self, name: str, objects: list[Object]) -> None:
        if not objects:
            return
        file = self._kube.directory / f"{name}.json"
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
        # The kinds are too large for the annotation of a plain apply.
        self._kube.kubectl("apply", "--server-side", "-f", file)
        for one in objects:
            if one["kind"] in KINDS:
                self._wait_for_kind(one["metadata"]["name"])

    def _wait_for_kind(self, name: str) -> None:
        path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}"
        wait_until(
            lambda: status_of(self._kube.rest.call("GET", path), "Established") == "True",
            f"the kind {name}",
            deadline_s=DEADLINE_S,
        )

    def _spawn(self, name: str, binary: Path, port: int) -> Daemon:
        configuration = {
            "kind": "Configuration",
            "leaderElection": {"leaderElect": False},
            "internalCertManagement": {"enable": False},
            "health": {"healthProbeBindAddress": f"127.0.0.1:{self._ports.take()}"},
            "metrics": {"bindAddress": "0"},
            "webhook": {"host": "127.0.0.1", "port": port, "certDir": str(self._certificates)},
            **CONFIGURATIONS[name],
        }
        file = self._kube.directory / f"{name}-configuration.json"
        file.write_text(json.dumps(configuration))
        argv: list[str | Path] = [
            *("unshare", "--mount", "sh", "-c", IN_ITS_ETC, self._certificates),
            *(binary, f"--config={file}"),
        ]
        return self._kube.spawn_beside(name, argv)

    def _spawn_framework(self, name: str, binary: Path, port: int) -> Daemon:
        """Start one that has flags; it answers when its health is asked."""
        address = f"--health-probe-bind-address=127.0.0.1:{port}"
        argv: list[str | Path] = [binary, address, *FRAMEWORK_FLAGS[name]]
        if name == "trainer":
            webhooks = f"--webhook-server-port={self._ports.take()}"
            own = ("unshare", "--mount", "sh", "-c", IN_ITS_TMP, self._certificates)
            argv = [*own, *argv, webhooks]
        return self._kube.spawn_beside(name, argv)

    def close(self) -> None:
        self._ports.close()


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
