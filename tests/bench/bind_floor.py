"""The floor that binds Pods one by one: `python -m tests.bench.bind_floor … [SCRIPT PORT]`.

See floors.py. Without SCRIPT it allocates a job at once and reads its host. With SCRIPT it submits
the file, and binds when the script calls this port of 127.0.0.1 with its job id.
"""

import json
import sys
import threading
from pathlib import Path
from typing import Any

from tests.bench.floors import BATCH, Kube, Slurm
from tests.bench.post_server import PostServer


def host_of(rest: Slurm, job_id: str | int) -> str:
    host: str = rest.ask("GET", f"job/{job_id}?flags=ALL")["jobs"][0]["nodes"]
    return host


class Starts:
    """Binds the Pod of each script that reports its start."""

    def __init__(self, api: Kube, rest: Slurm) -> None:
        self._api, self._rest = api, rest
        self._pods: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._known = threading.Condition()

    def expect(self, job_id: str, pod: Any) -> None:
        with self._known:
            self._pods[job_id] = pod
            self._known.notify_all()

    def answer(self, _: str, body: bytes) -> bytes:
        job_id = json.loads(body)["job_id"]
        with self._known:
            self._known.wait_for(lambda: job_id in self._pods, 10)
        with self._lock:
            self._api.bind(self._pods[job_id], host_of(self._rest, job_id))
        return b""


def main(kube: str, ca_file: str, token_file: str, *argv: str) -> None:
    slurm, called = argv[:3], argv[3:]
    api, rest = Kube(kube, ca_file, token_file), Slurm(*slurm)
    if not called:
        for pod in api.unbound_pods():
            made = rest.ask("POST", "job/allocate", {"job": BATCH | {"immediate": True}})
            if not made.get("job_id"):
                raise SystemExit(f"not allocated: {made['errors']}")
            api.bind(pod, host_of(rest, made["job_id"]))
        return
    script, port = called
    starts = Starts(api, Slurm(*slurm))
    with PostServer(starts.answer, port=int(port)):
        for pod in api.unbound_pods():
            body = {"script": Path(script).read_text(), "job": BATCH}
            starts.expect(str(rest.ask("POST", "job/submit", body)["job_id"]), pod)


if __name__ == "__main__":
    main(*sys.argv[1:])
