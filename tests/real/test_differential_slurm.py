"""The embedded Slurm and the real ones, compared after each step of the same operations.

The comparison drops times, ids, ports and the moment of a ping. It also drops NOT_RESPONDING,
because the time of the next ping is not fixed. DOWN ends at a ping (ReturnToService=2), so a node
that must stay DOWN has no slurmd.
"""

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from itertools import zip_longest
from random import Random
from typing import Any, Protocol
from urllib.parse import parse_qsl, unquote, urlsplit

import pytest

from sunk_sync.embedded.slurm.api.rest import SlurmRest
from sunk_sync.embedded.slurm.memory import Knobs, Partition, Setup
from sunk_sync.embedded.slurm.model.node import NodeSpec, state_of
from sunk_sync.embedded.slurm.model.release import SlurmError
from sunk_sync.embedded.slurm.model.tokens import Tokens
from sunk_sync.embedded.slurm.node_update import Update
from sunk_sync.embedded.slurm.slurm import SlurmWorld
from sunk_sync.embedded.wire import Question
from tests.real.conftest import for_each_slurm
from tests.real.testbed import SlurmConf, SlurmServer
from tests.real.testbed.errors import BedError
from tests.real.testbed.sandbox import wait_until

pytestmark = [pytest.mark.real, pytest.mark.both_slurms("each version answers in its own dialect")]

NAMES = ("n1", "n2", "n3")
SEEDS = 60
LENGTH = 10
MAIN = Partition(name="main", default=True)
Json = Any


@dataclass(frozen=True)
class Rest:
    """One request below /slurm/{version}/; `who` names a token: root, nobody, slurm, bad, none."""

    method: str
    path: str
    body: Json = None
    who: str = "root"
    user_name: str = ""
    version: str = ""
    content_type: str = "application/json"


@dataclass(frozen=True)
class Act:
    """One operation besides REST: scontrol, a daemon, time."""

    what: str
    on: str = ""
    with_: Mapping[str, str] | None = None


Step = Rest | Act
SETTLE = Act("settle")
RESTART = Act("restart")
RECONFIGURE = Act("reconfigure")


def post(name: str, **body: Json) -> Rest:
    return Rest("POST", f"node/{name}", body)


def post_all(names: Sequence[str], **body: Json) -> Rest:
    return Rest("POST", "nodes/", {"name": names, **body})


def get(path: str, **more: str) -> Rest:
    return Rest("GET", path, **more)


def drain(name: str, reason: str = "a") -> Rest:
    return post(name, state=["DRAIN"], reason=reason)


def undrain(name: str) -> Rest:
    return post(name, state=["UNDRAIN"])


def resume(name: str) -> Rest:
    return post(name, state=["RESUME"])


def down(name: str, reason: str) -> Rest:
    return post(name, state=["DOWN"], reason=reason)


def scontrol(name: str, **fields: str) -> Act:
    return Act("scontrol", name, fields)


def submit(node: str, *, cpus: int = 0, stubborn: bool = False, requeue: bool = True) -> Rest:
    """Submit a job to this node with these CPUs, or all. Stubborn: it stays COMPLETING for 2 s."""
    script = "#!/bin/sh\ntrap '' TERM\n" if stubborn else "#!/bin/sh\n"
    size = {"cpus_per_task": cpus, "tasks": 1, "memory_per_node": {"set": True, "number": 1000}}
    job = {
        "name": "j",
        "required_nodes": [node],
        "requeue": requeue,
        "current_working_directory": "/tmp",
        "environment": ["A=b"],
        **(size if cpus else {"shared": ["none"]}),
    }
    held = "while true; do sleep 1; done\n" if stubborn else "exec sleep 6000\n"
    return Rest("POST", "job/submit", {"script": script + held, "job": job})


RUNNING = Act("until running")
CANCEL = Act("cancel all")


class Side(Protocol):
    version: str

    def rest(self, step: Rest) -> tuple[int, str, bytes]:
        """Return status, content type and body."""

    def act(self, act: Act) -> str:
        """Perform an operation; return the error's text, empty if none."""

    @property
    def jobs(self) -> dict[str, str]:
        """Return the name of each job id in a trace."""


def shown(side: Side, name: str) -> Json:
    """Return a node as GET shows it, without values that depend on clock or machine."""
    _, _, body = side.rest(get(f"node/{name}"))
    answer = json.loads(body)
    if not answer.get("nodes"):
        return [error["error_number"] for error in answer["errors"]]
    node = answer["nodes"][0]
    state = sorted(set(node["state"]) - {"NOT_RESPONDING"})
    texts = ("reason", "reason_set_by_user", "comment", "extra", "weight", "features")
    used = ("active_features", "alloc_cpus", "alloc_memory", "alloc_idle_cpus", "tres_used")
    kept = {field: node[field] for field in (*texts, *used)}
    return {"state": state, "reasoned": node["reason_changed_at"]["number"] > 0, **kept}


VOLATILE = re.compile(r"update_time\[\d+\]=[0-9T:-]+")


def plain(side: Side, status: int, kind: str, body: bytes) -> Json:
    """Return a response without times, ids, ports and unused fields."""
    if kind.partition(";")[0] != "application/json":
        return [status, body.decode()]
    answer = json.loads(body)
    kept: dict[str, Json] = {name: answer.get(name) for name in ("errors", "warnings")}
    kept["parser"] = answer["meta"]["plugin"]["data_parser"]
    if "status" in answer:
        kept["status"] = [one["error"] for one in answer["status"]]
    if "nodes" in answer:
        kept["nodes"] = [node["name"] for node in answer["nodes"]]
    if answer.get("jobs") is not None:
        kept["jobs"] = [shape for job in answer["jobs"] if (shape := _plain_job(side, job))]
    if "pings" in answer:
        kept["pings"] = [_without(ping, {"hostname", "latency"}) for ping in answer["pings"]]
    if "partitions" in answer:
        kept["partitions"] = [_without(each, {"select_type"}) for each in answer["partitions"]]
    kept["keys"] = sorted(answer)
    text = VOLATILE.sub("", json.dumps([status, kept]))
    for number, name in side.jobs.items():
        text = text.replace(f"JobId={number}", f"JobId={name}")
    return json.loads(text)


def _plain_job(side: Side, job: Json) -> Json:
    """Return what is compared of a job; None if it is not of this scenario."""
    name = side.jobs.get(str(job["job_id"]))
    if name is None:
        return None
    state = job.get("state") or job["job_state"]
    shape = [name, sorted(state)]
    if "nodes" in job:
        shape += [job[one] for one in ("nodes", "name", "state_reason", "partition", "user_name")]
    return shape


class Real:
    def __init__(self, server: SlurmServer) -> None:
        self.server = server
        self.version = server.api_version
        self.jobs: dict[str, str] = {}
        self.deaf: set[str] = set()
        self._tokens = {
            user: server.token(86400, user=user) for user in ("root", "nobody", "slurm")
        }

    def rest(self, step: Rest) -> tuple[int, str, bytes]:
        path = path_of(step, self.version)
        connection = HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        connection.request(step.method, path, encoded(step), headers(step, self._tokens))
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        noted(self.jobs, step, body)
        return answer.status, answer.getheader("Content-Type") or "", body

    def act(self, act: Act) -> str:
        server, name = self.server, act.on
        acts: Mapping[str, Callable[[], object]] = {
            "settle": lambda: None,
            "restart": server.restart_slurmctld,
            "reconfigure": server.reconfigure,
            "until running": lambda: wait_until(self._all_run, act.what, deadline_s=20),
            "cancel all": lambda: cancel_all(self),
            "until": lambda: wait_until(lambda: self._has(act), f"{act}", deadline_s=25),
            "reboot": lambda: server.scontrol("reboot", *name.split()),
            "lose a gpu": lambda: server.report_gpus(name, one_only=True),
            "find it again": lambda: server.report_gpus(name, one_only=False),
            "kill slurmd": lambda: self._kill(name),
            "start slurmd": lambda: self._start(name),
            "boot": lambda: self._boot(name),
        }
        if act.what not in acts:
            return self._scontrol(act)
        acts[act.what]()
        if act.what not in (*AT_ONCE, "until running"):
            self._settle()
        return ""

    def _all_run(self) -> bool:
        jobs = json.loads(self.rest(get("jobs/state/"))[2])["jobs"]
        return not any("PENDING" in job["state"] for job in jobs if job["job_id"] in self.jobs)

    def _kill(self, name: str) -> None:
        self.server.stop_slurmd(name)
        self.deaf.add(name)
        time.sleep(1)  # earlier messages of it can still arrive

    def _start(self, name: str) -> None:
        self.server.start_slurmd(name)
        self.deaf.discard(name)

    def _boot(self, name: str) -> None:
        """Boot the machine, as a RebootProgram or ResumeProgram would do."""
        self.server.stop_slurmd(name)
        time.sleep(2)  # slurmctld compares whole seconds
        self.server.start_slurmd(name, booted=True)

    def _scontrol(self, act: Act) -> str:
        fields = [f"{name}={value}" for name, value in (act.with_ or {}).items()]
        try:
            self.server.scontrol("update", f"nodename={act.on}", *fields)
        except BedError as error:
            return str(error).partition("exit 1: ")[2].removeprefix("slurm_update error: ")
        return ""

    def _settle(self) -> None:
        wait_until(self._is_calm, "calm", deadline_s=30)
        time.sleep(1.2)
        wait_until(self._is_calm, "calm", deadline_s=30)

    def _is_calm(self) -> bool:
        busy = {"NOT_RESPONDING", "UNKNOWN", "COMPLETING"}
        for name in NAMES:
            _, _, body = self.rest(get(f"node/{name}"))
            nodes = json.loads(body).get("nodes") or [{"state": []}]
            state = set(nodes[0]["state"])
            if name not in self.deaf and busy & state and "POWERING_UP" not in state:
                return False
        return True

    def _has(self, act: Act) -> bool:
        _, _, body = self.rest(get(f"node/{act.on}"))
        return (act.with_ or {})["flag"] in json.loads(body)["nodes"][0]["state"]


AT_ONCE = ("cancel all", "until", "reboot", "kill slurmd")
"""Operations after which the test does not wait."""


class Embedded:
    """The embedded Slurm; its clock advances a second where the real one needs a moment."""

    def __init__(
        self, server: SlurmServer, *, partitions: Sequence[Partition] = (MAIN,), **knobs: Any
    ) -> None:
        self.version = server.api_version
        self.jobs: dict[str, str] = {}
        tokens = Tokens()
        self._tokens = {user: f"token-{user}" for user in ("root", "nobody", "slurm")}
        for user, token in self._tokens.items():
            tokens.add(token, user=user)
        gres = f"gpu:{server.conf.gpus}" if server.conf.gpus else ""
        setup = Setup(
            nodes=[NodeSpec(name=name, gres=gres) for name in NAMES],
            partitions=partitions,
            generation="26.05" if server.version == "26.05" else "24.11",
            cluster="testbed",
            epoch_s=time.time() - 100,
            knobs=Knobs(kill_wait_s=server.conf.kill_wait_s, **knobs),
        )
        self._now_s = 100.0
        self.world = SlurmWorld(setup, now_s=self._now_s)
        self._rest = SlurmRest(self.world, tokens)

    def rest(self, step: Rest) -> tuple[int, str, bytes]:
        self._now_s += 0.001
        parts = urlsplit(path_of(step, self.version))
        question = Question(
            method=step.method,
            path=unquote(parts.path),
            query=dict(parse_qsl(parts.query, keep_blank_values=True)),
            headers={name.lower(): value for name, value in headers(step, self._tokens).items()},
            body=encoded(step),
        )
        answer = self._rest.answer(question, self._now_s)
        noted(self.jobs, step, answer.body)
        return answer.status, answer.content_type if answer.body else "", answer.body

    def act(self, act: Act) -> str:
        world, name = self.world, act.on
        acts: Mapping[str, Callable[[float], object]] = {
            "settle": lambda _: None,
            "restart": lambda now_s: world.restart(now_s=now_s),
            "reconfigure": lambda now_s: world.reconfigure(now_s=now_s),
            "until running": lambda _: None,
            "cancel all": lambda _: cancel_all(self),
            "until": lambda _: self._until(act),
            "reboot": lambda now_s: self._reboot(name, now_s),
            "lose a gpu": lambda now_s: self._regpu(name, "gpu:1", now_s=now_s),
            "find it again": lambda now_s: self._regpu(name, None, now_s=now_s),
            "kill slurmd": lambda now_s: world.kill_slurmd(name, now_s=now_s),
            "start slurmd": lambda now_s: world.start_slurmd(name, now_s=now_s),
            "boot": lambda _: self._later(Knobs().boot_s + 10),
        }
        if act.what not in acts:
            return self._scontrol(act)
        acts[act.what](self._now_s)
        if act.what not in AT_ONCE:
            self._later()
        return ""

    def _reboot(self, words: str, now_s: float) -> None:
        self.world.reboot(words.split()[-1], now_s=now_s, asap="ASAP" in words)

    def _later(self, seconds: float = 4.0) -> None:
        self._now_s += seconds
        self.world.advance(self._now_s)

    def _until(self, act: Act) -> None:
        while (act.with_ or {})["flag"] not in state_of(self.world.nodes[act.on]):
            self._later(0.1)

    def _regpu(self, name: str, found: str | None, *, now_s: float) -> None:
        self.world.set_gres_found(name, found, now_s=now_s)
        self.world.start_slurmd(name, now_s=now_s)

    def _scontrol(self, act: Act) -> str:
        given = dict(act.with_ or {})
        state, reason = given.pop("state", "").upper(), given.get("reason", "")
        changes = {"DRAIN": self.world.drain, "DOWN": self.world.down, "FAIL": self.world.fail}
        if state in changes:
            error = changes[state](act.on, reason=reason, now_s=self._now_s)
        else:
            state = {"NORESP": "NOT_RESPONDING"}.get(state, state)
            update = Update(state=state or None, **given)  # type: ignore[arg-type]
            error = self.world.update(act.on, update, now_s=self._now_s)
        return error.text if isinstance(error, SlurmError) else ""


def cancel_all(side: Side) -> None:
    for number in side.jobs:
        side.rest(Rest("DELETE", f"job/{number}"))


def path_of(step: Rest, version: str) -> str:
    return step.path if step.path[:1] == "/" else f"/slurm/{step.version or version}/{step.path}"


def encoded(step: Rest) -> bytes:
    if step.body is None:
        return b""
    return step.body if isinstance(step.body, bytes) else json.dumps(step.body).encode()


def headers(step: Rest, tokens: Mapping[str, str]) -> dict[str, str]:
    given = {}
    if step.body is not None and step.content_type:
        given["Content-Type"] = step.content_type
    if step.who != "none":
        given["X-SLURM-USER-TOKEN"] = tokens.get(step.who, "garbage")
    if step.user_name:
        given["X-SLURM-USER-NAME"] = step.user_name
    return given


def noted(jobs: dict[str, str], step: Rest, body: bytes) -> None:
    if step.path == "job/submit" and b'"job_id"' in body:
        jobs[str(json.loads(body)["job_id"])] = f"job-{len(jobs)}"


def play(side: Side, steps: Sequence[Step]) -> list[Json]:
    """Return the result of each step, with the nodes after it.

    Where the next step waits for a state, the nodes are on their way to it: slurmctld may have got
    there before they are read, so they count after that step.
    """
    trace: list[Json] = []
    for step, following in zip_longest(steps, steps[1:]):
        gave = plain(side, *side.rest(step)) if isinstance(step, Rest) else side.act(step)
        if isinstance(step, Rest) and step.path == "reconfigure/":
            side.act(SETTLE)  # nodes are UNKNOWN for a moment
        on_their_way = isinstance(following, Act) and following.what == "until"
        nodes = {} if on_their_way else {name: shown(side, name) for name in NAMES}
        trace.append([repr(step)[:150], gave, nodes])
    return trace


def compare(sides: Sequence[Side], steps: Sequence[Step]) -> None:
    compare_traces(*(play(side, steps) for side in sides))


def compare_traces(*traces: list[Json]) -> None:
    """Fail at the first step after which the two differ, and show the differences."""
    for number, (theirs, ours) in enumerate(zip(*traces, strict=True)):
        found = list(differences(theirs, ours))
        assert not found, f"step {number}, {theirs[0]}: (real, embedded) differ: {found}"


def differences(theirs: Json, ours: Json, where: str = "") -> Iterator[tuple[str, Json, Json]]:
    """Return the places where two JSON values differ, with both values."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for name in sorted(theirs.keys() | ours.keys()):
            yield from differences(theirs.get(name), ours.get(name), f"{where}.{name}")
    elif isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        for index, pair in enumerate(zip(theirs, ours, strict=True)):
            yield from differences(*pair, f"{where}[{index}]")
    elif theirs != ours:
        yield (where, theirs, ours)


def reset(side: Side, *, calm: bool = True) -> None:
    """Reset to the initial state, except for reasons that 24.11 never removes.

    `calm`: wait also for pings under way, which would end DOWN.
    """
    side.act(CANCEL)
    for name in NAMES:
        side.rest(resume(name))
        side.rest(post(name, state=["UNDRAIN"], reason="reset", comment="", extra="", weight=1))
    if calm:
        side.act(SETTLE)
    side.rest(get("nodes/"))
    side.jobs.clear()


@pytest.fixture(scope="module")
def sides(slurm: SlurmServer) -> Iterator[tuple[Real, Embedded]]:
    both = Real(slurm), Embedded(slurm)
    for side in both:
        reset(side)
    yield both
    reset(both[0])
    slurm.reconfigure()
    slurm.wait_until_idle()


SCENARIOS: Mapping[str, Sequence[Step]] = {
    "a drain and its undrain": [drain("n1"), undrain("n1")],
    "an undrain with a reason of its own": [
        drain("n1"), post("n1", state=["UNDRAIN"], reason="lifted"),
    ],
    "an undrain over nothing": [undrain("n1"), post("n1", state=["UNDRAIN"], reason="why")],
    "a drain without a reason": [post("n1", state=["DRAIN"]), undrain("n1")],
    "a drain over a drain": [drain("n1"), drain("n1", "b"), post("n1", state=["DRAIN"])],
    "an empty reason": [drain("n1"), post("n1", reason=""), post("n1", state=["DRAIN"], reason="")],
    "a reason alone on a drained node": [drain("n1"), post("n1", reason="c"), undrain("n1")],
    "a reason alone on an undrained node": [post("n1", reason="r"), post("n1", reason="r2")],
    "a stray reason and then a drain without one": [
        post("n1", reason="r"), post("n1", state=["DRAIN"]), undrain("n1"),
    ],
    "a resume of a drained node": [drain("n1"), resume("n1")],
    "a resume of an idle node": [resume("n1"), resume("n1")],
    "a resume with a reason": [drain("n1"), post("n1", state=["RESUME"], reason="done")],
    "down and back": [down("n1", "fan"), resume("n1"), SETTLE],
    "down without a reason": [post("n1", state=["DOWN"]), resume("n1")],
    "down over a drain": [drain("n1"), down("n1", "fan"), resume("n1")],
    "a drain over down, and undrained": [
        down("n1", "fan"), drain("n1", "d"), undrain("n1"), resume("n1"),
    ],
    "a DOWN node returns with the ping after an undrain": [
        down("n1", "fan"), undrain("n1"), SETTLE,
    ],
    "down again, twice": [
        down("n1", "a"), down("n1", "b"), post("n1", state=["IDLE"]), post("n1", state=["IDLE"]),
    ],
    "fail and drain take each other's place": [
        post("n1", state=["FAIL"], reason="f"), drain("n1"), post("n1", state=["FAIL"]),
        undrain("n1"),
    ],
    "fail and resume": [post("n1", state=["FAIL"], reason="f"), resume("n1")],
    "idle over a drain": [drain("n1"), post("n1", state=["IDLE"])],
    "future is out of sight": [
        drain("n1"), post("n1", state=["FUTURE"]), get("nodes/"), post("n1", comment="x"),
        post("n1", state=["IDLE"]), drain("n1"), resume("n1"), SETTLE,
    ],
    "states that nobody may set": [
        post("n1", state=[state])
        for state in ("ALLOCATED", "MIXED", "UNKNOWN", "ERROR", "COMPLETING", "PLANNED", "INVALID",
                      "CLOUD", "INVALID_REG", "MAINTENANCE", "RESERVED", "REBOOT_REQUESTED",
                      "POWERED_DOWN", "POWERING_DOWN", "NOT_RESPONDING")
    ],
    "power actions without power saving": [
        post("n1", state=[state])
        for state in ("POWER_DOWN", "POWER_UP", "POWER_DOWN_ASAP", "POWER_DOWN_FORCE")
    ],
    "an unknown state writes the other fields": [
        post("n1", state=["NOPE"], reason="r", comment="c"), post("n1", state=["DRAINED"]),
    ],
    "several states at once": [
        post("n1", state=["DRAIN", "DOWN"], reason="m", comment="c"),
        post("n1", state=["DRAIN", "DRAIN"], reason="dd"),
    ],
    "states in other clothes": [
        post("n1", state="DRAIN", reason="s"), post("n1", state=["undrain"]), post("n1", state=[]),
        post("n1", state=None), post("n1", state=5), post("n1", state=[""]),
    ],
    "comments come and go": [
        post("n1", comment="c"), post("n1", comment=""), post("n1", comment=None),
        post("n1", comment="ünï \"q\" \\ 🙂"), post("n1", comment="x" * 3000),
    ],
    "extra and weight": [
        post("n1", extra='{"a":1}'), post("n1", extra=""), post("n1", weight=7),
        post("n1", weight={"set": True, "number": 9}), post("n1", weight={"number": 3}),
        post("n1", weight="x"), post("n1", weight="5"),
    ],
    "fields of wrong types": [
        post("n1", reason=5), post("n1", comment=True), post("n1", comment=["x"]),
        post("n1", comment={"a": 1}), post("n1", nofield=1), post("n1", nofield=None),
        post("n1", nofield="x", comment="and this"),
    ],
    "bodies that are none": [
        Rest("POST", "node/n1", b""), Rest("POST", "node/n1", {}), Rest("POST", "node/n1", b"{no"),
        Rest("POST", "node/n1", []), Rest("POST", "node/n1", {"comment": "x"}, content_type=""),
        Rest("POST", "node/n1", {"comment": "x"}, content_type="text/plain"),
    ],
    "features": [
        post("n1", features=["a", "b"]), post("n1", features=["b"]), post("n1", features=[]),
        post("n1", features_act=["a"]), post("n1", features_act=["q"]),
        post("n1", features=["a", "c"]), RECONFIGURE,
    ],
    "an unknown node": [
        get("node/nosuch"), post("nosuch", comment="x"), post("nosuch", state=["NOPE"]),
        Rest("DELETE", "node/nosuch"), Rest("DELETE", "node/n1"), get("node/N1"),
    ],
    "a list of nodes": [
        post_all(["n1", "n[2-3]"], state=["DRAIN"], reason="all"),
        post_all(["n[1-3]"], state=["UNDRAIN"]), post_all(["n1,n3"], comment="two"),
        post_all(["ALL"], comment="every"), post_all(["n1", "n1"], comment="twice"),
    ],
    "a list with an unknown name": [
        post_all(["n1", "nosuch", "n3"], comment="1"), post_all(["anosuch", "n1"], comment="2"),
        post_all(["n9", "n1"], comment="3"), post_all(["n[2-5]"], state=["DRAIN"], reason="r"),
        post_all(["n3", "n0", "n1"], state=["RESUME"]),
    ],
    "a list of which some refuse": [
        drain("n2"), post_all(["n[1-3]"], state=["RESUME"], comment="c"),
        post_all(["n3", "n1"], state=["DRAIN", "DOWN"], reason="b"),
    ],
    "a list without names": [
        Rest("POST", "nodes/", {"comment": "x"}), post_all([], comment="x"),
        Rest("POST", "nodes/", {"name": "n2", "comment": "x"}),
        Rest("POST", "node/n1", {"name": ["n2"], "comment": "x"}),
    ],
    "hostlists in a path": [
        post("n1,n2", comment="x"), post("n%5B1-2%5D", comment="x"), get("node/n1,n2"),
        get("node/n%5B1-2%5D"), post("n%5B1-4%5D", state=["RESUME"]),
    ],
    "paths and methods that are not there": [
        get("nosuch/"), get("/slurm/v0.0.39/ping/"), get("/slurm/v0.0.46/ping/"), get("/slurm/"),
        Rest("DELETE", "nodes/"), Rest("PUT", "node/n1", {}), Rest("PATCH", "node/n1", {}),
        get("ping"), get("nodes"), get("node/n1/"), get("node/"), get("conf", version="v0.0.44"),
    ],
    "every version": [
        step
        for version in range(39, 47)
        for step in (
            get("ping/", version=f"v0.0.{version}"), get("nodes/", version=f"v0.0.{version}"),
            Rest("POST", "node/n1", {"state": ["RESUME"]}, version=f"v0.0.{version}"),
        )
    ],
    "an undrain in an old version": [
        Rest("POST", "node/n1", {"state": ["DRAIN"], "reason": "o"}, version="v0.0.42"),
        Rest("POST", "node/n1", {"state": ["UNDRAIN"], "reason": "p"}, version="v0.0.42"),
    ],
    "tokens": [
        step
        for who in ("none", "bad", "nobody", "slurm")
        for step in (
            get("ping/", who=who), get("node/n1", who=who), get("nodes/", who=who),
            get("partitions/", who=who), get("jobs/state/", who=who), get("job/99999999", who=who),
            Rest("POST", "node/n1", {"state": ["DRAIN"], "reason": who}, who=who),
            Rest("POST", "nodes/", {"name": ["n1"], "comment": who}, who=who),
        )
    ],
    "names beside tokens": [
        get("node/n1", user_name="root"), get("node/n1", user_name="nobody"),
        Rest("POST", "node/n1", {"comment": "x"}, user_name="nobody"),
        Rest("POST", "node/n1", {"comment": "x"}, who="nobody", user_name="root"),
        get("nosuch/", who="none"), get("/openapi/v3", who="none"),
    ],
    "who gave the reason": [
        Rest("POST", "node/n1", {"state": ["DRAIN"], "reason": "s"}, who="slurm"),
        post("n1", comment="by root"), post("n1", reason="by root"), undrain("n1"),
    ],
    "scontrol": [
        scontrol("n1", state="drain"), scontrol("n1", state="down"),
        scontrol("n1", state="drain", reason="s"), scontrol("n1", state="undrain"),
        scontrol("n1", state="resume"), scontrol("nosuch", state="resume"),
        scontrol("n1", reason="alone"), scontrol("n1", comment="c"),
        scontrol("n[1-2]", state="fail", reason="f"), scontrol("n[1-2]", state="resume"),
        scontrol("n1", state="noresp"), scontrol("n1", state="power_down"),
    ],
    "reads of jobs that are not there": [
        get("job/99999999"), Rest("DELETE", "job/99999999"), get("partition/main"),
        get("partition/nosuch"), get("partitions/"), get("diag/"),
    ],
    "update_time": [
        get("nodes/?update_time=0"), get("nodes/?update_time=4000000000"),
        get("nodes/?update_time=abc"), get("nodes/?update_time="), get("nodes/?foo=1"),
        get("partitions/?update_time=4000000000"), get("node/n1?update_time=4000000000"),
    ],
    "a job on a whole node": [
        submit("n1"), RUNNING, get("nodes/"), get("jobs/state/"), get("jobs/"), CANCEL, SETTLE,
        get("jobs/state/"), get("nodes/"),
    ],
    "a job on a part of a node, counted at listings only": [
        submit("n1", cpus=4), RUNNING, get("nodes/"), drain("n1"), CANCEL, SETTLE, get("nodes/"),
        undrain("n1"),
    ],
    "two jobs on one node": [
        submit("n1", cpus=4), submit("n1", cpus=12), RUNNING, get("nodes/"), CANCEL, SETTLE,
    ],
    "a drain of a busy node": [
        submit("n1"), RUNNING, drain("n1"), post("n1", state=["IDLE"]), undrain("n1"), resume("n1"),
        drain("n1", "b"), resume("n1"), post("n1", state=["FAIL"], reason="f"), undrain("n1"),
        CANCEL, SETTLE,
    ],
    "a start takes the stray reason away": [
        post("n1", reason="stray"), submit("n1"), RUNNING, post("n1", reason="again"), CANCEL,
        SETTLE,
    ],
    "a stubborn job": [
        submit("n1", stubborn=True), RUNNING, get("nodes/"), drain("n1"), CANCEL,
        get("jobs/state/"), undrain("n1"), post("n1", state=["IDLE"]), SETTLE, get("jobs/state/"),
    ],
    "down kills": [
        submit("n1", requeue=False), RUNNING, get("nodes/"), down("n1", "dead"), get("jobs/state/"),
        get("nodes/"), resume("n1"), SETTLE, get("jobs/state/"),
    ],
    "down on a partly used node, before a listing": [
        submit("n1", cpus=4, requeue=False), RUNNING, get("nodes/"), down("n1", "dead"),
        get("nodes/"), resume("n1"),
    ],
    "a job waits for a drained node": [
        drain("n1"), submit("n1"), SETTLE, SETTLE, get("jobs/state/"), undrain("n1"), RUNNING,
        CANCEL, SETTLE,
    ],
    "a reconfigure": [
        post("n1", comment="c", extra="e", weight=5), drain("n1"), post("n2", reason="stray"),
        RECONFIGURE, undrain("n1"),
    ],
    "a reconfigure asked of slurmrestd": [
        post("n1", comment="c", extra="e", weight=5), drain("n1"), get("reconfigure/"),
    ],
    "a restart": [
        post("n1", comment="c", extra="e", weight=5), drain("n1"), post("n2", reason="stray"),
        down("n3", "dead"), RESTART, undrain("n1"),
    ],
    "a restart while a job runs": [submit("n1"), RUNNING, get("nodes/"), RESTART, CANCEL, SETTLE],
    "a dead slurmd": [
        Act("kill slurmd", "n2"), undrain("n2"), drain("n2"), down("n2", "dead"), undrain("n2"),
        resume("n2"), drain("n2"), Act("start slurmd", "n2"), SETTLE,
    ],
    "down and dead stays down": [
        Act("kill slurmd", "n2"), down("n2", "dead"), undrain("n1"), SETTLE,
        Act("start slurmd", "n2"), SETTLE,
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_embedded_slurm_answers_as_the_real_one(sides: Sequence[Side], name: str) -> None:
    steps = SCENARIOS[name]
    calm = is_delicate(steps)
    for side in sides:
        reset(side, calm=calm)
    try:
        compare(sides, steps)
    finally:
        for side in sides if calm else ():
            reset(side)


def is_delicate(steps: Sequence[Step]) -> bool:
    """Whether the scenario needs a calm cluster and leaves none."""
    acts = any(isinstance(step, Act) and step.what != "scontrol" for step in steps)
    return acts or any(word in repr(steps) for word in ("DOWN'", "FUTURE", "submit", "reconfigure"))


POWER = ("SuspendTime=86400", "SuspendProgram=/bin/true", "ResumeProgram=/bin/true",
         "SuspendTimeout=2", "ResumeTimeout=600", "RebootProgram=/bin/true")  # fmt: skip


def until(name: str, flag: str) -> Act:
    return Act("until", name, {"flag": flag})


def reboot(name: str, *, first: Sequence[Step] = (), meanwhile: Sequence[Step] = ()) -> list[Step]:
    """Reboot, from the request to the return; `name` may begin with ASAP."""
    node = name.split()[-1]
    issued = (Act("reboot", name), until(node, "REBOOT_ISSUED"))
    return [*first, *issued, *meanwhile, Act("boot", node)]


def power_cycle(name: str, *, first: Sequence[Step] = (), late: Sequence[Step] = ()) -> list[Step]:
    down = (post(name, state=["POWER_DOWN"]), until(name, "POWERED_DOWN"))
    up = (post(name, state=["POWER_UP"]), until(name, "POWERING_UP"))
    return [*first, *down, *up, *late, Act("boot", name)]


MACHINES: Mapping[str, Sequence[Step]] = {
    "back from a reboot": reboot("n3"),
    "back from a reboot ASAP": reboot("ASAP n3"),
    "back from a reboot under a drain": reboot("ASAP n3", first=[drain("n3", "k8s: c")]),
    "back from a reboot, drained meanwhile": reboot("n3", meanwhile=[drain("n3", "k8s: c")]),
    "back from a reboot ASAP, drained meanwhile": reboot(
        "ASAP n3", meanwhile=[drain("n3", "k8s: c")]
    ),
    "powered down and up": power_cycle("n2"),
    "powered down and up under a drain": power_cycle("n2", first=[drain("n2", "k8s: c")]),
    "drained on the way up": power_cycle("n2", late=[drain("n2", "k8s: c")]),
    "a text on the way up": power_cycle("n2", late=[post("n2", reason="k8s: c")]),
    "a machine with too few GPUs": [
        Act("lose a gpu", "n1"), resume("n1"), post("n1", reason="k8s: mine"),
        Act("find it again", "n1"), undrain("n1"),
    ],
    "too few GPUs under a drain": [
        drain("n1", "k8s: mine"), Act("lose a gpu", "n1"), Act("find it again", "n1"),
        undrain("n1"),
    ],
    "a reboot called off by down and resume": [
        Act("reboot", "n3"), until("n3", "REBOOT_ISSUED"), resume("n3"), SETTLE,
    ],
    "a reboot of a drained node": [
        drain("n3", "k8s: c"), Act("reboot", "ASAP n3"), until("n3", "REBOOT_ISSUED"),
        undrain("n3"), resume("n3"), SETTLE,
    ],
    "a reboot waits for a job": [
        submit("n1"), RUNNING, get("nodes/"), Act("reboot", "n1"), SETTLE, drain("n1", "k8s: c"),
        undrain("n1"), CANCEL, until("n1", "REBOOT_ISSUED"), resume("n1"), SETTLE,
    ],
    "power down, and a drain meanwhile": [
        post("n2", state=["POWER_DOWN"], reason="saving"), until("n2", "POWERING_DOWN"),
        until("n2", "POWERED_DOWN"), post("n2", reason="other"), drain("n2"), undrain("n2"),
        resume("n2"), post("n2", state=["POWER_UP"]), until("n2", "POWERING_UP"), resume("n2"),
    ],
}  # fmt: skip


@contextmanager
def with_power(version: str) -> Iterator[Sequence[Side]]:
    """Open both with power saving, reboots and GPUs."""
    with SlurmServer(version, SlurmConf(slurmds=3, gpus=2, extra_lines=POWER)) as server:
        yield Real(server), Embedded(server, reboot_program=True, power_saving=True, suspend_s=2)


machines = for_each_slurm(with_power, kube=None)


@pytest.mark.night("each waits for timers of slurmctld, half a minute")
@pytest.mark.parametrize("name", MACHINES)
def test_reboots_and_power_actions_behave_like_real_ones(
    machines: Sequence[Side], name: str
) -> None:
    for side in machines:
        reset(side)
    compare(machines, MACHINES[name])


STATES = ("DRAIN", "UNDRAIN", "RESUME", "FAIL", "IDLE", "NOPE", "ALLOCATED", "FUTURE", "DOWN")
REASONS = ("", "a", "k8s: x", "bad disk")
LISTS = (["n1", "n2"], ["n[1-3]"], ["n3", "n1"], ["n2", "nosuch"], ["n0", "n2"], ["n1,n3"])


def drawn(random: Random) -> Step:
    """Draw one operation. Only n3, whose slurmd is dead, is ever set DOWN or FUTURE."""
    kind = random.choice(("post", "post", "post", "list", "get", "scontrol"))
    if kind == "get":
        path = random.choice(("node/nosuch", "nodes/", "ping/", "nosuch", "job/99999999"))
        return get(path, who=random.choice(("root", "root", "bad", "none")))
    name = random.choice(NAMES)
    states = STATES if name == "n3" and kind == "post" else STATES[:-2]
    fields: dict[str, Json] = {}
    if random.random() < 0.8:
        fields["state"] = [random.choice(states)]
    if random.random() < 0.6:
        fields["reason"] = random.choice(REASONS)
    if random.random() < 0.3:
        fields["comment"] = random.choice(("", "c", "mark"))
    if random.random() < 0.1:
        fields["extra"] = random.choice(("", "e"))
    if kind == "list":
        return post_all(random.choice(LISTS), **fields)
    if kind == "post":
        return post(name, **fields)
    state = random.choice(("drain", "undrain", "resume", "fail"))
    reason = random.choice(("", "by hand"))
    return scontrol(name, state=state, **({"reason": reason} if reason else {}))


@pytest.fixture(scope="module")
def deaf(sides: tuple[Real, Embedded]) -> Iterator[Sequence[Side]]:
    """Both with a dead slurmd on n3, so that it stays DOWN."""
    for side in sides:
        side.act(Act("kill slurmd", "n3"))
    yield sides
    for side in sides:
        side.act(Act("start slurmd", "n3"))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_operations_get_the_same_answers(deaf: Sequence[Side], seed: int) -> None:
    random = Random(seed)
    for side in deaf:
        reset(side, calm=False)
    compare(deaf, [drawn(random) for _ in range(LENGTH)])


def test_an_embedded_node_has_the_fields_of_a_real_one(sides: Sequence[Side]) -> None:
    changing = {"boot_time", "cpu_load", "free_mem", "last_busy", "operating_system", "port",
                "slurmd_start_time", "reason_changed_at"}  # fmt: skip
    real, embedded = sides
    for side in sides:
        reset(side)
    versions = [f"v0.0.{number}" for number in range(40, 46)]
    for version in versions:
        both = [side.rest(get("node/n1", version=version)) for side in (real, embedded)]
        assert both[0][0] == both[1][0]
        if both[0][0] != 200:
            continue
        theirs, ours = (json.loads(body)["nodes"][0] for _, _, body in both)
        kinds = [{field: type(each[field]).__name__ for field in each} for each in (theirs, ours)]
        assert list(differences(kinds[0], kinds[1])) == [], version
        found = differences(_without(theirs, changing), _without(ours, changing))
        assert list(found) == [], version


def _without(shape: Json, names: set[str]) -> Json:
    return {name: value for name, value in shape.items() if name not in names}
