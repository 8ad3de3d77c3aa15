"""A small kubelet for the Pods of sunk-sync: each runs from the built image, as its spec says.

It reads Pods from the API server as controllers made them and a scheduler bound them. It mounts
their volumes, starts their container, asks their probes, reports their status, restarts what
ended, and ends what is deleted.
"""

import base64
import contextlib
import os
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.image.network import PodNetwork, PodPlace
from tests.image.pod import POD_SECURITY, SECURITY, SECURITY_FLAGS, USER
from tests.image.podman import Podman
from tests.real.testbed import BedError, KubeServer
from tests.real.testbed.closing import Closing
from tests.real.testbed.kube_objects import Object, condition
from tests.real.testbed.rest import RestError
from tests.real.testbed.sandbox import Daemon

PODS = "labelSelector=app.kubernetes.io/name=sunk-sync&fieldSelector=spec.nodeName!="
LOOK_EVERY_S = 0.2
RESTART_AFTER_S = 1.0
MOUNT_AGAIN_S = 1.0


class MissingError(Exception):
    """A volume names an object that does not exist."""


class Kubelet(Closing):
    """For all Nodes. `hosts`: names that the Pods know, as from a name server."""

    def __init__(
        self, kube: KubeServer, podman: Podman, network: PodNetwork, *, hosts: Mapping[str, str]
    ) -> None:
        self.kube, self.podman, self.network, self.hosts = kube, podman, network, hosts
        self.runs: dict[str, PodRun] = {}
        """By the UID of the Pod."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look_always, daemon=True)
        self._thread.start()

    def _look_always(self) -> None:
        while not self._stop.wait(LOOK_EVERY_S):
            with contextlib.suppress(OSError, RestError):
                self._look()

    def _look(self) -> None:
        for pod in self.kube.rest.call("GET", f"/api/v1/pods?{PODS}")["items"]:
            uid = pod["metadata"]["uid"]
            if uid not in self.runs:
                self.runs[uid] = PodRun(self, pod)
            if "deletionTimestamp" in pod["metadata"]:
                self.runs[uid].ending.set()

    def one(self) -> "PodRun":
        """Return a Pod that is ready, as `kubectl exec deployment/…` takes any."""
        return next(run for run in self.runs.values() if run.ready and not run.ending.is_set())

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        for run in self.runs.values():
            run.ending.set()
        for run in self.runs.values():
            run.thread.join()


class PodRun:
    """One Pod, from the moment it is bound until its object is removed."""

    def __init__(self, kubelet: Kubelet, pod: Object) -> None:
        self._kubelet, self._pod = kubelet, pod
        self.name, self._namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        (self._container,) = pod["spec"]["containers"]
        self.ready = False
        self.ending = threading.Event()
        """Set when the Pod is deleted."""
        self.starts = 0
        self.stopped_s = 0.0
        """Seconds from SIGTERM to the end."""
        self.exit_codes: list[int] = []
        """Of containers that ended by themselves."""
        self.thread = threading.Thread(target=self._live, daemon=True)
        self.thread.start()

    @property
    def running(self) -> bool:
        """Whether its object is there, as far as it knows."""
        return self.thread.is_alive()

    @property
    def log(self) -> str:
        return "".join(
            (self._kubelet.podman.directory / f"{self.name}-{start}.log").read_text()
            for start in range(1, self.starts + 1)
        )

    def execute(self, *argv: str) -> str:
        """Run a command in the container, as `kubectl exec` does."""
        return self._kubelet.podman.run("exec", f"{self.name}-{self.starts}", *argv)

    def _live(self) -> None:
        place = self._kubelet.network.attach(self.name)
        while not self.ending.is_set():
            try:
                flags = [*self._flags(place), *self._volumes()]
            except MissingError as error:
                self._waits(str(error))
                self.ending.wait(MOUNT_AGAIN_S)
                continue
            self._run_once(place, flags)
            self.ending.wait(RESTART_AFTER_S)
        place.holder.stop()
        self._remove()

    def _run_once(self, place: PodPlace, flags: list[str]) -> None:
        self.starts += 1
        name = f"{self.name}-{self.starts}"
        argv = [*flags, f"--name={name}", self._container["image"], *self._container["args"]]
        daemon = self._kubelet.podman.spawn(name, "run", "--rm", "--pull=never", *argv)
        self._report(place.address, since=_now())
        alive = self._probe_until_dead(place.address, daemon)
        if alive:
            self._end(name, daemon)
        else:
            self.exit_codes.append(daemon.reap())
        self.ready = False

    def _probe_until_dead(self, address: str, daemon: Daemon) -> bool:
        """Return whether it lives at the end: the Pod is deleted, or it is to be restarted."""
        kinds = ("startupProbe", "livenessProbe", "readinessProbe")
        started, alive, ready = (Probe(self._container, kind) for kind in kinds)
        since = _now()
        while not self.ending.wait(0.1):
            if not daemon.running:
                return False
            if not started.succeeded:
                if started.due() and not started.holds(address):
                    return True
                continue
            if alive.due() and not alive.holds(address):
                return True
            if ready.due() and ready.holds(address) != self.ready:
                self.ready = not self.ready
                self._report(address, since=since)
        return daemon.running

    def _end(self, name: str, daemon: Daemon) -> None:
        began_s = time.monotonic()
        grace_s = self._pod["spec"]["terminationGracePeriodSeconds"]
        with contextlib.suppress(BedError):  # it ended by itself meanwhile
            self._kubelet.podman.run("stop", f"--time={grace_s}", name)
        daemon.reap()
        self.stopped_s = time.monotonic() - began_s

    def _flags(self, place: PodPlace) -> list[str]:
        spec, container = self._pod["spec"], self._container
        assert spec["securityContext"] == POD_SECURITY
        assert container["securityContext"] == SECURITY
        memory = container["resources"]["limits"]["memory"].replace("Mi", "m")
        variables = {one["name"]: one["value"] for one in container["env"]}
        variables["KUBERNETES_SERVICE_HOST"] = "kubernetes.default.svc"
        variables["KUBERNETES_SERVICE_PORT"] = "443"
        return [
            *SECURITY_FLAGS,
            f"--memory={memory}",
            f"--network=ns:{place.namespace}",
            f"--hostname={self.name}",
            *(f"--add-host={name}:{to}" for name, to in self._kubelet.hosts.items()),
            *(f"--env={name}={value}" for name, value in variables.items()),
        ]

    def _volumes(self) -> list[str]:
        volumes = {one["name"]: one for one in self._pod["spec"]["volumes"]}
        flags = []
        for mount in self._container["volumeMounts"]:
            folder = self._kubelet.podman.directory / "pods" / self.name / mount["name"]
            _write(folder, dict(self._files(volumes[mount["name"]])))
            flags.append(f"--volume={folder}:{mount['mountPath']}:ro")
        return flags

    def _files(self, source: Object) -> Iterator[tuple[str, bytes]]:
        """Yield names and contents of the files of a volume."""
        if "projected" in source:
            for one in source["projected"]["sources"]:
                yield from self._files(one)
        elif token := source.get("serviceAccountToken"):
            account = self._pod["spec"]["serviceAccountName"]
            lifespan_s = token["expirationSeconds"]
            text = self._kubelet.kube.token_for(account, self._namespace, lifespan_s=lifespan_s)
            yield token["path"], text.encode()
        elif "downwardAPI" in source:
            (item,) = source["downwardAPI"]["items"]
            assert item["fieldRef"]["fieldPath"] == "metadata.namespace"
            yield item["path"], self._namespace.encode()
        elif "secret" in source:
            one = self._object("secrets", source["secret"]["secretName"])
            for name, text in one.get("data", {}).items():
                yield name, base64.b64decode(text)
        else:
            one = self._object("configmaps", source["configMap"]["name"])
            for name, text in one["data"].items():
                yield name, text.encode()

    def _object(self, plural: str, name: str) -> Any:
        path = f"/api/v1/namespaces/{self._namespace}/{plural}/{name}"
        try:
            return self._kubelet.kube.rest.call("GET", path)
        except RestError as error:
            raise MissingError(error.body["message"]) from error

    def _waits(self, why: str) -> None:
        """Report as a kubelet that cannot mount."""
        self._patch(
            {
                "phase": "Pending",
                "conditions": _readiness(ready=False),
                "containerStatuses": [self._status({"waiting": {"reason": "ContainerCreating"}})],
            }
        )
        self._kubelet.kube.rest.call(
            "POST",
            f"/api/v1/namespaces/{self._namespace}/events",
            {
                "metadata": {"generateName": f"{self.name}."},
                "involvedObject": {
                    "kind": "Pod",
                    "namespace": self._namespace,
                    "name": self.name,
                    "uid": self._pod["metadata"]["uid"],
                },
                "type": "Warning",
                "reason": "FailedMount",
                "message": f"MountVolume.SetUp failed: {why}",
                "source": {"component": "kubelet"},
                "firstTimestamp": _now(),
                "lastTimestamp": _now(),
                "count": 1,
            },
        )

    def _report(self, address: str, *, since: str) -> None:
        self._patch(
            {
                "phase": "Running",
                "startTime": since,
                "hostIP": self._kubelet.network.gateway,
                "podIP": address,
                "podIPs": [{"ip": address}],
                "conditions": _readiness(ready=self.ready),
                "containerStatuses": [self._status({"running": {"startedAt": since}})],
            }
        )

    def _status(self, state: Object) -> Object:
        return {
            "name": self._container["name"],
            "image": self._container["image"],
            "imageID": "",
            "ready": self.ready,
            "started": "running" in state,
            "restartCount": max(0, self.starts - 1),
            "state": state,
        }

    def _patch(self, status: Object) -> None:
        with contextlib.suppress(RestError):  # it can be gone
            self._kubelet.kube.patch_pod_status(self.name, self._namespace, status)

    def _remove(self) -> None:
        options = {
            "gracePeriodSeconds": 0,
            "preconditions": {"uid": self._pod["metadata"]["uid"]},
        }
        path = f"/api/v1/namespaces/{self._namespace}/pods/{self.name}"
        with contextlib.suppress(OSError, RestError):
            self._kubelet.kube.rest.call("DELETE", path, options)


class Probe:
    """A probe of HTTP, asked at once and then every period."""

    def __init__(self, container: Object, kind: str) -> None:
        self._probe = container[kind]
        call = self._probe["httpGet"]
        ports = {one["name"]: one["containerPort"] for one in container["ports"]}
        self._where = f":{ports[call['port']]}{call['path']}"
        self._next_s = time.monotonic()
        self._failures = self._probe["failureThreshold"] if kind == "readinessProbe" else 0
        """A container begins as alive and not ready."""
        self.succeeded = False

    def due(self) -> bool:
        now_s = time.monotonic()
        if now_s < self._next_s:
            return False
        self._next_s = now_s + float(self._probe["periodSeconds"])
        return True

    def holds(self, address: str) -> bool:
        """Ask; it fails only after so many failures in a row."""
        good = self._succeeds(address)
        self.succeeded = self.succeeded or good
        self._failures = 0 if good else self._failures + 1
        return bool(self._failures < self._probe["failureThreshold"])

    def _succeeds(self, address: str) -> bool:
        url, timeout_s = f"http://{address}{self._where}", self._probe["timeoutSeconds"]
        try:
            with urllib.request.urlopen(url, timeout=timeout_s):
                return True
        except (OSError, urllib.error.URLError):
            return False


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write a volume as a kubelet does: of root and of the group fsGroup."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        path = folder / name
        path.touch(mode=0o440)
        path.write_bytes(content)
        os.chown(path, 0, USER)


def _readiness(*, ready: bool) -> list[Object]:
    always = ("PodReadyToStartContainers", "Initialized")
    return [
        *(condition(kind, "True") for kind in always),
        *(condition(kind, str(ready)) for kind in ("Ready", "ContainersReady")),
    ]


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
