"""Renews docs/faults.md from the real servers: `python -m tests.real.faults_page` (five minutes).

Each fault must heal within the time given here, else nothing is written.
"""

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from tests.real.service import Line, Service, install
from tests.real.stage import Host, eventually
from tests.real.testbed import Bed, SlurmConf
from tests.real.testbed.kube import REPOSITORY

FILE = REPOSITORY / "docs" / "faults.md"
HOSTS = 6
HEALS_WITHIN_S = 60.0
LINE_MAX = 400
CORDONED = "k8s: node cordoned"
SOURCES = ("slurm_nodes", "jobs", "nodes")
METRICS: tuple[tuple[str, dict[str, str]], ...] = (
    *(("sunk_sync_source_listed", {"source": one}) for one in SOURCES),
    *(("sunk_sync_source_age_seconds", {"source": one}) for one in SOURCES),
    ("slurm_token_expiry_timestamp_seconds", {}),
    ("workqueue_depth", {"name": "slurm"}),
    ("workqueue_retries_total", {"name": "slurm"}),
    ("sunk_sync_writes_total", {"action": "drain", "outcome": "done"}),
    ("sunk_sync_writes_total", {"action": "undrain", "outcome": "done"}),
)
SHOWN = ("set-conditions", "set-metadata", "set-comment")
"""Writes that show Slurm's state in Kubernetes: left out of the log where they arrived."""
SUMMARY = """
- **slurmctld is down:** `slurm: degraded`, "Unable to contact slurm controller". The log has
  `source lost`, and writes are `unsure`.
- **slurmrestd is down:** `slurm: degraded`, "unreachable". The log has `source lost`.
- **The API server is down:** four times `kubernetes: …: degraded`. The log has `source lost` for
  `nodes`, `slurmd_pods`, `pods` and `namespaces`.
- **The token expired:** `slurm: degraded`, "Protocol authentication error (1007)". The log has
  `slurm token read` with `left_seconds`.

`/readyz` stays 200 during all of them, and no drain is lifted. sunk-sync recovers without a
restart. The sections below show only the checks and metrics that differ from those at the start."""


class Page:
    """Health, metrics and log of one service while its servers break, as Markdown."""

    def __init__(self, bed: Bed, service: Service) -> None:
        self.bed = bed
        self.service = service
        self.text: list[str] = []
        self._checks: list[str] = []
        self._figures: list[str] = []
        self._since = service.mark()

    def section(self, title: str) -> None:
        self.text += ["", f"## {title}"]
        self._since = self.service.mark()

    def say(self, sentence: str) -> None:
        print(sentence, flush=True)
        self.text += ["", sentence]

    def show(self, when: str) -> None:
        """Health and metrics now: all of them the first time, later the differences."""
        status, checks = self.service.readyz_verbose()
        lines, figures = [str(status), *checks.splitlines()], [*self._metrics(), self._requests()]
        differ = [figure for figure in figures if figure not in self._figures]
        self.text += block(f"`/readyz?verbose` {when}", checks_changed(self._checks, lines))
        self.text += block(f"metrics {when}", differ)
        self._checks, self._figures = self._checks or lines, self._figures or figures

    def log(self) -> None:
        lines = self.service.lines(since=self._since)
        kept = [line for line in lines if not is_shown(line)]
        self.text += block("log", [cut(json.dumps(line)) for line in kept], language="json")
        if left_out := len(lines) - len(kept):
            left = f"{left_out} writes of conditions, annotations and marks are left out."
            self.text += ["", left]

    def finish(self) -> None:
        """Wait until nothing is degraded; show that, and the log."""
        took_s(lambda: "degraded" not in self.service.readyz_verbose()[1], "nothing degraded")
        self.show("afterwards")
        self.log()

    def _metrics(self) -> Iterator[str]:
        for name, labels in METRICS:
            spelled = ", ".join(f'{key}="{value}"' for key, value in labels.items())
            value = self.service.metric(name, **labels)
            shown = f"{value:.1f}" if name.endswith("age_seconds") else f"{value:.0f}"
            yield f"{name}{{{spelled}}} {shown}"

    def _requests(self) -> str:
        found: Counter[str] = Counter()
        for sample in self.service.metrics():
            if sample.name == "rest_client_requests_total":
                found[f"{sample.labels['host']} {sample.labels['code']}"] += int(sample.value)
        counts = ", ".join(f"{key}: {count}" for key, count in sorted(found.items()))
        return f"rest_client_requests_total by host and code: {counts}"


def block(title: str, lines: Sequence[str], *, language: str = "") -> Iterator[str]:
    if not lines:
        yield from ("", f"{title}: as before.")
        return
    yield from ("", f"{title}:", f"```{language}", *lines, "```")


_counted = re.compile(r"\d+ (?=rows|s ago)")


def checks_changed(before: Sequence[str], now: Sequence[str]) -> Sequence[str]:
    """Return the checks that differ in more than rows and ages."""
    known = {_counted.sub("", line) for line in before}
    return [line for line in now if _counted.sub("", line) not in known]


def is_shown(line: Line) -> bool:
    return line.get("action") in SHOWN and line.get("outcome") == "done"


def cut(text: str) -> str:
    return text if len(text) <= LINE_MAX else text[: LINE_MAX - 1] + "…"


def conditions_of(host: Host) -> str:
    return ", ".join(f"{name}={status}" for name, status in sorted(host.node_conditions.items()))


def took_s(claim: Callable[[], Any], what: str) -> float:
    began_s = time.monotonic()
    eventually(claim, what, within_s=HEALS_WITHIN_S)
    return time.monotonic() - began_s


def slurmctld_stopped(page: Page, host: Host) -> None:
    page.section("1. slurmctld stops for 75 s; a Node is cordoned after 5 s")
    page.bed.slurm.stop_slurmctld()
    time.sleep(5)
    host.cordon()
    time.sleep(20)
    page.show("after 25 s")
    time.sleep(50)
    page.show("after 75 s")
    page.say(f"Node conditions after 75 s: {conditions_of(host)}")
    page.bed.slurm.start_slurmctld()
    drained_s = took_s(lambda: host.drained_as(CORDONED), "drained")
    page.say(f"slurmctld starts. The waiting cordon is drained {drained_s:.1f} s later.")
    known_s = took_s(lambda: "Unknown" not in host.node_conditions.values(), "conditions known")
    took_s(lambda: host.node_conditions["Drain"] == "True", "the drain is shown")
    page.say(f"Node conditions {known_s:.1f} s after that: {conditions_of(host)}")
    page.finish()


def slurmrestd_stopped(page: Page, host: Host) -> None:
    page.section("2. slurmrestd stops for 20 s; the Node is uncordoned meanwhile")
    page.bed.slurm.stop_slurmrestd()
    host.uncordon()
    time.sleep(20)
    page.show("after 20 s")
    page.bed.slurm.start_slurmrestd()
    page.say(
        f"slurmrestd starts. The node is undrained {took_s(lambda: host.free, 'free'):.1f} s later."
    )
    page.finish()


def apiserver_stopped(page: Page, host: Host, theirs: Host) -> None:
    page.section("3. kube-apiserver stops for 15 s; an administrator drains in Slurm meanwhile")
    page.bed.kube.stop()
    theirs.update(state="drain", reason="fan broken")
    before = theirs.drain
    time.sleep(15)
    page.show("after 15 s")
    page.bed.kube.start()
    shown_s = took_s(lambda: theirs.annotation("drain")[1] == "fan broken", "shown on the Node")
    page.say(f"kube-apiserver is ready. The Node shows that drain {shown_s:.1f} s later.")
    host.cordon()
    drained_s = took_s(lambda: host.drained_as(CORDONED), "drained")
    page.say(f"A cordon is drained after {drained_s:.1f} s.")
    assert theirs.drain == before, "the human's drain is untouched"
    page.say(f"The administrator's drain in Slurm has not changed: {theirs.drain}.")
    host.uncordon()
    took_s(lambda: host.free, "free")
    page.finish()


def token_replaced(page: Page, host: Host) -> None:
    page.section("4. The token expires, then a valid one replaces it; a Node is cordoned meanwhile")
    page.service.put_token(page.bed.slurm.token(3))
    time.sleep(15)
    host.cordon()
    time.sleep(1)
    page.show("12 s after it expired")
    page.service.put_token(page.bed.slurm.token())
    drained_s = took_s(lambda: host.drained_as(CORDONED), "drained")
    page.say(f"A valid token is in the file. The node is drained {drained_s:.1f} s later.")
    page.finish()


def terminated(page: Page) -> None:
    page.section("5. SIGTERM")
    began_s = time.monotonic()
    status = page.service.terminate()
    page.say(f"Exit code {status} after {time.monotonic() - began_s:.2f} s.")
    assert status == 0
    page.log()


def record() -> str:
    with Bed.start(conf=SlurmConf(slurmds=HOSTS)) as bed:
        install(bed)
        first, second, *_ = (Host(bed, name) for name in bed.slurm.conf.names)
        with Service(bed) as service:
            service.settle()
            page = Page(bed, service)
            page.show("before")
            slurmctld_stopped(page, first)
            slurmrestd_stopped(page, first)
            apiserver_stopped(page, first, second)
            token_replaced(page, first)
            terminated(page)
            versions = f"Slurm {bed.slurm.version}, Kubernetes {bed.kube.version}"
    title = "# Outputs during outages"
    when = f"{datetime.now(UTC):%Y-%m-%d %H:%MZ}"
    about = (
        "`python -m tests.real.faults_page` generated this page on real servers:\n"
        f"{versions}, {when}, {HOSTS} hosts, default settings, the permissions\n"
        "of the manifests."
    )
    return "\n".join([title, "", about, SUMMARY, *page.text]) + "\n"


if __name__ == "__main__":
    FILE.write_text(record())
    print(f"written: {FILE.name}")
