"""The hooks server: prologs, epilogs and placeholder scripts call it (L1, L5-L9).

Every answer is one line of JSON. A waiting call costs its connection and one future. It ends with
an answer of the core, at its own deadline, or when its caller disconnects.
"""

import contextlib
import resource
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Annotated, Any, Literal

import anyio
import msgspec
from aiohttp import web
from msgspec import Meta, Struct

from sunk_sync.core.model.actions import Action
from sunk_sync.core.model.calls import LockCall
from sunk_sync.core.model.facts import Tell
from sunk_sync.core.model.outcomes import Outcome
from sunk_sync.core.model.topology_file import Format, TopologyReport
from sunk_sync.core.translate.hostlist import HostlistError, expand
from sunk_sync.server.bounded import Bounds, HostPort, listen
from sunk_sync.server.pass_on import PassOn
from sunk_sync.server.pending_calls import CallsEndedError, GateVerdict, PendingCalls
from sunk_sync.server.tokens import GATE, LOCK, subject_of
from sunk_sync.telemetry.exchange import Called, Reply

CONNECTIONS_MAX = 12_000
BODY_BYTES_MAX = 16 << 10
BODY_S = 10.0
"""Deadline for a complete body."""
DEADLINE_MAX_S = 3600.0
WAITED_MAX_S = 7 * 86_400.0
RETRY_AFTER_S = 1
PODS_TOLD_MAX = 20
TOPOLOGY_S = 4.0
"""How long the script waits for the core."""
WHY_MAX = 1000
BACKLOG = 4096
PLACEHOLDER = "placeholder"
LEVELS = {"auto": None, "plain": False, "strict": True}

JobId = Annotated[str, Meta(pattern=r"^[0-9]{1,10}(_[0-9]{1,10})?\Z")]
Deadline = Annotated[float, Meta(gt=0, le=DEADLINE_MAX_S)]


class _Gate(Struct):
    job_id: JobId
    nodes: Annotated[str, Meta(min_length=1)]
    deadline_s: Deadline
    then: Literal["ask", "requeue", "pass"] = "ask"
    """The caller's next step after action `wait`: ask again, requeue its job if that is possible,
    or start the job."""


class _Lock(Struct):
    job_id: JobId
    deadline_s: Deadline
    node: str = ""
    """Slurm node whose prolog calls; empty: it calls for all of `nodes`."""
    nodes: str = ""
    level: Literal["auto", "plain", "strict"] = "auto"
    waited_s: Annotated[float, Meta(ge=0, le=WAITED_MAX_S)] = 0.0
    """How long the prolog has asked already."""


class _Ended(Struct):
    job_id: JobId
    state: Annotated[str, Meta(max_length=64)] = ""


class _Started(Struct):
    job_id: JobId


class _Stopping(Struct):
    job_id: JobId
    deadline_s: Deadline


class _Topology(Struct):
    format: Format
    applied: Annotated[str, Meta(max_length=64)] = ""
    refused: Annotated[str, Meta(max_length=64)] = ""
    why: Annotated[str, Meta(max_length=WHY_MAX)] = ""


class Rest(Struct, frozen=True, kw_only=True):
    """Functions of the service that the hooks server calls."""

    ready: Callable[[str], str]
    """Path → why a call to it cannot be answered now, or an empty text."""
    subject: Callable[[str], str | None]
    """Job id → subject of the job's token; None: the job is unknown."""
    requeueable: Callable[[str], Awaitable[bool]]
    """Reads the job; returns whether it is a batch job that Slurm may requeue. Never raises."""
    called: Callable[[Called], None]
    locks: bool = False
    """Whether sunk-sync may lock Nodes (--lock)."""
    pass_on: PassOn | None = None
    """Where calls go while this replica stands by; None: there is no other replica."""


class _No(Exception):  # noqa: N818 -- an answer, not a failure
    def __init__(self, status: int, why: str) -> None:
        self.reply = Reply(status, {"error": why}, str(status))


class Hooks:
    """Answers calls; `push` sends answers of the core to waiting calls."""

    def __init__(self, key: bytes, tell: Tell, *, clock: Callable[[], float], rest: Rest) -> None:
        self._key = key
        self._clock = clock
        self._rest = rest
        self.calls = PendingCalls(tell, clock=clock)

    async def push(self, actions: Sequence[Action]) -> Sequence[Outcome]:
        return await self.calls.push(actions)

    @contextlib.asynccontextmanager
    async def serve(self, address: HostPort) -> AsyncIterator[str]:
        """Listen; yield host:port as bound. Raises CannotListenError."""
        _allow_connections()
        bounds = Bounds(
            connections=CONNECTIONS_MAX,
            first_request_s=BODY_S,
            body_bytes=BODY_BYTES_MAX,
            backlog=BACKLOG,
            cancels=True,
        )
        flag = "--hooks-api-bind-address"
        async with listen(self._answer, address, flags=flag, bounds=bounds) as bound:
            yield bound

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        began, reply = self._clock(), None
        try:
            reply = await self._reply(request)
        except _No as no:
            reply = no.reply
        finally:
            name = request.path.rpartition("/")[2] if request.path in _ROUTES else "other"
            seconds = self._clock() - began
            self._rest.called(Called(name, reply, seconds, request.remote or ""))
        return _response(reply)

    async def _reply(self, request: web.BaseRequest) -> Reply:
        route = _ROUTES.get(request.path)
        if route is None:
            raise _No(404, "there is: " + " ".join(_ROUTES))
        method, subjects, form, answer = route
        if request.method != method:
            raise _No(405, f"only {method}")
        elsewhere = self._rest.pass_on
        if elsewhere is not None and elsewhere.stands_by():
            passed_on = await elsewhere.answer(request, await _body(request))
            if passed_on is not None:
                return passed_on
        subject = self._subject(request)
        whose = subject if subject in (GATE, LOCK) else PLACEHOLDER
        if subject is None or whose not in subjects:
            raise _No(401, "no valid token for this call")
        if why := self._rest.ready(request.path):
            raise _No(503, why)
        if form is None:
            return Reply(200, {"action": "ready"}, "ready")
        body = _decoded(await _body(request), form)
        if whose == PLACEHOLDER:
            await self._check_own(subject, body.job_id)
        try:
            told = await answer(self, body)
        except CallsEndedError as ended:
            raise _No(503, "sunk-sync stops: ask again") from ended
        return msgspec.structs.replace(told, job_id=getattr(body, "job_id", ""))

    def _subject(self, request: web.BaseRequest) -> str | None:
        kind, _, token = request.headers.get("Authorization", "").partition(" ")
        return subject_of(self._key, token.strip()) if kind.lower() == "bearer" else None

    async def _check_own(self, subject: str, job_id: str) -> None:
        """Refuse a call of a placeholder about another job."""
        seen = self._rest.subject(job_id)
        if seen is None:
            await self.calls.told(job_id, "starting")
            raise _No(503, f"job {job_id} was not seen yet")
        if seen != subject:
            raise _No(401, "no valid token for this job")

    async def _gate(self, body: _Gate) -> Reply:
        slurm_nodes = _expanded(body.nodes)
        verdict = await self.calls.gate(body.job_id, slurm_nodes, deadline_s=body.deadline_s)
        if verdict.word == "go":
            return _told(verdict)
        return await self._held(body, verdict)

    async def _held(self, body: _Gate, verdict: GateVerdict) -> Reply:
        """Answer after the deadline with the action that the caller requested (L9)."""
        if body.then == "requeue" and await self._rest.requeueable(body.job_id):
            return _told(verdict, action="requeue")
        return _told(verdict, outcome="passed" if body.then == "pass" else "wait")

    async def _lock(self, body: _Lock) -> Reply:
        if not self._rest.locks:
            return Reply(200, {"action": "go", "pods": ["sunk-sync runs without --lock"]}, "off")
        now = self._clock()
        fact = LockCall(
            call=0,
            job_id=body.job_id,
            slurm_nodes=_expanded(body.node or body.nodes),
            asked_s=now,
            began_s=now - body.waited_s,
            until_s=now + body.deadline_s,
            strict=LEVELS[body.level],
        )
        verdict = await self.calls.lock(fact)
        return _told(verdict, outcome="passed" if verdict.word == "go" and verdict.why else "")

    async def _ended(self, body: _Ended) -> Reply:
        await self.calls.told(body.job_id, "ended")
        return Reply(200, {"action": "noted"}, "noted")

    async def _started(self, body: _Started) -> Reply:
        await self.calls.told(body.job_id, "started")
        return Reply(200, {"action": "noted"}, "noted")

    async def _stopping(self, body: _Stopping) -> Reply:
        return _told(await self.calls.stop(body.job_id, deadline_s=body.deadline_s))

    async def _topology(self, body: _Topology) -> Reply:
        fact = TopologyReport(
            call=0,
            format=body.format,
            applied=body.applied,
            refused=body.refused,
            why=body.why,
            asked_s=self._clock(),
        )
        answer = await self.calls.topology(fact, deadline_s=TOPOLOGY_S)
        if answer is not None and answer.digest:
            told = {"action": "write", "hash": answer.digest, "content": answer.content}
            return Reply(200, told, "write")
        why = "no answer in time" if answer is None else answer.why
        return Reply(200, {"action": "nothing", "why": why}, "nothing")

    async def _nothing(self, _body: Any) -> Reply:
        return Reply(200, {"action": "ready"}, "ready")


def _expanded(nodes: str) -> tuple[str, ...]:
    try:
        slurm_nodes = tuple(dict.fromkeys(expand(nodes)))
    except HostlistError as error:
        raise _No(400, f"nodes: {error}") from error
    if not slurm_nodes:
        raise _No(400, "nodes: none named")
    return slurm_nodes


def _told(verdict: GateVerdict, *, action: str = "", outcome: str = "") -> Reply:
    body: dict[str, Any] = {"action": action or verdict.word}
    if verdict.word == "wait" or verdict.why:
        body["pods"] = verdict.why[:PODS_TOLD_MAX]
    return Reply(200, body, outcome or body["action"])


async def _body(request: web.BaseRequest) -> bytes:
    try:
        with anyio.fail_after(BODY_S):
            return await request.read()
    except web.HTTPRequestEntityTooLarge as error:
        raise _No(413, f"a body has at most {BODY_BYTES_MAX} bytes") from error
    except TimeoutError as error:
        raise _No(408, f"no whole body within {BODY_S:g} s") from error


def _decoded(body: bytes, form: Any) -> Any:
    try:
        return msgspec.json.decode(body, type=form)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _No(400, f"the body: {error}") from error


def _response(reply: Reply) -> web.Response:
    response = web.Response(
        status=reply.status,
        body=msgspec.json.encode(reply.body) + b"\n",
        content_type="application/json",
        headers={"Cache-Control": "no-store"},
    )
    if reply.status == 503:
        response.headers["Retry-After"] = str(RETRY_AFTER_S)
    response.force_close()
    return response


def _allow_connections() -> None:
    """Raise the limit of open files; it is often 1,024 at the start."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = CONNECTIONS_MAX + 1024
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


_Route = tuple[str, tuple[str, ...], Any, Callable[[Hooks, Any], Awaitable[Reply]]]
_ROUTES: dict[str, _Route] = {
    "/v1/gate": ("POST", (GATE,), _Gate, Hooks._gate),
    "/v1/lock": ("POST", (GATE, LOCK), _Lock, Hooks._lock),
    "/v1/topology": ("POST", (GATE,), _Topology, Hooks._topology),
    "/v1/ended": ("POST", (GATE,), _Ended, Hooks._ended),
    "/v1/placeholder/started": ("POST", (PLACEHOLDER,), _Started, Hooks._started),
    "/v1/placeholder/stopping": ("POST", (PLACEHOLDER,), _Stopping, Hooks._stopping),
    "/v1/health": ("GET", (GATE, LOCK), None, Hooks._nothing),
}
"""Path → method, whose token it needs, type of the body, function."""
FOR_WORKLOADS = _ROUTES.keys() - {"/v1/topology", "/v1/health"}
"""Paths that only component scheduler can answer."""
