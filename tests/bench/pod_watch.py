"""When Pods change, from a watch of the benchmark."""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection
from http.client import HTTPException, HTTPResponse
from typing import Literal

import msgspec

from tests.bench.running import BenchError, Measured
from tests.real.testbed.kube import KubeServer

DEADLINE_S = 60.0
ALIVE_S = 1.0
"""Interval of the check that the service, or the floor, still runs."""
DRAINED = "SlurmNodeStateDrain"
Change = Literal["made", "bound", "deleting", "gone", "drained"]


class _Metadata(msgspec.Struct, rename="camel"):
    name: str = ""
    deletion_timestamp: str = ""
    resource_version: str = ""


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class _Condition(msgspec.Struct):
    type: str
    status: str


class _Status(msgspec.Struct):
    conditions: tuple[_Condition, ...] = ()


class _Pod(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


class _Event(msgspec.Struct):
    type: str
    object: _Pod


_event = msgspec.json.Decoder(_Event).decode


class PodWatch:
    """When each change of each Pod in one namespace appeared first, in monotonic seconds."""

    def __init__(self, kube: KubeServer, namespace: str) -> None:
        self._kube = kube
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._came = threading.Condition()
        self.clear()
        listed = kube.rest.call("GET", f"{self._path}?limit=1")
        self._version = listed["metadata"]["resourceVersion"]
        self._lines = self._open()
        threading.Thread(target=self._read, daemon=True).start()

    def _open(self) -> HTTPResponse:
        connection = self._kube.rest.connect()
        connection.timeout = None
        own = {"Authorization": f"Bearer {self._kube.admin_token}"}
        query = f"watch=true&timeoutSeconds=86400&resourceVersion={self._version}"
        connection.request("GET", f"{self._path}?{query}", headers=own)
        return connection.getresponse()

    def clear(self) -> None:
        with self._came:
            self.first_s: defaultdict[Change, dict[str, float]] = defaultdict(dict)

    def _read(self) -> None:
        """Read the watch; continue after the API server ends one that is read too slowly."""
        while True:
            try:
                while line := self._lines.readline():
                    self._record(_event(line), time.monotonic())
                self._lines = self._open()
            except (OSError, ValueError, AttributeError, HTTPException):
                return  # the benchmark is over

    def _record(self, event: _Event, now_s: float) -> None:
        pod = event.object
        self._version = pod.metadata.resource_version or self._version
        drained = any(one.type == DRAINED and one.status == "True" for one in pod.status.conditions)
        changes: dict[Change, bool] = {
            "made": True,
            "bound": bool(pod.spec.node_name),
            "deleting": bool(pod.metadata.deletion_timestamp),
            "gone": event.type == "DELETED",
            "drained": drained,
        }
        with self._came:
            for change, holds in changes.items():
                if holds:
                    self.first_s[change].setdefault(pod.metadata.name, now_s)
            self._came.notify_all()

    def wait(
        self,
        change: Change,
        names: Collection[str],
        *,
        deadline_s: float = DEADLINE_S,
        by: Measured | None = None,
    ) -> dict[str, float]:
        """Wait for this change of all; return when each appeared. Fail if the process ends."""
        self.wait_until(
            lambda: self.first_s[change].keys() >= set(names),
            lambda: f"not {change}: {sorted(set(names) - self.first_s[change].keys())[:3]}",
            deadline_s=deadline_s,
            by=by,
        )
        return {name: self.first_s[change][name] for name in names}

    def wait_until(
        self,
        enough: Callable[[], bool],
        why: Callable[[], str],
        *,
        deadline_s: float,
        by: Measured | None = None,
    ) -> None:
        end_s = time.monotonic() + deadline_s
        with self._came:
            while not self._came.wait_for(enough, min(deadline_s, ALIVE_S)):
                if by is not None and by.process.poll() is not None:
                    raise BenchError(f"the process ended before this: {why()}")
                if time.monotonic() > end_s:
                    raise BenchError(f"after {deadline_s:.0f} s {why()}")
