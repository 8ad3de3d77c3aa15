"""The gate and the placeholder script with real slurmctld and slurmd (L6-L9, P24).

The hooks server is ours, the core behind it is the test. Each figure is printed (`-rP`).
"""

import asyncio
import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any

import pytest

from sunk_sync.core.model.actions import AnswerGate, AnswerStop, HookAction
from sunk_sync.core.model.calls import GateCall, JobNotice, StopCall
from sunk_sync.core.model.facts import News
from sunk_sync.server.hooks import Hooks, Rest
from sunk_sync.server.placeholder import script_of
from sunk_sync.server.tokens import make_token, new_key
from sunk_sync.settings.types import Address
from sunk_sync.telemetry.exchange import Called
from tests.real.conftest import for_each_slurm
from tests.real.pod_bed import FOLDER, GATE_LINES, configure_scripts, copy_scripts, stamp, stamped
from tests.real.testbed import SlurmConf, SlurmServer
from tests.real.testbed.closing import Closing
from tests.real.testbed.rest import RestError
from tests.real.testbed.sandbox import wait_until

pytestmark = [
    pytest.mark.real,
    pytest.mark.both_slurms("each slurmctld and slurmd starts scripts in its own way"),
]

KILL_WAIT_S = 4
QUICK = ("SchedulerParameters=batch_sched_delay=0,default_queue_depth=10000",)
ALLOCATION = {
    "name": "t",
    "current_working_directory": "/tmp",
    "environment": ["A=b"],
    "memory_per_node": {"set": True, "number": 100},
    "immediate": True,
}
NOTHING = "#!/bin/sh\nexec sleep 60\n"


class HooksServer:
    """Our hooks server in a thread; the test is the core. Times are of the wall clock."""

    def __init__(self) -> None:
        self.key = new_key()
        self.news: list[tuple[float, News]] = []
        self.called: list[Called] = []
        self.subjects: dict[str, str] = {}
        self.not_ready = ""
        self.requeueable = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        rest = Rest(
            ready=lambda _path: self.not_ready,
            subject=self.subjects.get,
            requeueable=self._may_be_requeued,
            called=self.called.append,
        )
        self.hooks = Hooks(self.key, self._tell, clock=time.monotonic, rest=rest)
        self._stop = asyncio.Event()
        self._bound: Future[str] = Future()
        self._port = 0
        self.open()

    async def _may_be_requeued(self, _job_id: str) -> bool:
        return self.requeueable

    async def _tell(self, news: Sequence[News]) -> None:
        self.news.extend((time.time(), one) for one in news)

    def open(self) -> None:
        """Listen; after `die` on the same port again."""
        self._stop.clear()
        self._bound = Future()
        self._serving = asyncio.run_coroutine_threadsafe(self._serve(), self._loop)
        self.url = f"http://{self._bound.result(10)}"
        self._port = int(self.url.rpartition(":")[2])

    async def _serve(self) -> None:
        async with self.hooks.serve(Address("127.0.0.1", self._port)) as bound:
            self._bound.set_result(bound)
            await self._stop.wait()

    def die(self) -> None:
        """Break every connection and stop listening."""
        self._loop.call_soon_threadsafe(self._stop.set)
        self._serving.result(10)

    def close(self) -> None:
        self.die()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def answer(self, *actions: HookAction) -> None:
        asyncio.run_coroutine_threadsafe(self.hooks.push(actions), self._loop).result(10)

    def heard(self, kind: type[News], job: str, what: str = "") -> tuple[float, Any] | None:
        """Return the first such call about this job, and its time."""
        for at, one in list(self.news):
            its = isinstance(one, kind) and getattr(one, "job_id", "") == job
            if its and what in ("", getattr(one, "what", "")):
                return at, one
        return None

    def wait(
        self, kind: type[News], job: str, what: str = "", *, deadline_s: float = 20
    ) -> tuple[float, Any]:
        name = f"{kind.__name__} {what} of job {job}"
        wait_until(lambda: self.heard(kind, job, what) is not None, name, deadline_s=deadline_s)
        found = self.heard(kind, job, what)
        assert found is not None
        return found

    def gate_calls(self, job: str) -> list[GateCall]:
        return [one for _, one in self.news if isinstance(one, GateCall) and one.job_id == job]

    def let_go(self, job: str) -> None:
        """Answer the last call of this job's gate with go, for each node."""
        self.wait(GateCall, job)
        call = self.gate_calls(job)[-1]
        self.answer(*(AnswerGate(call.call, name, go=True, why="") for name in call.slurm_nodes))


class Bed(Closing):
    """One Slurm with our scripts installed, and the hooks server."""

    def __init__(self, version: str) -> None:
        self.version = version
        self.jobs: list[str] = []
        self.server = HooksServer()
        self.slurm = SlurmServer(version, SlurmConf(slurmds=3, kill_wait_s=KILL_WAIT_S))
        copy_scripts(self.slurm, self.server.key)

    def install(self, *lines: str, **settings: str) -> None:
        """Write slurm.conf with these lines and sunk-sync.conf with these settings."""
        configure_scripts(self.slurm, url=self.server.url, **settings)
        conf = SlurmConf(slurmds=3, kill_wait_s=KILL_WAIT_S, extra_lines=(*QUICK, *lines))
        self.slurm.reconfigure(conf)
        self.slurm.wait_until_idle(deadline_s=40)

    def submit(self, script: str = NOTHING, **fields: Any) -> str:
        job = self.slurm.submit(script, **{"name": "t", **fields})
        self.jobs.append(job)
        return job

    def cancel(self, job: str) -> None:
        self.slurm.cancel(job)

    def jobs_of(self, job: str) -> Any:
        """Return the record of the job, or those of the tasks of an array."""
        return self.slurm.rest.call("GET", self.slurm.path(f"job/{job}"))["jobs"]

    def job(self, job: str) -> Any:
        return self.jobs_of(job)[0]

    def field_of_tasks(self, job: str, field: str) -> list[Any]:
        return [one[field] for one in self.jobs_of(job)]

    def state(self, job: str) -> set[str]:
        return set(self.job(job)["job_state"])

    def until(self, claim: Callable[[], bool], what: str, *, deadline_s: float = 20) -> float:
        began = time.monotonic()
        wait_until(claim, what, deadline_s=deadline_s)
        return time.monotonic() - began

    def at_gate(self, name: str, **settings: str) -> str:
        """Install the gate and submit a job; return its id when the gate has called."""
        self.install(*GATE_LINES, **settings)
        job = self.submit(stamp(name))
        self.server.wait(GateCall, job)
        return job

    def stamped(self, name: str) -> float | None:
        return stamped(self.slurm, name)

    def until_asked_again(self, job: str) -> None:
        self.until(lambda: len(self.server.gate_calls(job)) == 2, "a second call", deadline_s=30)

    def none_drained(self) -> bool:
        return all("DRAIN" not in state for state in self.slurm.states().values())

    def started(self, name: str, *, deadline_s: float = 20) -> float:
        wait_until(lambda: self.stamped(name) is not None, f"{name} runs", deadline_s=deadline_s)
        at = self.stamped(name)
        assert at is not None
        return at

    def clear(self) -> None:
        for job in self.jobs:
            with contextlib.suppress(RestError):
                self.cancel(job)
        self.jobs.clear()
        self.slurm.wait_until_idle(deadline_s=40)

    def say(self, text: str) -> None:
        print(f"{self.version}: {text}")

    def close(self) -> None:
        self.slurm.close()
        self.server.close()


shared = for_each_slurm(Bed, kube=None)


@pytest.fixture
def bed(shared: Bed) -> Iterator[Bed]:
    yield shared
    shared.server.not_ready, shared.server.requeueable = "", False
    shared.clear()


def test_a_job_waits_at_the_gate_until_it_is_released_L7_L8(bed: Bed) -> None:
    job = bed.at_gate("held")
    at, call = bed.server.wait(GateCall, job)
    assert bed.slurm.run_in_root("scontrol", "show", "hostnames", call.slurm_nodes[0])
    assert bed.state(job) == {"RUNNING", "CONFIGURING"}
    time.sleep(2)
    assert bed.stamped("held") is None
    let_go = time.time()
    bed.server.let_go(job)
    started = bed.started("held")
    assert started > let_go
    bed.say(f"let go → script runs {1000 * (started - let_go):.0f} ms")
    allocated = bed.job(job)["start_time"]["number"]
    assert at - allocated < 3
    ended = time.time()
    bed.cancel(job)
    ended_s, _ = bed.server.wait(JobNotice, job, "ended")
    bed.say(f"cancelled → end reported {1000 * (ended_s - ended):.0f} ms")


def test_delay_until_the_call_of_the_gate_L7(bed: Bed) -> None:
    bed.install(*GATE_LINES)
    took = []
    for _ in range(20):
        sent = time.time()
        path = bed.slurm.path("job/allocate")
        answer = bed.slurm.rest.call("POST", path, {"job": ALLOCATION})
        job = str(answer["job_id"])
        at, _ = bed.server.wait(GateCall, job)
        took.append(1000 * (at - sent))
        bed.server.let_go(job)
        bed.cancel(job)
    took.sort()
    bed.say(f"allocate sent → gate call: p50 {took[10]:.0f} ms, worst {took[-1]:.0f} ms")
    assert took[10] < 500


def test_a_task_of_an_array_is_named_by_array_and_task_L7(bed: Bed) -> None:
    bed.install(*GATE_LINES)
    job = bed.submit(array="0-1")
    for task in (f"{job}_0", f"{job}_1"):
        bed.server.let_go(task)
    running = [["RUNNING"]] * 2
    bed.until(lambda: bed.field_of_tasks(job, "job_state") == running, "the array runs")
    bed.cancel(job)
    for task in (f"{job}_0", f"{job}_1"):
        bed.server.wait(JobNotice, task, "ended")


def test_a_job_cancelled_at_the_gate_ends_L7(bed: Bed) -> None:
    job = bed.at_gate("cancelled")
    bed.cancel(job)
    took = bed.until(lambda: bed.state(job) == {"CANCELLED"}, "ended")
    left = bed.until(lambda: bed.server.hooks.calls.waiting == 0, "call ended")
    bed.say(f"cancelled at the gate: ended after {took:.1f} s, its call {left:.1f} s later")


def test_slurmctld_calls_the_gate_again_after_sigkill_L7(bed: Bed) -> None:
    job = bed.at_gate("killed")
    time.sleep(6)  # slurmctld would forget a job younger than its last save
    bed.slurm.stop_slurmctld(signal.SIGKILL)
    bed.slurm.start_slurmctld()
    bed.until_asked_again(job)
    assert bed.stamped("killed") is None
    bed.server.let_go(job)
    bed.started("killed")


def test_slurmctld_starts_no_job_at_the_gate_after_sigterm_L7(bed: Bed) -> None:
    """24.11 runs the prolog again; 26.05 takes it as finished and starts nothing."""
    job = bed.at_gate("stopped")
    bed.slurm.restart_slurmctld()
    if bed.version == "24.11":
        bed.until_asked_again(job)
        bed.server.let_go(job)
        bed.started("stopped")
        return
    time.sleep(5)
    bed.say(f"slurmctld stopped and started: {bed.job(job)['job_state']}")
    assert bed.stamped("stopped") is None


def test_the_scripts_work_without_curl_L7_P24(bed: Bed) -> None:
    """Debian's slurmd image has bash, but no curl."""
    bed.install(*GATE_LINES)
    curl = bed.slurm.root / "usr/bin/curl"
    aside = curl.rename(curl.with_name("curl-aside"))
    try:
        job = placeholder(bed, "k8s/ns/no-curl/1")
        bed.server.let_go(job)
        bed.server.wait(JobNotice, job, "started")
        bed.cancel(job)
        call: StopCall = bed.server.wait(StopCall, job)[1]
        bed.server.answer(AnswerStop(call.call, "gone"))
        bed.server.wait(JobNotice, job, "ended")
    finally:
        aside.rename(curl)


def test_many_jobs_wait_at_the_gate_at_once_L7(bed: Bed) -> None:
    bed.install(*GATE_LINES)
    began = time.time()
    job = bed.submit(array="0-47")
    tasks = [f"{job}_{i}" for i in range(48)]
    for task in tasks:
        bed.server.wait(GateCall, task, deadline_s=30)
    calls = [at for at, one in bed.server.news if isinstance(one, GateCall) and one.job_id in tasks]
    bed.say(f"48 tasks: first call {calls[0] - began:.2f} s, last {calls[-1] - began:.2f} s")
    for task in tasks:
        bed.server.let_go(task)
    running = [["RUNNING"]] * 48
    took = bed.until(lambda: bed.field_of_tasks(job, "job_state") == running, "run", deadline_s=30)
    bed.say(f"48 tasks let go: all run {took:.2f} s later")


def test_a_job_starts_after_silent_without_a_service_L9(bed: Bed) -> None:
    bed.at_gate("silent", silent="4s=pass")
    died = time.time()
    bed.server.die()
    try:
        waited = bed.started("silent") - died
    finally:
        bed.server.open()
    bed.say(f"--silent 4s: server dead → script runs {waited:.1f} s")
    assert 2 < waited < 9


def test_a_restarted_service_is_asked_again_L9(bed: Bed) -> None:
    job = bed.at_gate("back")
    bed.server.die()
    time.sleep(1.5)
    bed.server.open()
    bed.until_asked_again(job)
    assert bed.stamped("back") is None
    bed.server.let_go(job)
    bed.started("back")


def test_a_standby_is_asked_again_L9(bed: Bed) -> None:
    """It answers 503 until it has listed both sides."""
    bed.server.not_ready = "not listed yet"
    bed.install(*GATE_LINES)
    job = bed.submit(stamp("standby"))
    bed.until(lambda: len(bed.server.called) > 1, "two calls")
    assert bed.stamped("standby") is None
    bed.server.not_ready = ""
    bed.server.let_go(job)
    bed.started("standby")


def test_a_job_starts_after_busy_max_L9(bed: Bed) -> None:
    begun = len(bed.server.called)
    job = bed.at_gate("busy", busy="2s", busy_max="4s")
    at, _ = bed.server.wait(GateCall, job)
    waited = bed.started("busy") - at
    outcomes = [one.reply.outcome for one in bed.server.called[begun:] if one.reply]
    assert outcomes[-1] == "passed"
    bed.say(f"--busy-max 4s: gate call → script runs {waited:.1f} s")
    assert 2 < waited < 8


def test_after_busy_a_requeueable_job_is_requeued_and_another_is_killed_L9(bed: Bed) -> None:
    """slurmctld's reaction to exit 1: PENDING with a delay, or CANCELLED."""
    bed.install(*GATE_LINES, busy="2s", busy_max="4s")
    bed.server.requeueable = True
    soft = bed.submit(requeue=True)
    bed.until(lambda: bed.job(soft)["restart_cnt"] == 1, "requeued")
    bed.until(lambda: "COMPLETING" not in bed.state(soft), "the attempt ended")
    row = bed.job(soft)
    wait_s = row["eligible_time"]["number"] - row["submit_time"]["number"]
    bed.say(f"exit 1, requeueable: {row['job_state']} {row['state_reason']}, again in {wait_s} s")
    assert "PENDING" in row["job_state"]
    hard = bed.submit(requeue=False)
    bed.server.wait(GateCall, hard)
    bed.until(lambda: "RUNNING" not in bed.state(hard), "killed")
    bed.say(f"exit 1, not requeueable: {bed.job(hard)['job_state']}")
    assert bed.state(hard) & {"CANCELLED", "FAILED"}
    assert bed.none_drained()


def test_as_prolog_of_the_nodes_the_gate_drains_nothing_L9(bed: Bed) -> None:
    bed.install(f"Prolog={FOLDER}/sunk-sync-prolog.sh", busy="2s", busy_max="4s")
    bed.server.requeueable = True
    job = bed.submit(stamp("node"), nodes="2", tasks=2, tasks_per_node=1)
    at, call = bed.server.wait(GateCall, job)
    assert len(call.slurm_nodes) == 1
    waited = bed.started("node") - at
    bed.say(f"node prolog, --busy-max 4s: call → script runs {waited:.1f} s")
    assert 3 < waited < 9
    assert bed.none_drained()


def placeholder(bed: Bed, name: str, **fields: Any) -> str:
    """Return one of our placeholder jobs; its token belongs to its name."""
    token = make_token(bed.server.key, name)
    script = script_of(url=bed.server.url, token=token, kill_wait_s=KILL_WAIT_S, extra="x")
    job = bed.submit(script, name=name, extra="x", **fields)
    tasks = [f"{job}_{i}" for i in range(3)] if "array" in fields else []
    bed.server.subjects |= dict.fromkeys([job, *tasks], name)
    return job


def test_a_placeholder_reports_its_start_P24_L6(bed: Bed) -> None:
    """It writes `extra` first, so that a read caused by the call finds it."""
    bed.install()
    job = placeholder(bed, "k8s/ns/a/1")
    at, _ = bed.server.wait(JobNotice, job, "started")
    assert bed.job(job)["extra"] == "x: started"
    bed.say(
        f"start of the job → reported: {at - bed.job(job)['start_time']['number']:.1f} s (whole s)"
    )


def test_each_task_of_an_array_reports_its_own_start_P24(bed: Bed) -> None:
    bed.install()
    job = placeholder(bed, "k8s/ns/array/1", array="0-2")
    for i in range(3):
        bed.server.wait(JobNotice, f"{job}_{i}", "started")
    bed.until(lambda: bed.field_of_tasks(job, "extra") == ["x: started"] * 3, "each `extra`")


def test_a_script_of_another_user_reports_its_start_P24(bed: Bed) -> None:
    """User nobody may not update the job of root, so `extra` may stay as it was."""
    bed.install()
    job = placeholder(bed, "k8s/ns/nobody/1", user_id="65534", group_id="65534")
    bed.server.wait(JobNotice, job, "started")
    bed.say(f"extra as written by uid 65534: {bed.job(job)['extra']!r}")


def test_a_cancelled_placeholder_keeps_its_node_until_its_pod_is_gone_L6(bed: Bed) -> None:
    bed.install()
    job = placeholder(bed, "k8s/ns/b/1")
    bed.server.wait(JobNotice, job, "started")
    sent = time.time()
    bed.cancel(job)
    at, call = bed.server.wait(StopCall, job)
    bed.say(f"DELETE → stop call {1000 * (at - sent):.0f} ms")
    time.sleep(1.5)
    assert bed.state(job) == {"CANCELLED", "COMPLETING"}
    bed.server.answer(AnswerStop(call.call, "gone"))
    took = bed.until(lambda: bed.state(job) == {"CANCELLED"}, "ended")
    bed.say(f"gone → node free {1000 * took:.0f} ms")
    assert took < 2


def test_after_kill_wait_slurm_kills_the_placeholder_L6(bed: Bed) -> None:
    bed.install()
    job = placeholder(bed, "k8s/ns/c/1")
    bed.server.wait(JobNotice, job, "started")
    sent = time.time()
    bed.cancel(job)
    call: StopCall = bed.server.wait(StopCall, job)[1]
    assert call.until_s - call.asked_s <= KILL_WAIT_S
    bed.server.answer(AnswerStop(call.call, "drain"))
    bed.server.die()
    try:
        bed.until(lambda: bed.state(job) == {"CANCELLED"}, "killed")
    finally:
        bed.server.open()
    took = time.time() - sent
    bed.say(f"DELETE → killed after {took:.1f} s (KillWait {KILL_WAIT_S})")
    assert took >= KILL_WAIT_S
    assert bed.none_drained()
