"""The real and the embedded Slurm as scenarios of placeholder jobs see them.

Job ids count from the first job of a scenario: `@0` in a path or body is its id. Times and
decisions of the machine are left out. So are COMPLETING and CONFIGURING, whose timing differs,
unless a scenario asks for them (Act "flags").
"""

import contextlib
import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from sunk_sync.embedded.slurm.memory import Partition
from tests.real import test_differential_slurm as base
from tests.real.test_differential_slurm import Act, Rest, get
from tests.real.testbed import SlurmConf, SlurmServer
from tests.real.testbed.errors import BedError
from tests.real.testbed.sandbox import wait_until

Json = Any
ENDED_WITHIN_S = 10.0
Step = Rest | Act
PREEMPTION = (
    "PreemptType=preempt/partition_prio",
    "PreemptMode=CANCEL",
    "SchedulerParameters=batch_sched_delay=0,bf_interval=600",
)
PARTITIONS = (
    Partition(name="main", default=True, tier=5),
    Partition(name="low", nodes=("n1", "n2"), preempt_mode="CANCEL"),
    Partition(name="graced", nodes=("n1", "n2"), preempt_mode="CANCEL", grace_s=3),
    Partition(name="again", nodes=("n1", "n2"), preempt_mode="REQUEUE"),
    Partition(name="high", nodes=("n1", "n2"), tier=10),
)
GATE = """#!/bin/sh
touch "/opt/gate/at-$$"
while [ -e /opt/gate/wait ]; do sleep 0.05; done
[ ! -e /opt/gate/fail ]
passes=$?
rm -f "/opt/gate/at-$$"
exit $passes
"""
END = """#!/bin/sh
echo "$SLURM_JOB_ID $SLURM_JOB_NODELIST" >> /opt/gate/ended
"""
GATED = ("PrologSlurmctld=/opt/gate/gate", "EpilogSlurmctld=/opt/gate/end")
PLACE = {"current_working_directory": "/tmp", "environment": ["A=b"]}
_SHOWN = (
    "name", "partition", "state_reason", "nodes", "admin_comment", "extra", "comment", "account",
    "priority", "hold", "time_limit", "features", "prefer", "shared", "required_nodes",
    "excluded_nodes", "user_id", "group_id", "tres_per_node", "node_count", "cpus",
    "cpus_per_task", "tasks", "tasks_per_node", "memory_per_node", "requeue", "restart_cnt",
    "current_working_directory", "array_task_id", "array_task_string", "array_max_tasks",
    "batch_flag", "batch_host", "state_description", "command",
)  # fmt: skip
_PASSING = {"COMPLETING", "CONFIGURING"}


def conf_of(partition: Partition) -> str:
    mode, grace_s = partition.preempt_mode, int(partition.grace_s)
    nodes = ",".join(partition.nodes) or "ALL"
    default = "YES" if partition.default else "NO"
    return (
        f"PartitionName={partition.name} Nodes={nodes} Default={default} MaxTime=INFINITE "
        f"State=UP PriorityTier={partition.tier} PreemptMode={mode} GraceTime={grace_s}"
    )


def conf(*more: str) -> SlurmConf:
    """Three nodes with two GPUs each, and partitions that preempt each other."""
    return SlurmConf(
        slurmds=3,
        gpus=2,
        partitions=[conf_of(each) for each in PARTITIONS],
        extra_lines=[*PREEMPTION, *more],
    )


class Side(base.Side, Protocol):
    """One of the two Slurms; `first` is the first job id of a scenario."""

    first: int


class RealJobs(base.Real):
    first = 0

    def act(self, act: Act) -> Json:
        acts: Mapping[str, Callable[[str], Json]] = {
            "wait": lambda on: time.sleep(float(on)),
            "until": lambda on: wait_until(lambda: states_are(self, on), on, deadline_s=45),
            "calm": lambda _: wait_until(lambda: is_calm(self), "calm", deadline_s=20),
            "flags": lambda _: flags(self),
            **{name: partial(self._change_job, name) for name in ("suspend", "resume", "requeue")},
            "close gate": lambda _: self._close(),
            "open gate": lambda _: self._open(),
            "fail gate": lambda _: self._file("fail").touch(),
            "ended": lambda on: self._ended(int(on)),
        }
        return acts[act.what](act.on) if act.what in acts else super().act(act)

    def gated(self) -> None:
        folder = self.server.root / "opt/gate"
        folder.mkdir()
        folder.chmod(0o777)
        for name, text in (("gate", GATE), ("end", END)):
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)
        self.server.reconfigure(conf(*GATED))
        self.server.wait_until_idle()

    def _change_job(self, what: str, on: str) -> None:
        self.server.scontrol(what, str(self.first + int(on)))

    def _file(self, name: str) -> Any:
        return self.server.root / "opt/gate" / name

    def _close(self) -> None:
        """Close the gate, without marks of prologs that Slurm has killed."""
        for mark in self._file("").glob("at-*"):
            mark.unlink()
        self._file("wait").touch()

    def _open(self) -> None:
        """Let every prolog at the gate fail; a job that comes back passes."""
        standing = list(self._file("").glob("at-*"))
        self._file("wait").unlink(missing_ok=True)
        if self._file("fail").exists():
            wait_until(lambda: not any(map(Path.exists, standing)), "gates", deadline_s=10)
            self._file("fail").unlink()
        time.sleep(0.5)

    def _ended(self, count: int) -> Json:
        """Wait for `count` epilog calls of this scenario's jobs; return them."""
        with contextlib.suppress(BedError):
            wait_until(lambda: len(self._epilogs()) >= count, "epilogs", deadline_s=ENDED_WITHIN_S)
        ended = self._epilogs()
        self._file("ended").unlink(missing_ok=True)
        return ended

    def _epilogs(self) -> Json:
        file = self._file("ended")
        lines = file.read_text().splitlines() if file.exists() else []
        ended = [[int(line.split()[0]) - self.first, line.split()[1]] for line in lines]
        return sorted(each for each in ended if each[0] >= 0)


class EmbeddedJobs(base.Embedded):
    """The embedded Slurm, with its gates simulated here."""

    first = 0

    def __init__(self, server: SlurmServer, *, gated: bool = False) -> None:
        gates = {"prolog_slurmctld": gated, "epilog_slurmctld": gated}
        super().__init__(server, partitions=PARTITIONS, backfill_every_s=600, **gates)
        self._closed = self._fails = False
        self._at_gate: list[int] = []
        self._epilogs: list[tuple[int, str]] = []

    def rest(self, step: Rest) -> tuple[int, str, bytes]:
        answer = super().rest(step)
        self._play()
        return answer

    def act(self, act: Act) -> Json:
        world = self.world
        acts: Mapping[str, Callable[[str], Json]] = {
            "wait": lambda on: self._later(float(on)),
            "until": self._until_states,
            "calm": lambda _: self._later(5),
            "flags": lambda _: flags(self),
            "suspend": lambda on: world.suspend_job(self._job(on), now_s=self._now_s),
            "resume": lambda on: world.resume_job(self._job(on), now_s=self._now_s),
            "requeue": lambda on: world.requeue_job(self._job(on), now_s=self._now_s),
            "close gate": lambda _: self._gate(closed=True),
            "open gate": lambda _: self._gate(closed=False),
            "fail gate": lambda _: setattr(self, "_fails", True),
            "ended": lambda _: self._ended(),
        }
        gave = acts[act.what](act.on) if act.what in acts else super().act(act)
        self._play()
        return None if act.what in ("suspend", "resume", "requeue") else gave

    def _job(self, on: str) -> int:
        return self.first + int(on)

    def _later(self, seconds: float = 4.0) -> None:
        until_s = self._now_s + seconds
        while self._now_s < until_s:
            super()._later(min(0.1, until_s - self._now_s))
            self._play()

    def _until_states(self, wanted: str) -> None:
        for _ in range(450):
            if states_are(self, wanted):
                return
            self._later(0.1)
        raise AssertionError(f"never {wanted}: {flags(self)}")

    def _gate(self, *, closed: bool) -> None:
        self._closed = closed
        self._play()
        if not closed:
            self._later(0.5)
            self._fails = False

    def _play(self) -> None:
        for call in self.world.take_calls():
            if call.kind == "gate":
                self._at_gate.append(call.job.job_id)
            elif call.kind == "ended":
                self._epilogs.append((call.job.job_id, ",".join(call.job.nodes)))
        while self._at_gate and not self._closed:
            job_id = self._at_gate.pop(0)
            self.world.release_gate(job_id, now_s=self._now_s, passes=not self._fails)

    def _ended(self) -> Json:
        ended, self._epilogs = self._epilogs, []
        return sorted([job_id - self.first, on] for job_id, on in ended if job_id >= self.first)


def placed(step: Step, first: int) -> Step:
    """Replace `@0` and the like by real ids."""
    if isinstance(step, Act):
        return step

    def number(match: re.Match[str]) -> str:
        return str(first + int(match[1]))

    path = re.sub(r"@(\d+)", number, step.path)
    body = json.loads(re.sub(r"@(\d+)", number, json.dumps(step.body)))
    return replace(step, path=path, body=body)


def counted(side: Side, name: str) -> str:
    """Return an id, or the id of a task, relative to the first one of the scenario."""
    number, _, task = name.partition("_")
    if int(number) > 90_000:
        return name
    return f"{int(number) - side.first}" + (f"_{task}" if task else "")


def states_of(side: Side) -> Mapping[str, Sequence[str]]:
    """Return the states of this scenario's jobs as /jobs/state/ spells them."""
    rows = json.loads(side.rest(get("jobs/state/"))[2])["jobs"]
    ours = [row for row in rows if int(row["job_id"].partition("_")[0]) >= side.first]
    return {counted(side, row["job_id"]): row["state"] for row in ours}


def states_are(side: Side, wanted: str) -> bool:
    """Whether the states are `0=RUNNING 1=PENDING`, without passing flags."""
    states = states_of(side)
    pairs = (each.split("=") for each in wanted.split())
    return all(set(states.get(name, ())) - _PASSING == {state} for name, state in pairs)


def nodes_of(side: Side) -> Json:
    return json.loads(side.rest(get("nodes/"))[2])["nodes"]


def flags(side: Side) -> Json:
    """Return the states of jobs with all flags, and those of nodes."""
    nodes = nodes_of(side)
    return [
        dict(states_of(side)),
        {node["name"]: sorted(set(node["state"]) - {"NOT_RESPONDING"}) for node in nodes},
    ]


def shown(side: Side, after: Step) -> Json:
    settled = isinstance(after, Act)
    states = {name: sorted(set(state) - _PASSING) for name, state in states_of(side).items()}
    jobs = {}
    for name in sorted({name.partition("_")[0] for name in states}, key=int):
        rows = json.loads(side.rest(get(f"job/{int(name) + side.first}"))[2])["jobs"]
        for row in rows:
            plain = _plain(side, row)
            if not settled and plain["state_reason"] in ("None", "Priority", "Resources"):
                del plain["state_reason"]  # until the next scheduling cycle
            if not settled:
                plain.pop("signalled", None)  # until slurmd has ended the script
            jobs[row["job_id"] - side.first] = plain
    nodes = {node["name"]: _node(node) for node in nodes_of(side)}
    return [states, {str(key): jobs[key] for key in sorted(jobs)}, nodes]


def _node(node: Json) -> Json:
    state = sorted(set(node["state"]) - {"NOT_RESPONDING", "COMPLETING"})
    return [state, node["gres_used"], node["alloc_cpus"], node["alloc_memory"]]


def _plain(side: Side, row: Json) -> Json:
    plain = {field: row[field] for field in _SHOWN}
    plain["state"] = sorted(set(row["job_state"]) - _PASSING)
    array = row["array_job_id"]["number"]
    plain["array"] = array and array - side.first
    plain["external"] = "EXTERNAL_JOB" in row["flags"]
    plain["pushed"] = row["preempt_time"]["number"] > 0
    plain["gres"] = [re.sub(r"\(.*?\)", "", each) for each in row["gres_detail"]]
    if plain["state"] == ["FAILED"]:
        del plain["cpus"]  # an estimate of the real Slurm
    plain["exit"] = row["exit_code"]["return_code"]["number"]
    if plain["state"] == ["CANCELLED"]:
        plain["signalled"] = "SIGNALED" in row["exit_code"]["status"]
    return plain


def given(side: Side, status: int, body: bytes) -> Json:
    """Return the response to a write, or to a read of a job."""
    try:
        answer = json.loads(body)
    except ValueError:
        return [status, body.decode()]
    kept = {name: answer.get(name) for name in ("errors", "warnings", "results")}
    kept["job"] = answer["job_id"] - side.first if "job_id" in answer else None
    kept["status"] = [
        [one["error"], counted(side, one["step_id"]), one["job_id"]["set"]]
        for one in answer.get("status") or ()
    ]
    return [status, kept]


def play(side: Side, steps: Sequence[Step]) -> list[Json]:
    """Return the result of each step, with the jobs and nodes after it."""
    trace: list[Json] = []
    for step in steps:
        real = placed(step, side.first)
        if isinstance(real, Act):
            gave = side.act(real)
        else:
            status, _, body = side.rest(real)
            gave = given(side, status, body)
        trace.append([repr(step)[:200], gave, None if is_racing(step) else shown(side, step)])
    return trace


def is_racing(step: Step) -> bool:
    """Whether the real Slurm may do more at any moment after this step; then do not compare yet."""
    if isinstance(step, Act):
        return step.what == "requeue"
    return step.path == "job/submit" or step.method == "DELETE" or step.path.startswith("node/")


def begin(side: Side) -> None:
    """Reset: no jobs, idle nodes, and ids counted from the next one."""
    for name in states_of(side):
        side.rest(Rest("DELETE", f"job/{int(name.partition('_')[0]) + side.first}"))
    for node in nodes_of(side):
        if "DRAIN" in node["state"]:
            side.rest(base.post(node["name"], state=["UNDRAIN"]))
    side.act(Act("calm"))
    body = {"script": "#!/bin/sh\n", "job": {**PLACE, "name": "probe", "hold": True}}
    probe = json.loads(side.rest(Rest("POST", "job/submit", body))[2])["job_id"]
    side.rest(Rest("DELETE", f"job/{probe}"))
    side.first = probe + 1


def is_calm(side: Side) -> bool:
    return all(node["state"] == ["IDLE"] for node in nodes_of(side))
