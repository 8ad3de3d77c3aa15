"""A small slurmctld as the reader and the writer of jobs see it through a client."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from sunk_sync.core.model.job_identity import Identity, job_name, spell_identity, workload_id
from sunk_sync.slurm.api.answers import SlurmError, SlurmResponse
from sunk_sync.slurm.api.requests import SlurmCall, Take

GONE = SlurmError("refused", "Invalid job id specified (2017)", 2017)
ENDED = SlurmError("refused", "Job has already finished (2084)", 2084)
LIVE = ("PENDING", "RUNNING", "SUSPENDED")


def identity_of(*uids: str, cluster: str = "c1", scheduler: str = "s1") -> Identity:
    """Return the identity of the job of the Pods with these UIDs."""
    pods = tuple(f"ns/{uid}/{uid}" for uid in uids)
    return Identity(cluster, scheduler, workload_id(uids), pods, digest="d1")


def name_of(*uids: str) -> str:
    return job_name("ns", uids[0], workload=workload_id(uids))


def is_mine(identity: Identity) -> bool:
    return (identity.cluster, identity.scheduler) == ("c1", "s1")


@dataclass
class Record:
    """One record of Slurm: a job, a task, or the tasks of an array that wait."""

    number: int
    name: str
    comment: str = ""
    state: list[str] = field(default_factory=lambda: ["PENDING"])
    nodes: str = ""
    array: int = 0
    task: int | None = None
    waiting: list[int] = field(default_factory=list)
    submitted: int = 1000
    reason: str = "None"
    batch: bool = True
    command: str = ""
    user: int = 0
    restarts: int = 0
    signal: int = 0

    def wire(self) -> dict[str, Any]:
        return {
            "job_id": self.number,
            "name": self.name,
            "admin_comment": self.comment,
            "job_state": self.state,
            "nodes": self.nodes,
            "state_reason": self.reason,
            "submit_time": {"set": True, "infinite": False, "number": self.submitted},
            "array_job_id": {"set": True, "infinite": False, "number": self.array},
            "array_task_id": {"set": self.task is not None, "number": self.task or 0},
            "batch_flag": self.batch,
            "command": self.command,
            "user_id": self.user,
            "user_name": {0: "root", 64030: "slurm"}.get(self.user, ""),
            "restart_cnt": self.restarts,
            "exit_code": {
                "status": ["SIGNALED" if self.signal else "SUCCESS"],
                "signal": {"id": {"set": bool(self.signal), "number": self.signal}},
            },
        }

    def is_called(self, job_id: str) -> bool:
        """Whether `?job_id=` of /jobs/state means it: all, a job, an array, or one of its tasks."""
        number, _, task = job_id.partition("_")
        if task and int(task) not in (self.task, *self.waiting):
            return False
        return not number or number in (str(self.number), str(self.array))

    def listed(self, *, by_array: bool) -> Iterator[str]:
        if not self.array:
            yield str(self.number)
        elif self.task is not None:
            yield f"{self.array if by_array else self.number}_{self.task}"
        elif not self.waiting:
            yield f"{self.number}_*"
        yield from (f"{self.number}_{task}" for task in self.waiting)


@dataclass
class SlurmJobs:
    """Its records, the requests it received, and its failures.

    `before` is called with each request before it is answered: a test changes records there, or
    returns a failure that replaces the request. A failure from `after` replaces only the answer.
    """

    version: str = "v0.0.45"
    records: dict[int, Record] = field(default_factory=dict)
    next_id: int = 1
    now_s: float = 100.0
    takes_s: float = 1.0
    """Time of each answer."""
    counting: int = 1
    changed_s: int = 0
    """When a job last changed, for `update_time`."""
    asked: list[str] = field(default_factory=list)
    calls: list[SlurmCall] = field(default_factory=list)
    weight: str = ""
    """More bytes of each listed record."""
    before: Callable[[str], SlurmError | None] = lambda _: None
    after: Callable[[str], SlurmError | None] = lambda _: None

    def clock(self) -> float:
        return self.now_s

    def add(self, identity: Identity | str, state: str = "PENDING", **fields: Any) -> Record:
        """Add a job, or an array where the identity has only UIDs."""
        comment = identity if isinstance(identity, str) else spell_identity(identity)
        uids = () if isinstance(identity, str) else identity.uids
        record = Record(self.next_id, fields.pop("name", "x"), comment, [state], **fields)
        if uids:
            record.array, record.waiting = record.number, list(range(len(uids)))
        self.records[record.number] = record
        self.next_id += 1
        return record

    def start(self, record: Record, nodes: str, *, task: int | None = None) -> Record:
        """Give it nodes; a task gets its own record, the last task that of the array."""
        if task is not None and len(record.waiting) > 1:
            record.waiting.remove(task)
            comment, name = record.comment, record.name
            record = self.add(comment, name=name, array=record.number, command=record.command)
            record.waiting = []
        record.task, record.waiting = task, []
        record.state, record.nodes = ["RUNNING"], nodes
        return record

    # --- the client's side

    async def call(self, call: SlurmCall) -> SlurmResponse | SlurmError:
        if not call.wanted():
            return SlurmError("unwanted", "not sent")
        line = self._ask(call)
        if failure := self.before(line):
            return failure
        begun_s = self.now_s
        self.now_s += self.takes_s
        done = self._do(call)
        return self.after(line) or (
            done if isinstance(done, SlurmError) else self._answer(done, begun_s)
        )

    async def read_records(
        self, call: SlurmCall, key: str, take: Take
    ) -> SlurmResponse | SlurmError:
        assert key == "jobs"
        if failure := self.before(self._ask(call)):
            return failure
        begun_s = self.now_s
        self.now_s += self.takes_s
        found = self._elements(call)
        if isinstance(found, SlurmError):
            return found
        for start in range(0, len(found), 3):
            pieces = [msgspec.json.encode(one) for one in found[start : start + 3]]
            if failure := await take(pieces, begun_s):
                return failure
        updated = {"set": True, "number": int(begun_s)}
        return self._answer({"last_update": updated} if call.path == "jobs/" else {}, begun_s)

    def _ask(self, call: SlurmCall) -> str:
        line = f"{call.method} {call.path}" + (f" {call.body.decode()}" if call.body else "")
        self.asked.append(line)
        self.calls.append(call)
        return line

    def _answer(self, body: dict[str, Any], begun_s: float) -> SlurmResponse:
        return SlurmResponse(
            body=msgspec.json.encode({**body, "errors": [], "meta": {}}),
            version=self.version,
            asked_s=begun_s,
            answered_s=self.now_s,
        )

    def _elements(self, call: SlurmCall) -> Sequence[dict[str, Any]] | SlurmError:
        if call.path == "jobs/state/":
            return [
                {"job_id": listed, "state": record.state}
                for record in self.records.values()
                if record.is_called(call.query.get("job_id", ""))
                for listed in record.listed(by_array=self.version == "v0.0.40")
            ]
        if call.path == "jobs/":
            if int(call.query.get("update_time", 0)) - 1 >= self.changed_s:
                return []
            return [record.wire() | {"weight": self.weight} for record in self.records.values()]
        found = self._records_of(int(call.path.removeprefix("job/")))
        return [record.wire() for record in found] or GONE

    def _records_of(self, number: int) -> Sequence[Record]:
        return [one for one in self.records.values() if number in (one.number, one.array)]

    def _do(self, call: SlurmCall) -> dict[str, Any] | SlurmError:
        if call.path == "diag/":
            return {"statistics": {"req_time_start": {"set": True, "number": self.counting}}}
        if call.path == "ping/":
            return {"pings": []}
        body = msgspec.json.decode(call.body)
        if call.path in ("job/submit", "job/allocate"):
            return {"job_id": self._make(body["job"], script="script" in body)}
        if call.method == "DELETE":
            return {"status": [one for each in body["jobs"] for one in self._cancel(each, body)]}
        return self._update(int(call.path.removeprefix("job/")), body)

    def _make(self, job: dict[str, Any], *, script: bool) -> int:
        record = self.add(job["admin_comment"], name=job["name"], batch=script)
        if "array" in job:
            record.array = record.number
            record.waiting = list(range(int(job["array"].removeprefix("0-")) + 1))
        if job.get("immediate"):
            record.state, record.nodes = ["RUNNING"], "n1"
        return record.number

    def _cancel(self, job_id: str, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
        number, _, task = job_id.partition("_")
        for record in self._records_of(int(number)):
            if task and int(task) not in (record.task, *record.waiting):
                continue
            if record.name != body["job_name"]:
                yield _status(job_id, 2172)
            elif record.state[0] not in LIVE:
                yield _status(job_id, 2021)
            elif record.state[0] not in body.get("job_state", record.state):
                yield _status(job_id, 2172)
            elif task and record.waiting:
                record.waiting.remove(int(task))
            else:
                record.state = ["CANCELLED"]
            return
        yield _status(job_id, 2017)

    def _update(self, number: int, body: dict[str, Any]) -> dict[str, Any] | SlurmError:
        record = self.records.get(number)
        if record is None or record.state[0] not in LIVE:
            return GONE if record is None else ENDED
        record.comment = body.get("admin_comment", record.comment)
        return {"results": None}


def with_job(
    uid: str = "u1", state: str = "PENDING", *, identity: Identity | None = None, **fields: Any
) -> SlurmJobs:
    """Return a Slurm that has the job of this Pod."""
    slurm = SlurmJobs(**fields)
    slurm.add(identity or identity_of(uid), state, name=name_of(uid))
    return slurm


def _status(job_id: str, code: int) -> dict[str, Any]:
    return {"step_id": job_id, "error": {"code": code, "message": "as Slurm says it"}}
