"""Renews the outputs in docs/questions.md from the demo's world: `python -m tests.demo.answers`.

The unchanged service runs beside both embedded clusters. Each question gets the situation that it
asks about, and the command is asked as an operator would.
"""

import asyncio
import io
import re
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx

from sunk_sync.cli.doctor import doctor
from sunk_sync.cli.explain import Question, explain
from sunk_sync.cli.overview import diff, status
from sunk_sync.cli.pausing import pause, resume
from sunk_sync.core.explain.account import Kind
from sunk_sync.demo.stage.reading import whole_condition
from sunk_sync.demo.stage.syncer import Syncer, settings_for
from sunk_sync.demo.stage.users import TEAM, Users
from sunk_sync.demo.stage.worlds import CPUS, HOOKS_KEY, SCHEDULER, WORKLOAD_HOSTS, Worlds
from sunk_sync.embedded.kubernetes.store.kinds import EVENTS
from tests.docs.pages import DOCS

FILE = DOCS / "questions.md"
WITHIN_S = 90.0
"""On a busy machine the first reason may be another one; the next follows after a minute (P26)."""
LOOK_S = 0.05
WIDTH_MAX = 150
"""Characters of a line on the page."""
POD = "train-0"
METRIC = "sunk_sync_double_allocation_seconds_total"

Text = Callable[[], Awaitable[str]]


class Desk:
    """Both clusters and the service, and the commands of an operator."""

    def __init__(self, worlds: Worlds, syncer: Syncer) -> None:
        self.worlds = worlds
        self.users = Users(worlds)
        self.syncer = syncer
        self._address = syncer.settings.operators_bind_address

    async def explained(self, kind: Kind, name: str) -> str:
        question = Question(kind=kind, name=name, address=self._address)
        return await _printed(lambda out: explain(question, out=out, errors=out))

    async def status(self) -> str:
        return await _printed(lambda out: status(self._address, out=out, errors=out))

    async def diff(self) -> str:
        return await _printed(lambda out: diff(self._address, older_than_s=60, out=out, errors=out))

    async def doctor(self) -> str:
        out = io.StringIO()
        await doctor(self.syncer.settings, out)
        return out.getvalue()

    async def pause(self) -> str:
        why = "maintenance"
        return await _printed(lambda out: pause(self._address, for_s=1800, why=why, out=out))

    async def resume(self) -> str:
        return await _printed(lambda out: resume(self._address, out=out))

    async def metric(self, name: str) -> str:
        async with httpx.AsyncClient(trust_env=False) as client:
            url = f"http://{self.syncer.settings.metrics_bind_address}/metrics"
            text = (await client.get(url)).text
        return "\n".join(line for line in text.splitlines() if line.startswith(name))

    def apply_large(self, name: str) -> None:
        """Create a Pod that asks for more CPUs than a host has."""
        requests = {"cpu": str(CPUS + 1), "memory": "4Gi"}
        container = {"name": "main", "image": "a:1", "resources": {"requests": requests}}
        spec = {
            "schedulerName": SCHEDULER,
            "terminationGracePeriodSeconds": 10,
            "containers": [container],
        }
        with self.worlds.kubernetes() as kube:
            kube.add_pod(name, namespace=TEAM, spec=spec)

    async def jobs_of(self, user: str) -> str:
        jobs = self.users.jobs_of(user)
        return f"{sum(job.state == 'RUNNING' for job in jobs)} of {len(jobs)} run"

    def condition(self, pod: str, kind: str) -> str:
        """Return a condition as `kubectl get pod -o yaml` has it, on one line."""
        one = whole_condition(self.users.pod(pod), kind)
        return f"{kind}={one['status']} {one['reason']}: {one['message']}" if one else ""

    def events(self, pod: str) -> str:
        """Return the Events of a Pod, as `kubectl describe` lists them."""
        stored = [one.an_object for _, one in self.worlds.kube.store.scan(EVENTS, namespace=TEAM)]
        of_pod = [one for one in stored if one["involvedObject"].get("name") == pod]
        return "\n".join(
            f"{one['type']}  {one['reason']}  {one['reportingComponent']}  {one['message']}"
            for one in of_pod
        )


async def _printed(command: Callable[[io.StringIO], int]) -> str:
    """Run a command in a thread: the service answers on this loop."""
    out = io.StringIO()
    await asyncio.to_thread(command, out)
    return out.getvalue().rstrip("\n")


async def until(text: Text, *words: str) -> str:
    """Return the text once it has all words."""
    end_s = time.monotonic() + WITHIN_S
    while True:
        said = await text()
        if all(word in said for word in words):
            return said
        if time.monotonic() > end_s:
            raise TimeoutError(f"{words} not in:\n{said}")
        await asyncio.sleep(LOOK_S)


@asynccontextmanager
async def desk() -> AsyncIterator[Desk]:
    """Start everything, and wait until both sides were read."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        worlds = Worlds()
        stack.push_async_callback(worlds.aclose)
        await worlds.start()
        (folder / "kubeconfig").write_text(worlds.kubeconfig, encoding="utf-8")
        (folder / "key").write_bytes(HOOKS_KEY)
        settings = settings_for(
            kubeconfig=str(folder / "kubeconfig"),
            slurm_address=worlds.slurm_address,
            key_file=str(folder / "key"),
        )
        worlds.start_callers(settings.hooks_url)
        chosen = {"leader_elect": True, "slurm_metrics_interval_s": 1.0}
        syncer = Syncer(settings.model_copy(update=chosen))
        stack.push_async_callback(syncer.aclose)
        stack.push_async_callback(worlds.stop_callers)
        syncer.start()
        one = Desk(worlds, syncer)
        await until(one.status, ", leads, ", "hosts: 12 all", "0 kubernetes, 0 slurm, 0 jobs")
        yield one


def parts_of(text: str, *names: str) -> str:
    """Return the first line of an explanation, and these parts of it."""
    part, chosen = "", []
    for line in text.splitlines():
        part = line[2:14].strip() or part
        if not line.startswith("  ") or part in names:
            chosen.append(line)
    return "\n".join(chosen)


def some_of(text: str, *words: str) -> str:
    """Return the first line and those with one of these words; `…` stands for the others."""
    first, *lines = text.splitlines()
    chosen = [line if any(word in line for word in words) else "  …" for line in lines]
    kept = [line for line, before in zip(chosen, ["", *chosen], strict=False) if line != before]
    return "\n".join([first, *kept])


async def answers(at: Desk) -> AsyncIterator[tuple[str, str, str]]:
    """Yield the name, command and output of each question, one situation after the other."""
    yield "doctor", "sunk-sync doctor", await at.doctor()
    checks = ("loop", "kubernetes: nodes", "slurm:", "claims", "leader", "hosts", "Pods:", "wait")
    yield "status", "kubectl sunk status", some_of(await at.status(), *checks)
    yield "metric", f"curl -s http://POD:8080/metrics | grep ^{METRIC}", await at.metric(METRIC)
    async for answer in _of_hosts(at):
        yield answer
    async for answer in _of_pods(at):
        yield answer
    at.worlds.stop_slurmctld()
    said = await until(at.status, "degraded slurm: cannot be read")
    yield "side", "kubectl sunk status", some_of(said, "slurm: cannot", "hosts", "Pods:")


async def _of_hosts(at: Desk) -> AsyncIterator[tuple[str, str, str]]:
    at.worlds.drain("n1", "fan broken")
    said = await until(lambda: at.explained("host", "n1"), "left alone", "writes      none")
    names = ("decision", "Slurm", "to change", "docs")
    yield "drained", "kubectl sunk explain host n1", parts_of(said, *names)
    yield "diff", "kubectl sunk diff", await until(at.diff, "1 difference: 1 drain")
    yield "pause", "kubectl sunk pause --for 30m --why maintenance", await at.pause()
    at.worlds.cordon("n3", "new disk")
    said = await until(lambda: at.explained("host", "n3"), "new disk", "held back")
    names = ("decision", "writes", "to change", "docs")
    yield "cordoned", "kubectl sunk explain host n3", parts_of(said, *names)
    yield "resume", "kubectl sunk resume", await at.resume()


async def _of_pods(at: Desk) -> AsyncIterator[tuple[str, str, str]]:
    at.users.apply("serve-0")
    said = await until(lambda: at.explained("pod", f"{TEAM}/serve-0"), "RUNNING", "bound to Node")
    (job_id,) = [str(job.job_id) for job in at.users.placeholders("serve-0")]
    said = await at.explained("job", job_id)
    yield "job", f"kubectl sunk explain job {job_id}", parts_of(said, "Kubernetes", "Slurm")
    at.users.submit("bob", *WORKLOAD_HOSTS)
    await until(
        lambda: at.jobs_of("bob"), f"{len(WORKLOAD_HOSTS) - 1} of {len(WORKLOAD_HOSTS)} run"
    )
    at.users.apply(POD)
    name = f"{TEAM}/{POD}"
    said = await until(lambda: at.explained("pod", name), "queue", "FailedScheduling", "answered")
    events = f"kubectl describe pod {POD}   # condition PodScheduled, and Events"
    yield "waits", events, f"{at.condition(POD, 'PodScheduled')}\n{at.events(POD)}"
    asked = f"kubectl sunk explain pod {name}"
    yield "queue", asked, parts_of(said, "decision", "Slurm", "to change", "docs")
    at.apply_large("large-0")
    name = f"{TEAM}/large-0"
    said = await until(lambda: at.explained("pod", name), "cannot:", "FailedScheduling")
    parts = parts_of(said, "sunk-sync", "to change", "docs")
    yield "hosts", f"kubectl sunk explain pod {name}", parts
    at.users.cancel_placeholder("serve-0")

    async def ended() -> str:
        return at.condition("serve-0", "DisruptionTarget")

    kind = "kubectl describe pod serve-0   # condition DisruptionTarget"
    yield "ended", kind, await until(ended, "SlurmJobCancelled")


def block(command: str, output: str) -> str:
    """Return the block for the page, without names of this machine."""
    output = re.sub(rf"{re.escape(socket.gethostname())}_\w+", "sunk-sync-0", output)
    output = re.sub(r"/tmp/[\w/]+/key", "/etc/sunk-sync/key", output)
    output = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:…", output)
    lines = "\n".join(map(_shortened, output.splitlines()))
    return f"```\n$ {command}\n{lines}\n```"


def _shortened(line: str) -> str:
    return line if len(line) <= WIDTH_MAX else f"{line[: WIDTH_MAX - 1]}…"


def renewed(text: str, blocks: Iterable[tuple[str, str]]) -> str:
    """Return the page with these blocks at their places."""
    for name, fresh in blocks:
        begin, end = f"<!-- output {name} -->", f"<!-- end of {name} -->"
        pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
        text, found = pattern.subn(lambda _: f"{begin}\n\n{fresh}\n\n{end}", text)  # noqa: B023
        if found != 1:
            raise LookupError(f"{FILE.name} has no place for {name}")
    return text


async def collected() -> list[tuple[str, str]]:
    async with desk() as one:
        return [(name, block(asked, said)) async for name, asked, said in answers(one)]


if __name__ == "__main__":
    made = asyncio.run(collected())
    FILE.write_text(renewed(FILE.read_text(encoding="utf-8"), made), encoding="utf-8")
