"""What the floors share: their jobs and bindings, and blocking clients of both servers.

A floor does the same work as sunk-sync with as few requests as possible, without state and without
safety. Its arguments begin with KUBE_HOST:PORT CA_FILE TOKEN_FILE SLURM_HOST:PORT VERSION
SLURM_TOKEN. It prints `ready` when its watch is open.
"""

import http.client
import json
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

FLOOR = "floor"
"""Name of all its jobs, and of the scheduler of its Pods."""
PODS = "/api/v1/namespaces/default/pods"
UNBOUND = {"fieldSelector": f"spec.schedulerName={FLOOR},spec.nodeName="}
JSON = {"Content-Type": "application/json"}
JOB = {
    "name": FLOOR,
    "current_working_directory": "/",
    "nodes": "1",
    "tasks": 1,
    "tasks_per_node": 1,
    "cpus_per_task": 1,
    "memory_per_node": {"set": True, "number": 100},
    "requeue": False,
}
BATCH = JOB | {
    "environment": ["PATH=/usr/local/bin:/usr/bin:/bin"],
    "standard_output": "/dev/null",
    "standard_error": "/dev/null",
    "standard_input": "/dev/null",
}


def binding(pod: Any, node: str) -> tuple[str, Any]:
    """Return path and body that bind the Pod of this metadata."""
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod["name"], "uid": pod["uid"]},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    return f"{PODS}/{pod['name']}/binding", body


class Kube:
    """One connection for a watch, and one for writes."""

    def __init__(self, address: str, ca_file: str, token_file: str) -> None:
        context = ssl.create_default_context(cafile=ca_file)
        self._own = {"Authorization": f"Bearer {Path(token_file).read_text()}", **JSON}
        self._watching = http.client.HTTPSConnection(address, context=context)
        self._writing = http.client.HTTPSConnection(address, context=context)

    def _get(self, path: str, query: dict[str, str]) -> http.client.HTTPResponse:
        self._watching.request("GET", f"{path}?{urlencode(query)}", headers=self._own)
        return self._watching.getresponse()

    def watch(self, path: str, only: dict[str, str]) -> Iterator[Any]:
        """Yield each event from now on."""
        listed = json.loads(self._get(path, only | {"limit": "1"}).read())
        version = listed["metadata"]["resourceVersion"]
        lines = self._get(path, only | {"watch": "true", "resourceVersion": version})
        print("ready", flush=True)
        while line := lines.readline():
            yield json.loads(line)

    def unbound_pods(self) -> Iterator[Any]:
        """Yield the metadata of each new Pod that is not bound."""
        for event in self.watch(PODS, UNBOUND):
            if event["type"] == "ADDED":
                yield event["object"]["metadata"]

    def bind(self, pod: Any, node: str) -> None:
        path, body = binding(pod, node)
        self._writing.request("POST", path, json.dumps(body), self._own)
        answer = self._writing.getresponse()
        answer.read()
        assert answer.status < 300, answer.status


class Slurm:
    def __init__(self, address: str, version: str, token: str) -> None:
        self._rest = http.client.HTTPConnection(address)
        self._root = f"/slurm/{version}/"
        self._headers = {**JSON, "X-SLURM-USER-TOKEN": token}

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        text = None if body is None else json.dumps(body)
        self._rest.request(method, self._root + path, text, self._headers)
        return json.loads(self._rest.getresponse().read())
