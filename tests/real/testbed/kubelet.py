"""A stand-in for all kubelets of a test bed: it runs and ends the Pods bound to any Node.

It is a process: `python -m tests.real.testbed.kubelet URL CA_FILE TOKEN_FILE`. Annotations set the
delays, at creation or later. Those of a Node apply to its Pods; the Pod's own take precedence:

    testbed/start-delay-s  seconds from bound to Running and Ready (default 0; "inf": never)
    testbed/end-delay-s    seconds from deletionTimestamp to gone (default 0; "inf": never)
    testbed/run-s          seconds from Running to the end of the containers (default: never)
    testbed/exit-code      exit code of containers that end (default 0: Succeeded)
    testbed/failures       how many Pods of an owner, for each completion index, end with the exit
                           code; the later ones succeed (default: all of them fail)

A name with `-N` at its end, such as testbed/exit-code-1, is for the Pod of completion index N only.

Pods of sunk-sync itself are not for it: tests/image/kubelet.py runs those.

A Pod that does not fit beside the Node's other Pods is rejected as by a kubelet: phase Failed,
reason OutOfcpu or similar.

A Node created with a Ready condition gets one heartbeat of it, through the status subresource.
Tests do the rest through the API: Node NotReady, Pod not Ready, Node gone.
"""

import asyncio
import contextlib
import itertools
import json
import math
import ssl
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp

from sunk_sync.embedded.kubernetes.resources import rejection, requests_of

Object = dict[str, Any]

PREFIX = "testbed/"
START_DELAY = PREFIX + "start-delay-s"
END_DELAY = PREFIX + "end-delay-s"
RUN = PREFIX + "run-s"
EXIT_CODE = PREFIX + "exit-code"
FAILURES = PREFIX + "failures"
INDEX = "batch.kubernetes.io/job-completion-index"

BOUND_PODS = "fieldSelector=spec.nodeName!=&labelSelector=app.kubernetes.io/name!=sunk-sync"
MAX_CALLS_AT_ONCE = 32
MAX_LINE_BYTES = 4 << 20
PATCH = {"Content-Type": "application/strategic-merge-patch+json"}
READY_KINDS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")
RUNNING_KINDS = ("PodReadyToStartContainers", "Ready", "ContainersReady")


class GoneError(Exception):
    """The watch cannot continue from its version."""


class Kubelet:
    """One task per waiting Pod; a change of the Pod or its Node replaces it."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session
        self._calls = asyncio.Semaphore(MAX_CALLS_AT_ONCE)
        self._knobs_of_node: dict[str, dict[str, str]] = {}
        self._room_on: dict[str, Object] = {}
        """Allocatable of each Node."""
        self._let_in: set[str] = set()
        """UIDs of Pods that fit."""
        self._pods: dict[str, Object] = {}
        self._pods_on: defaultdict[str, set[str]] = defaultdict(set)
        """UIDs by Node."""
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._since: dict[tuple[str, str], float] = {}
        self._failed: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        """UIDs of Pods that failed, by owner and completion index."""
        self._addresses = itertools.count(1)
        self._heard_of: set[str] = set()
        """UIDs of Nodes with a first heartbeat."""
        self._heartbeats: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow("nodes", "", self._see_node))
            tasks.create_task(self._follow("pods", BOUND_PODS, self._see_pod))

    async def _follow(self, plural: str, query: str, see: Any) -> None:
        while True:
            try:
                async for kind, an_object in self._events(plural, query):
                    see(kind, an_object)
            except (aiohttp.ClientError, TimeoutError, GoneError) as error:
                print(f"{plural}: {error!r}, listing again", flush=True)
                await asyncio.sleep(0.2)

    async def _events(self, plural: str, query: str) -> AsyncIterator[tuple[str, Object]]:
        """List, then watch until the server ends the watch."""
        path = f"/api/v1/{plural}?{query}"
        async with self._session.get(path) as answer:
            answer.raise_for_status()
            listed = await answer.json()
        for item in listed["items"]:
            yield "ADDED", item
        version = listed["metadata"]["resourceVersion"]
        watch = f"{path}&watch=true&resourceVersion={version}&timeoutSeconds=3600"
        async with self._session.get(watch, timeout=aiohttp.ClientTimeout(sock_read=None)) as lines:
            lines.raise_for_status()
            async for line in lines.content:
                event = json.loads(line)
                if event["type"] == "ERROR":
                    raise GoneError(event["object"].get("message"))
                yield event["type"], event["object"]

    def _see_node(self, kind: str, node: Object) -> None:
        name = node["metadata"]["name"]
        self._begin_heartbeat(kind, node)
        known = self._knobs_of_node.pop(name, {})
        knobs = {} if kind == "DELETED" else _knobs(node)
        self._room_on[name] = node.get("status", {}).get("allocatable") or {}
        if kind == "DELETED":
            del self._room_on[name]
        if knobs:
            self._knobs_of_node[name] = knobs
        if knobs != known:
            for uid in self._pods_on[name]:
                self._plan(uid, self._pods[uid])

    def _begin_heartbeat(self, kind: str, node: Object) -> None:
        """Send one heartbeat, so that Ready belongs to a field manager as on a real Node."""
        uid = node["metadata"]["uid"]
        if kind == "DELETED":
            self._heard_of.discard(uid)
        elif uid not in self._heard_of and _has_ready(node):
            self._heard_of.add(uid)
            task = asyncio.create_task(self._heartbeat(node))
            self._heartbeats.add(task)
            task.add_done_callback(self._heartbeats.discard)

    async def _heartbeat(self, node: Object) -> None:
        metadata = node["metadata"]
        alive = {"type": "Ready", "lastHeartbeatTime": _now()}
        patch = {"metadata": {"uid": metadata["uid"]}, "status": {"conditions": [alive]}}
        async with self._calls:
            await self._call("PATCH", f"/api/v1/nodes/{metadata['name']}/status", patch)

    def _see_pod(self, kind: str, pod: Object) -> None:
        uid = pod["metadata"]["uid"]
        if kind != "DELETED":
            self._pods[uid] = pod
            self._pods_on[pod["spec"]["nodeName"]].add(uid)
            self._plan(uid, pod)
            return
        self._pods.pop(uid, None)
        self._pods_on[pod["spec"]["nodeName"]].discard(uid)
        self._let_in.discard(uid)
        if task := self._tasks.pop(uid, None):
            task.cancel()
        for step in ("start", "run", "end"):
            self._since.pop((uid, step), None)

    def _plan(self, uid: str, pod: Object) -> None:
        if task := self._tasks.pop(uid, None):
            task.cancel()
        if step := self._next_step(uid, pod):
            self._tasks[uid] = asyncio.create_task(step)

    def _next_step(self, uid: str, pod: Object) -> Coroutine[Any, Any, None] | None:
        knobs = self._knobs_of_node.get(pod["spec"]["nodeName"], {}) | _knobs(pod)
        phase = pod.get("status", {}).get("phase", "Pending")
        if "deletionTimestamp" in pod["metadata"]:
            remove = self._remove(pod, knobs if phase == "Running" else None)
            return self._after(uid, "end", knobs.get(END_DELAY, "0"), remove)
        if phase == "Pending" and (away := self._turned_away(uid, pod)):
            return self._after(uid, "start", "0", self._patch_status(pod, away))
        if phase == "Pending":
            return self._after(uid, "start", knobs.get(START_DELAY, "0"), self._start(pod))
        if phase == "Running" and RUN in knobs:
            return self._after(uid, "run", knobs[RUN], self._finish(pod, knobs))
        return None

    def _turned_away(self, uid: str, pod: Object) -> Object | None:
        """Return the status of a Pod that does not fit; None if it fits or was admitted before."""
        if uid in self._let_in:
            return None
        node_name = pod["spec"]["nodeName"]
        away = rejection(
            requests_of(pod),
            beside=map(requests_of, self._living_on(node_name)),
            allocatable=self._room_on.get(node_name, {}),
        )
        if away is None:
            self._let_in.add(uid)
        return away

    def _living_on(self, node_name: str) -> Iterator[Object]:
        for uid in self._pods_on[node_name]:
            pod = self._pods[uid]
            phase = pod.get("status", {}).get("phase", "Pending")
            if phase == "Running" or (phase == "Pending" and uid in self._let_in):
                yield pod

    async def _after(self, uid: str, step: str, delay: str, act: Coroutine[Any, Any, None]) -> None:
        """Act after the delay, counted from the first time that the step was seen."""
        with contextlib.closing(act):
            clock = asyncio.get_running_loop().time
            since = self._since.setdefault((uid, step), clock())
            delay_s = float(delay)
            if math.isinf(delay_s):
                return
            await asyncio.sleep(max(0.0, since + delay_s - clock()))
            async with self._calls:
                await act

    async def _start(self, pod: Object) -> None:
        number = next(self._addresses)
        address = f"10.{64 + number // 62500}.{number // 250 % 250}.{number % 250 + 1}"
        status = {
            "phase": "Running",
            "startTime": _now(),
            "hostIP": "127.0.0.1",
            "podIP": address,
            "podIPs": [{"ip": address}],
            "conditions": _conditions(READY_KINDS, "True"),
            "containerStatuses": _containers(pod, {"running": {"startedAt": _now()}}),
        }
        await self._patch_status(pod, status)

    def _exit_code(self, pod: Object, knobs: Mapping[str, str]) -> int:
        """Return how its containers end, and count the Pod if they fail."""
        code, uid = int(knobs.get(EXIT_CODE, "0")), pod["metadata"]["uid"]
        failed = self._failed[_rank(pod)]
        if code and len(failed) < float(knobs.get(FAILURES, "inf")):
            failed.add(uid)
        return code if uid in failed else 0

    async def _finish(self, pod: Object, knobs: Mapping[str, str]) -> None:
        """End the containers; the Pod stays until it is deleted."""
        exit_code = self._exit_code(pod, knobs)
        reason = "Error" if exit_code else "Completed"
        terminated = {"exitCode": exit_code, "reason": reason, "finishedAt": _now()}
        status = {
            "phase": "Failed" if exit_code else "Succeeded",
            "conditions": _conditions(RUNNING_KINDS, "False"),
            "containerStatuses": _containers(pod, {"terminated": terminated}),
        }
        await self._patch_status(pod, status)

    async def _remove(self, pod: Object, knobs: Mapping[str, str] | None) -> None:
        """Write the last status, then remove the object; never one of another UID.

        `knobs`: of containers that still run.
        """
        if knobs is not None:
            await self._finish(pod, knobs)
        uid = pod["metadata"]["uid"]
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
        await self._call("DELETE", _path(pod), options)

    async def _patch_status(self, pod: Object, status: Object) -> None:
        patch = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": status}
        await self._call("PATCH", f"{_path(pod)}/status", patch)

    async def _call(self, method: str, path: str, body: Object) -> None:
        while True:
            try:
                headers = PATCH if method == "PATCH" else None
                async with self._session.request(
                    method, path, json=body, headers=headers
                ) as answer:
                    if answer.status < 500 and answer.status != 429:
                        if answer.status not in (200, 201, 404, 409):
                            print(f"{method} {path}: {await answer.text()}", flush=True)
                        return
            except (aiohttp.ClientError, TimeoutError) as error:
                print(f"{method} {path}: {error!r}, again", flush=True)
            await asyncio.sleep(0.2)


def _knobs(an_object: Object) -> dict[str, str]:
    annotations = an_object["metadata"].get("annotations") or {}
    knobs = {key: value for key, value in annotations.items() if key.startswith(PREFIX)}
    own = f"-{annotations.get(INDEX)}"
    return knobs | {key.removesuffix(own): knobs[key] for key in knobs if key.endswith(own)}


def _rank(pod: Object) -> tuple[str, str]:
    """Return the UID of the owner, and the completion index."""
    metadata = pod["metadata"]
    owners = metadata.get("ownerReferences") or [metadata]
    return owners[0]["uid"], (metadata.get("annotations") or {}).get(INDEX, "")


def _has_ready(node: Object) -> bool:
    conditions = node.get("status", {}).get("conditions") or []
    return any(condition["type"] == "Ready" for condition in conditions)


def _path(pod: Object) -> str:
    metadata = pod["metadata"]
    return f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"


def _conditions(kinds: tuple[str, ...], status: str) -> list[Object]:
    return [{"type": kind, "status": status, "lastTransitionTime": _now()} for kind in kinds]


def _containers(pod: Object, state: Object) -> list[Object]:
    return [
        {
            "name": container["name"],
            "image": container["image"],
            "imageID": "",
            "containerID": f"testbed://{pod['metadata']['uid']}/{container['name']}",
            "ready": "running" in state,
            "started": "running" in state,
            "restartCount": 0,
            "state": state,
        }
        for container in pod["spec"]["containers"]
    ]


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


async def main(url: str, ca_file: str, token: str) -> None:
    async with aiohttp.ClientSession(
        base_url=url,
        headers={"Authorization": f"Bearer {token}"},
        connector=aiohttp.TCPConnector(
            limit=MAX_CALLS_AT_ONCE + 4, ssl=ssl.create_default_context(cafile=ca_file)
        ),
        read_bufsize=MAX_LINE_BYTES,
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=5, sock_read=30),
    ) as session:
        await Kubelet(session).run()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], Path(sys.argv[3]).read_text()))
