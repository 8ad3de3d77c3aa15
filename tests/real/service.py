"""The real service as a process, with the account, roles and namespace of deploy/manifests.

It ends with the process that started it, in any case (PDEATHSIG).
"""

import itertools
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Self

from prometheus_client.parser import text_string_to_metric_families

from sunk_sync.settings.sources import OWN_NAMESPACE_FILE
from tests.real.testbed import Bed, BedError
from tests.real.testbed.kube import REPOSITORY
from tests.real.testbed.sandbox import wait_until

MANIFESTS = REPOSITORY / "deploy" / "manifests"
NAMESPACE = "slurm"
QUICK = {
    "not_ready_grace": "1s",
    "node_not_ready_grace": "2s",
    "slurm_poll_interval": "200ms",
    "max_drains_per_minute": "1000",
}
"""Settings that make tests short; all others are the defaults."""
READY_DEADLINE_S = 120
"""On a busy machine Python alone needs half a minute to start."""
END_DEADLINE_S = 20
TAIL_LINES = 40

Line = dict[str, Any]
_numbers = itertools.count(1)
IN_ITS_NAMESPACE = f"""
mount -t tmpfs tmpfs /run && mkdir -p {OWN_NAMESPACE_FILE.parent} &&
printf %s "$0" >{OWN_NAMESPACE_FILE} && exec "$@"
"""
"""As in a Pod, a file tells the process its own namespace."""
AS_A_POD = (
    *("setpriv", "--pdeathsig", "KILL"),
    *("unshare", "--mount", "sh", "-c", IN_ITS_NAMESPACE, NAMESPACE),
)


class Service:
    """`sunk-sync run` with a test bed; flags by name: `Service(bed, dry_run="true")`.

    Apply the manifests before (`install`). Use it as a context manager, or call `kill9`.
    """

    def __init__(self, bed: Bed, **flags: str) -> None:
        number = next(_numbers)
        directory = bed.kube.directory
        self.log_file = directory / f"sunk-sync-{number}.log"
        self.log_file.touch()
        self.token_file = directory / f"slurm-{number}.token"
        self.put_token(bed.slurm.token())
        self.flags = flags
        self.sources = REPOSITORY
        """A checkout whose sunk_sync it runs."""
        self.settings = {
            "kubeconfig": str(bed.kube.kubeconfig_for("sunk-sync", NAMESPACE)),
            "slurm_api_base": bed.slurm.url,
            "slurm_auth_token_file": str(self.token_file),
            "slurmd_namespace": NAMESPACE,
            "watch_namespace": NAMESPACE,
            "metrics_bind_address": "127.0.0.1:0",
            "health_probe_bind_address": "127.0.0.1:0",
            "hooks_api_bind_address": "127.0.0.1:0",
            "operators_bind_address": "127.0.0.1:0",
            "log_format": "json",
            **flags,
        }
        self._process: subprocess.Popen[bytes] | None = None
        self.begun = 0
        """Where the log of the current process starts."""

    def start(self) -> Self:
        assert not self.running
        self.begun = self.mark()
        with self.log_file.open("ab") as out:
            self._process = subprocess.Popen(
                [*AS_A_POD, sys.executable, *_argv(self.settings)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                cwd=self.sources,
                env={k: v for k, v in os.environ.items() if not k.startswith("SUNK_SYNC_")},
            )
        return self

    def wait_ready(self, *, deadline_s: float = READY_DEADLINE_S) -> Self:
        def ready() -> bool:
            if not self.running:
                raise BedError(f"the service ended:\n{self.tail()}")
            return self._addresses() is not None and self.readyz()[0] == 200

        try:
            wait_until(ready, "the service ready", deadline_s=deadline_s)
        except BedError as error:
            raise BedError(f"{error}\n{self.tail()}") from error
        return self

    def settle(self, *, quiet_s: float = 0.6, deadline_s: float = READY_DEADLINE_S) -> Self:
        """Wait until it has written nothing for `quiet_s`."""
        before = -1.0

        def quiet() -> bool:
            nonlocal before
            last, before = before, self.write_count()
            time.sleep(quiet_s / 2)
            return last == before == self.write_count()

        wait_until(quiet, "the service quiet", deadline_s=deadline_s)
        return self

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def kill9(self) -> None:
        """Send SIGKILL and wait; no effect if it is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def send(self, a_signal: signal.Signals = signal.SIGTERM) -> None:
        assert self._process is not None
        self._process.send_signal(a_signal)

    def wait_end(self, *, deadline_s: float = END_DEADLINE_S) -> int:
        assert self._process is not None
        return self._process.wait(deadline_s)

    def terminate(self) -> int:
        self.send()
        return self.wait_end()

    def restart(self) -> Self:
        self.kill9()
        return self.start().wait_ready()

    def put_token(self, token: str) -> None:
        """Replace the token file in one step, as a mounted Secret changes."""
        fresh = self.token_file.with_suffix(".fresh")
        fresh.touch(mode=0o600)
        fresh.write_text(token)
        fresh.rename(self.token_file)

    def mark(self) -> int:
        """Return the end of its log: `lines(since=mark)` are the later lines."""
        return self.log_file.stat().st_size

    def lines(self, event: str | None = None, *, since: int = 0, **fields: Any) -> list[Line]:
        """Return the complete log lines with this event and these fields."""
        if event is not None:
            fields["event"] = event
        return [
            line for line in log_lines(self.log_file, since=since) if fields.items() <= line.items()
        ]

    def writes(self, action: str | None = None, *, since: int = 0, **fields: Any) -> list[Line]:
        """Return the log lines of writes with any outcome."""
        if action is not None:
            fields["action"] = action
        return self.lines("write", since=since, **fields)

    def tail(self) -> str:
        return "\n".join(self.log_file.read_text(errors="replace").splitlines()[-TAIL_LINES:])

    def metrics(self) -> list[Any]:
        _, text = self._get("metrics", "/metrics")
        families = text_string_to_metric_families(text)
        return [sample for family in families for sample in family.samples]

    def metric(self, name: str, /, **labels: str) -> float:
        """Return the sum of the samples of this name with these labels."""
        return sum(
            float(sample.value)
            for sample in self.metrics()
            if sample.name == name and labels.items() <= sample.labels.items()
        )

    def write_count(self) -> float:
        """Return the number of writes since its start; reads do not count."""
        total = self.metric("sunk_sync_writes_total")
        return total - sum(
            self.metric("sunk_sync_writes_total", action=read) for read in ("get-object", "relist")
        )

    def readyz(self) -> tuple[int, str]:
        return self._get("health", "/readyz")

    def readyz_verbose(self) -> tuple[int, str]:
        """Return the status and the checks, one a line."""
        return self._get("health", "/readyz?verbose")

    def livez(self) -> tuple[int, str]:
        return self._get("health", "/livez")

    def _addresses(self) -> Line | None:
        return next(iter(self.lines("metrics server open", since=self.begun)), None)

    def _get(self, server: str, path: str) -> tuple[int, str]:
        addresses = self._addresses()
        assert addresses is not None, self.tail()
        return get(addresses[server], path)

    def __enter__(self) -> Self:
        return self.start().wait_ready()

    def __exit__(self, *_: object) -> None:
        self.kill9()


def install(bed: Bed, manifests: Path = MANIFESTS) -> None:
    """Apply the manifests as an operator does; the Deployment's own Pod finds no Node.

    Their admission policy is taken off: it follows the user policy of the manifests, and the tests
    start sunk-sync with others, or with none.
    """
    bed.kube.kubectl("apply", "-k", manifests)
    bed.kube.kubectl("delete", "--ignore-not-found", "-f", MANIFESTS / "admission-policy.yaml")


def allow(bed: Bed, namespace: str, *, allowed: bool = True) -> None:
    """Add the roles for workload Pods in one more namespace, or remove them."""
    bed.kube.ensure_namespace(namespace)
    for kind in ("role", "rolebinding"):
        for name in ("sunk-sync-work", "sunk-sync-scheduler"):
            if not allowed:
                bed.kube.kubectl("delete", kind, "-n", namespace, name)
                continue
            found = json.loads(bed.kube.kubectl("get", kind, "-n", NAMESPACE, name, "-o", "json"))
            found["metadata"] = {"name": name, "namespace": namespace}
            path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/{kind}s"
            bed.kube.rest.call("POST", path, found)


def get(address: str, path: str) -> tuple[int, str]:
    """Return status and text of a page of the service."""
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def log_lines(log_file: Path, *, since: int = 0) -> list[Line]:
    """Return the complete lines of a log in JSON."""
    with log_file.open("rb") as file:
        file.seek(since)
        whole, _, _ = file.read().rpartition(b"\n")
    return [_decode(line) for line in whole.splitlines()]


def _argv(flags: dict[str, str]) -> list[str]:
    words = [f"--{name.replace('_', '-')}={value}" for name, value in flags.items()]
    return ["-m", "sunk_sync", "run", *words]


def _decode(line: bytes) -> Line:
    """Decode a line of the log; a line that is no JSON (a traceback) is its text."""
    try:
        decoded = json.loads(line)
    except ValueError:
        return {"event": "not JSON", "text": line.decode(errors="replace")}
    return decoded if isinstance(decoded, dict) else {"event": "not JSON", "text": str(decoded)}
