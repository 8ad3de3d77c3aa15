"""The minimal scheduler: a job for each Pod, a binding for each job. It has no state and no safety.

`python -m tests.bench.pod_floor KUBE CA_FILE TOKEN_FILE SLURM VERSION SLURM_TOKEN [SCRIPT PORT]`
Without SCRIPT: allocate at once and read the host. With SCRIPT: submit the file, and bind when it
calls this port of 127.0.0.1 with its job id.
"""

import http.client
import json
import ssl
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

NAME = "floor"
"""Name of all its jobs, and of the scheduler of its Pods."""
JOB = {
    "name": NAME,
    "current_working_directory": "/",
    "environment": ["PATH=/usr/local/bin:/usr/bin:/bin"],
    "nodes": "1",
    "tasks": 1,
    "tasks_per_node": 1,
    "cpus_per_task": 1,
    "memory_per_node": {"set": True, "number": 100},
    "requeue": False,
    "standard_output": "/dev/null",
    "standard_error": "/dev/null",
    "standard_input": "/dev/null",
}


class Kube:
    """Watches and binds the Pods of the floor, each on its own connection."""

    def __init__(self, address: str, ca: str, token: str) -> None:
        context = ssl.create_default_context(cafile=ca)
        self._own = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self._address, self._context = address, context
        self._binding = self._made()

    def _made(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(self._address, context=self._context)

    def pods(self) -> Any:
        """Yield each new Pod that is not bound."""
        api = self._made()
        only = f"fieldSelector=spec.schedulerName={NAME},spec.nodeName="
        path = f"/api/v1/namespaces/default/pods?{only}"
        api.request("GET", path + "&limit=1", headers=self._own)
        begin = json.loads(api.getresponse().read())["metadata"]["resourceVersion"]
        api.request("GET", f"{path}&watch=true&resourceVersion={begin}", headers=self._own)
        lines = api.getresponse()
        print("ready", flush=True)
        while line := lines.readline():
            told = json.loads(line)
            if told["type"] == "ADDED":
                yield told["object"]["metadata"]

    def bind(self, pod: Any, node: str) -> None:
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod["name"], "uid": pod["uid"]},
            "target": target,
        }
        path = f"/api/v1/namespaces/default/pods/{pod['name']}/binding"
        self._binding.request("POST", path, json.dumps(body), self._own)
        answer = self._binding.getresponse()
        answer.read()
        assert answer.status < 300, answer.status


class Slurm:
    """One connection."""

    def __init__(self, address: str, version: str, token: str) -> None:
        self._rest = http.client.HTTPConnection(address)
        self._root = f"/slurm/{version}/"
        self._headers = {"Content-Type": "application/json", "X-SLURM-USER-TOKEN": token}

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        text = None if body is None else json.dumps(body)
        self._rest.request(method, self._root + path, text, self._headers)
        return json.loads(self._rest.getresponse().read())

    def allocate(self) -> str:
        """Allocate; return the host."""
        made = self.ask("POST", "job/allocate", {"job": {**JOB, "immediate": True}})
        if not made.get("job_id"):
            raise SystemExit(f"not allocated: {made['errors']}")
        return self.where(made["job_id"])

    def where(self, job_id: str | int) -> str:
        found: str = self.ask("GET", f"job/{job_id}?flags=ALL")["jobs"][0]["nodes"]
        return found

    def submit(self, script: str) -> str:
        return str(self.ask("POST", "job/submit", {"script": script, "job": JOB})["job_id"])


class StartServer:
    """A server that scripts call at their start; it binds their Pod."""

    def __init__(self, kube: Kube, slurm: Slurm, port: int) -> None:
        self._kube, self._slurm = kube, slurm
        self._pods: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._known = threading.Condition()
        this = self

        class Answer(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                this.bind(body["job_id"])
                self.send_response(204)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                del format, args

        server = ThreadingHTTPServer(("127.0.0.1", port), Answer)
        threading.Thread(target=server.serve_forever, daemon=True).start()

    def expect(self, job_id: str, pod: Any) -> None:
        with self._known:
            self._pods[job_id] = pod
            self._known.notify_all()

    def bind(self, job_id: str) -> None:
        with self._known:
            self._known.wait_for(lambda: job_id in self._pods, 10)
        with self._lock:
            self._kube.bind(self._pods[job_id], self._slurm.where(job_id))


def main(
    kube: str, ca: str, kube_token: str, slurm: str, version: str, token: str, *called: str
) -> None:
    api = Kube(kube, ca, Path(kube_token).read_text())
    rest = Slurm(slurm, version, token)
    if not called:
        for pod in api.pods():
            api.bind(pod, rest.allocate())
        return
    script, port = called
    server = StartServer(api, Slurm(slurm, version, token), int(port))
    for pod in api.pods():
        server.expect(rest.submit(Path(script).read_text()), pod)


if __name__ == "__main__":
    main(*sys.argv[1:])
