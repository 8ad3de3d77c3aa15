"""Renews docs/ten-faults.md from the real servers: `python -m tests.real.ten_faults [24.11]`.

Ten faults that operators meet are set up one after the other. For each, the page has what explain,
diff, status, doctor, log, Events, conditions and alerts say. Only 26.05 writes the page.
"""

import asyncio
import io
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any, NamedTuple

import yaml

from sunk_sync.cli.doctor import doctor
from sunk_sync.cli.explain import Question, explain
from sunk_sync.cli.overview import diff, status
from sunk_sync.core.explain.account import Kind
from sunk_sync.settings.sources import load
from sunk_sync.settings.types import Address, parse_loopback
from tests.chart.promtool import firing
from tests.real.faults_page import block, cut
from tests.real.service import NAMESPACE, Service
from tests.real.stage import Host, eventually
from tests.real.testbed import cache, kube_objects
from tests.real.testbed.bed import SLURM_DEFAULT
from tests.real.testbed.kube import REPOSITORY
from tests.real.workloads import PodStage
from tools.chart import CHART

FILE = REPOSITORY / "docs" / "ten-faults.md"
ROLE = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/roles/sunk-sync-scheduler"
ALERTS = CHART / "files" / "alerts.yaml"
SETTINGS = {"max_drains_per_minute": "2"}
SETTLE_S = 2.0
"""Writes that belong to no fault are done by then."""
HOSTS = 14
LINES = 6
SCRAPES_S = 10.0
OMITTED = re.compile("_bucket|_expiry_|loop_longest")
"""Series that promtool need not know: its clock begins in 1970, and a test machine is slow."""


class Seen(NamedTuple):
    """The object to ask about, and its Events and conditions, if it is one of Kubernetes."""

    kind: Kind
    name: str
    path: str = ""
    """Of the API; empty: none."""


class Scene:
    def __init__(self, stage: PodStage) -> None:
        self.stage = stage
        self.service: Service = stage.serve(**SETTINGS)
        self.slurm = stage.bed.slurm

    @property
    def address(self) -> Address:
        (line,) = self.service.lines("operators server open", since=self.service.begun)[-1:]
        address = parse_loopback(line["address"])
        assert address is not None
        return address

    def explained(self, seen: Seen) -> str:
        out = io.StringIO()
        explain(Question(kind=seen.kind, name=seen.name, address=self.address), out=out, errors=out)
        return out.getvalue()

    def until_explained(self, seen: Seen, text: str) -> None:
        eventually(lambda: text in self.explained(seen), text, show=lambda: self.explained(seen))

    def of_pod(self, name: str) -> Seen:
        return Seen("pod", f"{NAMESPACE}/{name}", f"/api/v1/namespaces/{NAMESPACE}/pods/{name}")

    def of_host(self, host: Host) -> Seen:
        return Seen("host", host.name, f"/api/v1/nodes/{host.name}")


Fault = Callable[[Scene], Iterator[Seen]]


def wrong_partition(scene: Scene) -> Iterator[Seen]:
    pod = scene.stage.load(annotations={"partition": "gpus"})
    seen = scene.of_pod(pod.name)
    scene.until_explained(seen, "partition")
    pod.until(lambda: pod.message)
    yield seen
    pod.delete(now=True)


def expired_token(scene: Scene) -> Iterator[Seen]:
    host = scene.stage.take()
    scene.service.put_token(scene.slurm.token(3))
    time.sleep(12)
    host.cordon(reason="kernel update")
    seen = scene.of_host(host)
    scene.until_explained(seen, "kernel update")
    yield seen
    scene.service.put_token(scene.slurm.token())
    host.until_drained("k8s: node cordoned: kernel update")
    host.uncordon()
    host.until_free()


def two_claims(scene: Scene) -> Iterator[Seen]:
    host = scene.stage.take()
    host.create_pod(name=f"slurmd-{host.name}-copy")
    seen = scene.of_host(host)
    scene.until_explained(seen, "-copy")
    yield seen
    scene.stage.bed.kube.delete_pod(f"slurmd-{host.name}-copy", NAMESPACE, grace_s=0)


def slurmctld_down(scene: Scene) -> Iterator[Seen]:
    host = scene.stage.take()
    scene.slurm.stop_slurmctld()
    host.cordon()
    seen = scene.of_host(host)
    scene.until_explained(seen, "cannot be read")
    yield seen
    scene.slurm.start_slurmctld()
    host.until_drained("k8s: node cordoned", within_s=60)
    host.uncordon()
    host.until_free()


def human_drain(scene: Scene) -> Iterator[Seen]:
    host = scene.stage.take()
    host.update(state="drain", reason="fan broken")
    host.cordon()
    seen = scene.of_host(host)
    scene.until_explained(seen, "left alone: drained in Slurm (fan broken)")
    yield seen
    host.uncordon()
    host.update(state="undrain")


def breaker(scene: Scene) -> Iterator[Seen]:
    hosts = [scene.stage.take() for _ in range(4)]
    for host in hosts:
        host.set_pod_ready(ready=False)
    seen = [scene.of_host(host) for host in hosts]
    held = "held back"
    eventually(lambda: any(held in scene.explained(one) for one in seen), held)
    yield next(one for one in seen if held in scene.explained(one))
    for host in hosts:
        host.set_pod_ready(ready=True)
    for host in hosts:
        host.until_free()


def wrong_name(scene: Scene) -> Iterator[Seen]:
    host = scene.stage.take()
    host.delete_pod()
    eventually(lambda: host.pod_if_any is None, "the Pod is gone")
    named = kube_objects.slurmd_pod(f"{host.name}-gpu", name=host.pod_name)
    named["spec"]["nodeName"] = host.name
    host.bed.kube.create(named)
    seen = scene.of_host(host)
    scene.until_explained(seen, host.name)
    time.sleep(3)
    yield seen
    host.delete_pod()
    eventually(lambda: host.pod_if_any is None, "the Pod is gone")
    host.create_pod()


def long_grace(scene: Scene) -> Iterator[Seen]:
    pod = scene.stage.load(terminationGracePeriodSeconds=600)
    seen = scene.of_pod(pod.name)
    pod.until(lambda: pod.message)
    scene.until_explained(seen, "GracePeriod")
    yield seen
    pod.delete(now=True)


def no_binding(scene: Scene) -> Iterator[Seen]:
    rest = scene.stage.bed.kube.rest
    role = rest.call("GET", ROLE)
    rules = [rule for rule in role["rules"] if rule["resources"] != ["pods/binding"]]
    rest.call("PUT", ROLE, {**role, "rules": rules})
    pod = scene.stage.load()
    seen = scene.of_pod(pod.name)
    scene.until_explained(seen, "forbidden")
    yield seen
    now = rest.call("GET", ROLE)
    rest.call("PUT", ROLE, {**now, "rules": role["rules"]})
    pod.until_bound(within_s=60)
    pod.delete(now=True)


def wrong_kill_wait(scene: Scene) -> Iterator[Seen]:
    pod = scene.stage.load(terminationGracePeriodSeconds=15)
    scene.service = scene.stage.serve(**SETTINGS, slurm_kill_wait="20s")
    pod.until_bound()
    yield scene.of_pod(pod.name)
    scene.service = scene.stage.serve(**SETTINGS)
    pod.delete(now=True)


FAULTS: tuple[tuple[str, str, Fault], ...] = (
    ("A wrong partition", "A Pod asks for a partition that Slurm does not have.", wrong_partition),
    ("An expired token", "The Slurm token expires, then a Node is cordoned.", expired_token),
    ("Two Pods claim one Slurm node", "A copy of a slurmd Pod has its hostname.", two_claims),
    ("slurmctld is down", "It stops, then a Node is cordoned.", slurmctld_down),
    ("A person drained the node", "A Node of it is cordoned, too.", human_drain),
    ("The limit on drains holds", "Four slurmd Pods are not Ready; it is 2 a minute.", breaker),
    ("Names do not match", "A slurmd Pod has a hostname that is no Slurm node.", wrong_name),
    ("The grace period is too long", "A Pod asks for 600 s; KillWait is 6 s.", long_grace),
    ("No permission to bind", "The Role has no `create` on `pods/binding`.", no_binding),
    ("KillWait is another", "--slurm-kill-wait is 20 s, KillWait is 6 s.", wrong_kill_wait),
)  # fmt: skip


class Page:
    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.text: list[str] = []

    def section(self, number: int, title: str, what: str, fault: Fault) -> None:
        print(f"{number}. {title}", flush=True)
        since = self.scene.service.mark()
        with contextmanager(fault)(self.scene) as seen:
            time.sleep(SETTLE_S)
            self.text += ["", f"## {number}. {title}", "", what]
            self._block("explain", self.scene.explained(seen).splitlines())
            self._block("diff", self._said(diff, older_than_s=0.0))
            self._block(
                "status",
                [one for one in self._said(status) if "degraded" in one or "failed" in one],
            )
            self._block("doctor", self._findings())
            self._block("log", list(self._log(since, seen)))
            self._block("Events", list(self._events(seen)))
            self._block("conditions", list(self._conditions(seen)))
            self._block("alerts, if it lasts", self._alerts())
        eventually(
            lambda: "degraded" not in self.scene.service.readyz_verbose()[1], "healed", within_s=90
        )

    def _block(self, title: str, lines: Sequence[str]) -> None:
        if not lines:
            self.text += ["", f"{title}: nothing."]
            return
        self.text += list(block(title, [cut(line) for line in lines[:14]]))

    def _said(self, command: Any, **more: Any) -> Sequence[str]:
        out = io.StringIO()
        command(self.scene.address, out=out, errors=out, **more)
        return out.getvalue().splitlines()

    def _findings(self) -> Sequence[str]:
        """Run doctor with the settings of the service; return what is not fine."""
        out, given = io.StringIO(), self.scene.service.settings
        flags = {name.replace("_", "-"): value for name, value in given.items()}
        with suppress(Exception):
            asyncio.run(doctor(load(flags, {}, NAMESPACE), out))
        lines = out.getvalue().splitlines()
        return [line for line in lines if line[:4] in ("warn", "fail", "    ")]

    def _log(self, since: int, seen: Seen) -> Iterator[str]:
        lines = self.scene.service.lines(since=since)
        name = seen.name.rpartition("/")[2]
        bad = [one for one in lines if one.get("level") in ("warning", "error")]
        for one in (bad or [one for one in lines if name in json.dumps(one)])[-LINES:]:
            kept = {key: one[key] for key in one if key not in ("timestamp", "logger")}
            yield json.dumps(kept)

    def _events(self, seen: Seen) -> Iterator[str]:
        name = seen.name.rpartition("/")[2]
        for namespace in (NAMESPACE, "default"):
            path = f"/api/v1/namespaces/{namespace}/events"
            for one in self.scene.stage.bed.kube.rest.call("GET", path)["items"]:
                ours = "sunk-sync" in (
                    one.get("reportingComponent"),
                    one["source"].get("component"),
                )
                if ours and name in one["involvedObject"].get("name", ""):
                    said = f"{one['reason']} ({one.get('count') or 1}): {one['message']}"
                    yield f"{one['type']} {said}"

    def _conditions(self, seen: Seen) -> Iterator[str]:
        for one in self.scene.stage.bed.kube.rest.call("GET", seen.path)["status"].get(
            "conditions", ()
        ):
            ours = (
                one["type"] == "PodScheduled"
                or "sunk" in one["type"].lower()
                or "Slurm" in one["type"]
            )
            if ours and (one.get("message") or one["status"] == "Unknown"):
                said = f"{one.get('reason', '')}: {one.get('message', '')}"
                yield f"{one['type']}={one['status']} {said}"

    def _scrape(self) -> dict[str, float]:
        found = {}
        for one in self.scene.service.metrics():
            labels = ",".join(f'{name}="{value}"' for name, value in one.labels.items())
            found[f"{one.name}{{{labels}}}"] = one.value
        return {name: value for name, value in found.items() if not OMITTED.search(name)}

    def _alerts(self) -> Sequence[str]:
        """Return the alerts that fire if each series goes on as during the fault."""
        first = self._scrape()
        time.sleep(SCRAPES_S)
        each = 60 / SCRAPES_S
        return fired(
            [
                (name, f"{value:g}+{max(0.0, value - first.get(name, value)) * each:g}x90")
                for name, value in self._scrape().items()
            ]
        )


def fired(series: Sequence[tuple[str, str]]) -> Sequence[str]:
    """Return the alerts that promtool finds although none is expected."""
    tool = cache.promtool().path / "promtool"
    given = {"rule_files": [str(ALERTS)], "tests": [firing(series, ())]}
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        yaml.safe_dump(given, file)
        done = subprocess.run(
            [tool, "test", "rules", file.name], capture_output=True, text=True, check=False
        )
    return sorted(set(re.findall(r'alertname="(\w+)"', done.stdout + done.stderr)))


ABOUT = """\
`python -m tests.real.ten_faults` generated this page on real servers: {versions}, {when}.
Each fault was set up on its own. The blocks have what every command, log line, Event and condition
said at that moment, cut after {lines} lines of the log. [alerts.md](alerts.md) has the runbooks,
[faults.md](faults.md) shows longer outages."""


def record(version: str) -> str:
    with PodStage(version, hosts=HOSTS) as stage:
        scene = Scene(stage)
        page = Page(scene)
        for number, (title, what, fault) in enumerate(FAULTS, 1):
            page.section(number, title, what, fault)
        versions = f"Slurm {stage.bed.slurm.version}, Kubernetes {stage.bed.kube.version}"
    when = f"{datetime.now(UTC):%Y-%m-%d %H:%MZ}"
    about = ABOUT.format(versions=versions, when=when, lines=LINES)
    return "\n".join(["# Ten faults, and what each tool says", "", about, *page.text]) + "\n"


if __name__ == "__main__":
    chosen = sys.argv[1] if len(sys.argv) > 1 else SLURM_DEFAULT
    text = record(chosen)
    if chosen == SLURM_DEFAULT:
        FILE.write_text(text)
    print(text)
