"""Placeholder jobs on the embedded Slurm and on the real ones, compared after each step.

Like test_differential_slurm, for submissions, allocations, cancels, updates, arrays, preemption and
gates. Each step compares the response, all jobs of the scenario, and all nodes.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

import pytest

from tests.real.conftest import for_each_slurm
from tests.real.job_sides import PLACE, EmbeddedJobs, Json, RealJobs, Side, Step, begin, conf, play
from tests.real.slurm_jobs import SLEEP, number
from tests.real.test_differential_slurm import Act, Rest, compare_traces, drain, get, post
from tests.real.testbed import SlurmServer

pytestmark = [pytest.mark.real, pytest.mark.both_slurms("each version answers in its own dialect")]

STUBBORN = "#!/bin/sh\ntrap '' TERM\nwhile true; do sleep 1; done\n"
SMALL: Mapping[str, Json] = {"cpus_per_task": 1, "tasks": 1, "memory_per_node": number(1000)}
WHOLE: Mapping[str, Json] = {"shared": ["none"], "required_nodes": ["n1"]}
TICK = Act("wait", "2")


def until(states: str) -> Act:
    return Act("until", states)


RUNS = until("0=RUNNING")
FLAGS = Act("flags")


def submit(*, script: str | None = SLEEP, who: str = "root", **job: Json) -> Rest:
    body = {"job": _given(job), **({"script": script} if script is not None else {})}
    return Rest("POST", "job/submit", body, who=who)


def allocate(**job: Json) -> Rest:
    return Rest("POST", "job/allocate", {"job": _given({"immediate": True, **job})})


def _given(job: Mapping[str, Json]) -> Json:
    whole = {"name": "j", **PLACE, **SMALL, **job}
    return {name: value for name, value in whole.items() if value is not None}


def update(job: int, who: str = "root", **fields: Json) -> Rest:
    return Rest("POST", f"job/@{job}", fields, who=who)


def kill(**body: Json) -> Rest:
    return Rest("DELETE", "jobs/", body)


def kill_one(name: str) -> Rest:
    return Rest("DELETE", f"job/{name}")


REFUSED: Sequence[Mapping[str, Json]] = (
    {"tres_per_node": "gpu:1"}, {"tres_per_node": "gres/nic:1"}, {"tres_per_node": "gres/gpu:3"},
    {"tres_per_node": "gres/gpu:a100:1"}, {"excluded_nodes": ["n[1-3]"]},
    {"excluded_nodes": ["nosuch"]}, {"required_nodes": ["nosuch"]},
    {"required_nodes": ["n1"], "excluded_nodes": ["n1"]}, {"cpus_per_task": 17},
    {"memory_per_node": number(64001)}, {"nodes": "4"},
    {"nodes": "4", "tasks": 4}, {"constraints": "nope"}, {"prefer": "nope"},
    {"partition": "nope"}, {"array": "x"}, {"array": "3-1"}, {"user_id": "nobody2"},
    {"current_working_directory": None}, {"extra": "x" * 1025}, {"name": "x" * 1025},
    {"shared": ["bad"]}, {"nosuch": 1}, {"partition": "low",
    "required_nodes": ["n3"]},
)  # fmt: skip

SCENARIOS: Mapping[str, Sequence[Step]] = {
    "a job with everything": [
        submit(name="x", comment="c", admin_comment='{"a":1}', extra="e",
               time_limit=number(5), priority=number(77),
               required_nodes=["n[1-2]"], excluded_nodes=["n3"], nodes="2", tasks=2,
               tasks_per_node=1, tres_per_node="gres/gpu:1", requeue=False, user_id="65534",
               group_id="65534", account="a", qos="q", argv=["whose", "more"]),
        RUNS,
        kill(jobs=["@0"], job_name="x"),
    ],
    "others write into it": [
        submit(argv=['{"a": "b c"}'], admin_comment="ours"), RUNS,
        update(0, admin_comment="theirs", name="other", argv=["none"]),
        kill(jobs=["@0"], job_name="j"), kill(jobs=["@0"], job_name="other"),
        allocate(argv=["of an allocation"], admin_comment="ours"), kill_one("@1"),
    ],
    "sizes": [
        submit(nodes="2", tasks=2, tasks_per_node=1, cpus_per_task=3),
        submit(nodes="2", tasks=None, cpus_per_task=2), submit(minimum_nodes=2, tasks=None),
        submit(tasks=4), submit(memory_per_node="2G"), submit(nodes=1, excluded_nodes="n1,n2"),
        submit(time_limit={"number": 5}), submit(time_limit=7), until("7=RUNNING"),
    ],
    "any of the required nodes": [
        submit(required_nodes=["n[1-2]"], nodes="1"), allocate(user_id="65534", group_id="65534"),
        drain("n1"), allocate(required_nodes=["n[1-2]"], nodes="1", priority=9), RUNS,
    ],
    "more nodes than the required ones": [
        submit(required_nodes=["n2"], nodes="2", tasks=2, cpus_per_task=16), RUNS,
        submit(required_nodes=["n2"], nodes="2", tasks=2, cpus_per_task=16), TICK,
        allocate(required_nodes=["n2"], nodes="2", tasks=2, cpus_per_task=16, priority=number(9)),
        update(1, required_nodes=["n3"]), TICK, kill_one("@0"), until("1=RUNNING"), kill_one("@1"),
        Act("calm"), drain("n3"), submit(required_nodes=["n3"], nodes="2", tasks=2), TICK,
        allocate(required_nodes=["n3"], nodes="2", tasks=2, priority=number(9)),
        allocate(required_nodes=["n2"], nodes="2", tasks=2, priority=number(99)), TICK,
    ],
    "more nodes, and one of them is pushed out": [
        submit(partition="low", required_nodes=["n2"], shared=["none"]), RUNS,
        submit(partition="high", required_nodes=["n2"], nodes="2", tasks=2, shared=["none"]),
        until("0=PREEMPTED 1=RUNNING"),
    ],
    "GPUs": [
        submit(tres_per_node="gres/gpu:1", required_nodes=["n1"]),
        submit(tres_per_node="gres/gpu=1", required_nodes=["n1"]),
        submit(tres_per_node="gres:gpu:1", required_nodes=["n1"]), until("0=RUNNING 1=RUNNING"),
        kill_one("@0"), until("0=CANCELLED 2=RUNNING"),
    ],
    "the lowest weight first, modulo 2^24": [
        post("n1", weight=2**24 + 1), post("n2", weight=5), post("n3", weight=2**24),
        submit(shared=["none"]), RUNS, submit(shared=["none"]), until("1=RUNNING"),
        submit(shared=["none"]), until("2=RUNNING"),
        post("n1", weight=1), post("n2", weight=1), post("n3", weight=1),
    ],
    "who is kept out goes elsewhere": [
        submit(excluded_nodes=["n[1-2]"]), submit(excluded_nodes=["n1", "n3"]),
        until("0=RUNNING 1=RUNNING"),
    ],
    "what a submission is refused for": [
        submit(**{**one, "hold": True}) for one in REFUSED if one.get("tasks") != 4
    ],
    "submissions without what they need": [
        submit(environment=None), submit(environment=[]), submit(script=None), submit(script=""),
        submit(who="bad"),
    ],
    "an external job": [
        submit(script=None, environment=None, flags=["EXTERNAL_JOB"], required_nodes=["n1"]), TICK,
        submit(flags=["EXTERNAL_JOB"], hold=True),
    ],
    "a held job": [
        submit(hold=True), submit(hold=True, priority=number(3)), TICK,
        update(0, priority=number(5)), update(0, hold=False), TICK,
    ],
    "an allocation": [
        allocate(**WHOLE), allocate(required_nodes=["n1"]), allocate(flags=[], nodes="2", tasks=2),
        kill(jobs=["@0"], job_name="j"), Act("wait", "0.4"), FLAGS,
    ],
    "what an allocation is refused for": [allocate(**one) for one in REFUSED],
    "an allocation behind others": [
        submit(**WHOLE), RUNS, submit(**WHOLE), TICK, allocate(required_nodes=["n3"]),
        allocate(tres_per_node="gres/gpu:3"), allocate(partition="low"),
        allocate(partition="high", required_nodes=["n2"]),
        allocate(required_nodes=["n3"], priority=number(9)), allocate(hold=True), kill_one("@1"),
        allocate(required_nodes=["n3"]),
    ],
    "an allocation on what is drained": [
        drain("n1"), allocate(required_nodes=["n1"]), allocate(nodes="3", tasks=3),
        submit(required_nodes=["n1"]), submit(nodes="3", tasks=3), TICK, allocate(),
        post("n1", state=["UNDRAIN"]), Act("wait", "3"),
    ],
    "cancels": [
        submit(name="a"), submit(name="b"), submit(name="b", partition="low"),
        until("0=RUNNING 1=RUNNING 2=RUNNING"), kill(jobs=["@0"], job_name="wrong"),
        kill(jobs=["@0"], job_name="a"), kill(jobs=["@0"], job_name="a"),
        kill(jobs=["@0", "@1"], job_name="b"), kill(partition="low"), kill(job_name="nobody's"),
        kill(), kill(jobs=["x"]), kill(jobs=[""]), kill(jobs=["99999"]), kill_one("99999"),
        kill_one("x"), kill(nosuch=1), kill(job_name="b", nodes=["n3"]),
    ],
    "a cancel by state and by name": [
        submit(name="a"), submit(name="a", hold=True), submit(name="b"),
        until("0=RUNNING 2=RUNNING"), kill(jobs=["@0", "@2"], job_name="b", job_state=["PENDING"]),
        kill(job_name="a", job_state=["PENDING"]), kill(job_name="a"), kill(job_state=["nope"]),
        kill(jobs=["@1"], job_name="a", job_state=["PENDING"]),
    ],
    "a stubborn script": [
        submit(script=STUBBORN, **WHOLE), RUNS, Act("wait", "0.7"), kill_one("@0"), FLAGS,
        Act("wait", "1"), FLAGS, allocate(required_nodes=["n1"]),
    ],
    "an array": [
        submit(array="0-3", name="arr", admin_comment="ac"), until("0_3=RUNNING"),
        kill(jobs=["@0_1"]), kill(jobs=["@0_2"], job_name="arr"), update(0, admin_comment="new"),
        Rest("POST", "job/@0_3", {"extra": "x"}), kill(jobs=["@1"]), TICK,
        kill(jobs=["@0"], job_name="arr"), kill_one("@0_3"), kill_one("@0_9"), kill(jobs=["@1_0"]),
        get("job/@0_1"), get("job/@1_0"),
    ],
    "an array that waits": [
        submit(array="0-4", cpus_per_task=16, name="big"), until("1_0=RUNNING 2_1=RUNNING"),
        kill(jobs=["@0_4"]), update(0, extra="e"), update(0, hold=True), update(0, hold=False),
        kill_one("@1"), TICK, kill(jobs=["@0"], job_name="big"),
    ],
    "arrays as they are spelled": [
        submit(array=text, hold=True) for text in ("0", "5", "1,3,7", "0-6:2", "0-3%2", "")
    ],
    "updates of a job that waits": [
        submit(**WHOLE), RUNS, submit(**WHOLE), TICK,
        update(1, admin_comment="a", extra="e", comment="c", name="n"),
        update(1, time_limit=number(9)), update(1, time_limit={"number": 3}),
        update(1, time_limit={"set": True, "infinite": True, "number": 0}),
        update(1, required_nodes=["nosuch"]), update(1, excluded_nodes=["n3"]),
        update(1, excluded_nodes=["nosuch"]), update(1, excluded_nodes=[]),
        update(1, excluded_nodes=[""]), update(1, excluded_nodes=["n3"]),
        update(1, excluded_nodes=""), update(1, extra="half", required_nodes=["nosuch"]),
        update(1, nosuch=1), update(1, tres_per_node="gres/gpu:1"), update(1, constraints="nope"),
        update(1, requeue=False), update(1, user_id="1001"), update(1, hold=True),
        update(1, priority=5), update(1, hold=False), update(1, extra="", comment=None),
        update(1, extra="x" * 1025), update(1, reservation="no"), update(1, partition="nope"),
        update(1, who="nobody", extra="z"), update(1, shared=["bad"]),
        update(1, required_nodes=["n2"], nodes="1"), TICK,
    ],
    "updates of a job that runs, or has ended": [
        submit(**WHOLE), RUNS, update(0, admin_comment="a", extra="e"),
        update(0, time_limit=number(9)), update(0, excluded_nodes=["n3"]),
        update(0, cpus_per_task=2), update(0, constraints="nope"), update(0, requeue=False),
        update(0, hold=True), update(0, hold=False), kill_one("@0"), TICK, update(0, extra="x"),
        update(0), Rest("POST", "job/99999", {"extra": "e"}), Rest("POST", "job/x", {"extra": "e"}),
    ],
    "pushed out": [
        submit(partition="low", **WHOLE), RUNS, submit(partition="high", **WHOLE),
        until("0=PREEMPTED 1=RUNNING"),
    ],
    "an allocation pushed out": [
        allocate(partition="low", **WHOLE), submit(partition="high", **WHOLE),
        until("0=PREEMPTED 1=RUNNING"),
    ],
    "pushed out by an allocation": [
        allocate(partition="low", **WHOLE), allocate(partition="high", **WHOLE), Act("wait", "0.5"),
        allocate(partition="high", **WHOLE),
    ],
    "only as many as it takes": [
        submit(partition="low", required_nodes=["n1"], cpus_per_task=8),
        submit(partition="low", required_nodes=["n1"], cpus_per_task=8),
        until("0=RUNNING 1=RUNNING"),
        submit(partition="high", required_nodes=["n1"], cpus_per_task=8),
        until("0=PREEMPTED 2=RUNNING"),
    ],
    "pushed out and queued again": [
        submit(partition="again", **WHOLE), allocate(partition="again", required_nodes=["n2"]),
        RUNS, submit(partition="high", nodes="2", tasks=2, shared=["none"]), TICK, TICK,
    ],
    "a grace": [submit(partition="graced", **WHOLE), RUNS, submit(partition="high", **WHOLE), TICK],
    "suspended": [
        submit(required_nodes=["n1"], cpus_per_task=16, tres_per_node="gres/gpu:2"), RUNS,
        Act("suspend", "0"), update(0, extra="s"), Act("resume", "0"), Act("suspend", "0"),
        kill_one("@0"), until("0=CANCELLED"),
    ],
    "requeued": [
        submit(required_nodes=["n1"]), RUNS, Act("wait", "0.7"), Act("requeue", "0"), TICK,
    ],
    "scripts that exit": [
        submit(script="#!/bin/sh\nexit 0\n"), Act("wait", "3"),
    ],
    "a node that goes down": [
        submit(required_nodes=["n3"]), submit(required_nodes=["n3"], requeue=False),
        until("0=RUNNING 1=RUNNING"), allocate(required_nodes=["n3"]), Act("kill slurmd", "n3"),
        post("n3", state=["DOWN"], reason="x"), Act("start slurmd", "n3"),
    ],
    "a node of suspended jobs goes down": [
        submit(required_nodes=["n3"]), submit(required_nodes=["n3"], requeue=False),
        until("0=RUNNING 1=RUNNING"), Act("suspend", "0"), Act("suspend", "1"),
        Act("kill slurmd", "n3"), post("n3", state=["DOWN"], reason="x"),
        post("n3", state=["DRAIN"], reason="y"), Act("start slurmd", "n3"),
    ],
    "who waits for a place keeps others waiting": [
        submit(required_nodes=["n1"], cpus_per_task=16), RUNS,
        submit(nodes="3", tasks=3, cpus_per_task=16), submit(), submit(required_nodes=["n3"]),
        submit(partition="high"), TICK,
    ],
    "reads": [get("job/99999"), get("job/x"), get("job/99999999")],
}  # fmt: skip

GATES: Mapping[str, Sequence[Step]] = {
    "an allocation at the gate": [
        Act("close gate"), allocate(**WHOLE), FLAGS, allocate(required_nodes=["n1"]),
        Act("open gate"), FLAGS, kill_one("@0"), Act("wait", "0.3"), Act("ended", "1"),
    ],
    "a script at the gate": [
        Act("close gate"), submit(**WHOLE), RUNS, FLAGS, Act("open gate"), FLAGS, kill_one("@0"),
        Act("wait", "1"), Act("ended", "1"),
    ],
    "cancelled at the gate": [
        Act("close gate"), submit(**WHOLE), RUNS, kill_one("@0"), Act("wait", "0.5"), FLAGS,
        allocate(**WHOLE), FLAGS, Act("open gate"), Act("ended", "1"),
    ],
    "a gate that fails": [
        Act("close gate"), allocate(**WHOLE), submit(required_nodes=["n2"]),
        submit(required_nodes=["n3"], requeue=False), until("1=RUNNING 2=RUNNING"),
        Act("fail gate"), Act("open gate"), TICK, Act("ended", "3"),
    ],
}  # fmt: skip


@contextmanager
def both(version: str, *, gated: bool = False) -> Iterator[Sequence[Side]]:
    """Open both Slurms; `gated`: with a PrologSlurmctld."""
    with SlurmServer(version, conf()) as server:
        real = RealJobs(server)
        if gated:
            real.gated()
        begin(real)
        real.rest(submit())
        real.act(RUNS)  # a new slurmctld takes seconds for its first batch job
        yield real, EmbeddedJobs(server, gated=gated)


sides = for_each_slurm(both, kube=None)
gated = for_each_slurm(partial(both, gated=True), kube=None)


def compare(sides: Sequence[Side], steps: Sequence[Step]) -> None:
    traces = []
    for side in sides:
        begin(side)
        traces.append(play(side, steps))
    compare_traces(*traces)


@pytest.mark.parametrize("name", SCENARIOS)
def test_embedded_jobs_behave_like_real_ones(sides: Sequence[Side], name: str) -> None:
    compare(sides, SCENARIOS[name])


@pytest.mark.parametrize("name", GATES)
def test_embedded_gates_behave_like_real_ones(gated: Sequence[Side], name: str) -> None:
    compare(gated, GATES[name])
