"""The simulated clients of the service, for the API server and for slurmrestd."""

import asyncio
from urllib.parse import parse_qsl, unquote

from msgspec import Struct

from sunk_sync.embedded.kubernetes.api.watch import Subscription
from sunk_sync.embedded.wire import Answer, Question
from sunk_sync.kube.api.answers import Decode, KubeError, T, garbage, refusal
from sunk_sync.kube.api.client import Request, Restores
from sunk_sync.kube.api.fencing import FENCED, LeftSeconds, unlimited
from sunk_sync.kube.api.transport import decoded
from sunk_sync.kube.read.stream import Lines
from sunk_sync.slurm.api import transport
from sunk_sync.slurm.api.connection import BrokenError
from sunk_sync.slurm.api.token import Token
from sunk_sync.slurm.api.transport import Begin, Take, UnreachableError
from tests.sim.wire import Process, Wire, WireError

PAGE = 2
"""Objects in each page, if the API server uses small pages."""
PIECE = 3
"""Lines that arrive together, if many wait."""
NO_WATCH_LISTS = Answer(
    status=422,
    body=b'{"kind":"Status","reason":"Invalid","message":"sendInitialEvents is forbidden for'
    b' watch unless the WatchList feature gate is enabled","code":422}',
)


class KubeEnd:
    """Implements `kube.watch.Server` on the simulated network."""

    def __init__(self, wire: Wire, process: Process) -> None:
        self.restores = Restores()
        self.left_s: LeftSeconds = unlimited
        self._wire = wire
        self._process = process

    async def call(self, request: Request, decode: Decode[T]) -> T | KubeError:
        """See KubeClient.call."""
        left_s = self.left_s() if request.fenced else float("inf")
        if left_s <= 0:
            return FENCED
        answer = await self._ask(self._question(request), min(request.deadline_s, left_s))
        if isinstance(answer, KubeError):
            return answer
        assert isinstance(answer, Answer)
        if answer.status >= 300:
            return _refusal(answer)
        return decoded(answer.body, decode)

    async def open(self, request: Request, *, silence_s: float) -> Lines | KubeError:
        """See KubeClient.open."""
        if not self._wire.faults.streams_lists and ("sendInitialEvents", "true") in request.query:
            return _refusal(NO_WATCH_LISTS)
        question = self._question(request)
        answer = await self._ask(question, request.deadline_s)
        if isinstance(answer, KubeError):
            return answer
        if isinstance(answer, Subscription):
            flow = Flow(self._wire, self._process, question, answer)
            return Stream(flow, silence_s=silence_s)
        return _refusal(answer) if answer.status >= 300 else garbage("a watch that is none")

    def _question(self, request: Request) -> Question:
        query = dict(request.query)
        if self._wire.faults.small_pages and "limit" in query:
            query["limit"] = str(min(PAGE, int(query["limit"])))
        return Question(
            method=request.method,
            path=unquote(request.path),
            query=query,
            headers={"content-type": request.content_type, "accept": "application/json"},
            body=request.body or b"",
        )

    async def _ask(
        self, question: Question, deadline_s: float
    ) -> Answer | Subscription | KubeError:
        try:
            async with asyncio.timeout(deadline_s):
                return await self._wire.ask(self._process, "kube", question)
        except TimeoutError:
            return KubeError(kind="timeout", why="no answer in time")
        except WireError as error:
            if error.kind == "half":
                return garbage("half an answer")
            return KubeError(kind="connection", why=error.kind)


def _refusal(answer: Answer) -> KubeError:
    after = answer.headers.get("Retry-After")
    return refusal(answer.status, answer.body, retry_after=after)


class Flow(Struct):
    wire: Wire
    process: Process
    question: Question
    subscription: Subscription


class Stream:
    def __init__(self, flow: Flow, *, silence_s: float) -> None:
        wire, subscription = flow.wire, flow.subscription
        self._wire = wire
        self.process = flow.process
        self._question = flow.question
        self._subscription = subscription
        self._silence_s = silence_s
        self._loop = asyncio.get_running_loop()
        self._pieces: list[list[bytes]] = []
        self._error: KubeError | None = None
        self._dead = False
        """The connection is dead. Neither side notices it."""
        self.frozen = False
        """The peer is gone. The service has not noticed it."""
        self._arrived = asyncio.Event()
        self._delivery: asyncio.TimerHandle | None = None
        self._timer: asyncio.TimerHandle | None = None
        subscription.wake = self._woken
        self._woken()
        self._arm()
        wire.streams.append(self)

    async def lines(self) -> list[bytes] | KubeError:
        """See transport.Stream.lines."""
        try:
            async with asyncio.timeout(self._silence_s):
                while not self._pieces and self._error is None:
                    self._arrived.clear()
                    await self._arrived.wait()
        except TimeoutError:
            return KubeError(kind="timeout", why="silence")
        if not self.process.alive:
            raise asyncio.CancelledError
        if self._pieces:
            self._wire.history.steps += 1
            piece = self._pieces.pop(0)
            self._wire.streamed(self.process, self._question, piece)
            return piece
        assert self._error is not None
        return self._error

    def close(self) -> None:
        self._dead = True
        for handle in (self._delivery, self._timer):
            if handle is not None:
                handle.cancel()
        self._subscription.wake = lambda: None
        self._subscription.close()
        if self in self._wire.streams:
            self._wire.streams.remove(self)

    def cut(self) -> None:
        """Break the connection. Lines that have not arrived are lost."""
        self._end(KubeError(kind="connection", why="reset by peer"))

    def freeze(self) -> None:
        """Remove the peer without notice."""
        self._dead = self.frozen = True

    def _woken(self) -> None:
        if self._delivery is None and not self._dead:
            delay_s = self._wire.faults.event_delay_s()
            self._delivery = self._loop.call_later(delay_s, self._deliver)

    def _deliver(self) -> None:
        self._delivery = None
        if self._dead or self._error is not None:
            return
        faults = self._wire.faults
        if faults.happens("silent streams"):
            self._wire.history.count("fault: silent stream")
            self.freeze()
            return
        lines = self._subscription.take(self._loop.time())
        if faults.happens("broken streams"):
            self._wire.history.count("fault: broken stream")
            lines = lines[: len(lines) // 2]
            self._take(lines)
            self.cut()
            return
        self._take(lines)
        if self._subscription.closed:
            self._end(KubeError(kind="ended", why="the server ended the stream"))
        else:
            self._arm()

    def _take(self, lines: list[bytes]) -> None:
        for start in range(0, len(lines), PIECE):
            piece = self._wire.faults.disturb(lines[start : start + PIECE])
            self._pieces.append([line.rstrip(b"\n") for line in piece])
        self._arrived.set()

    def _end(self, error: KubeError) -> None:
        if self._error is None:
            self._error = error
            self._arrived.set()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        due_s = self._subscription.next_s()
        if due_s is not None:
            self._timer = self._loop.call_at(max(due_s, self._loop.time()), self._woken)


class SlurmEnd:
    def __init__(self, wire: Wire, process: Process) -> None:
        self._wire = wire
        self._process = process

    async def ask(self, question: transport.HttpRequest, *, begin: Begin, take: Take) -> None:
        path, _, query = question.target.partition("?")
        asked = Question(
            method=question.method,
            path=unquote(path),
            query=dict(parse_qsl(query)),
            headers={key.lower(): value for key, value in question.headers.items()},
            body=question.body,
        )
        try:
            answer = await self._wire.ask(self._process, "slurm", asked)
        except WireError as error:
            if error.kind == "refused":
                raise UnreachableError("connection refused") from None
            if error.kind == "half":
                begin(200)
                await _give(error.got, take)
                raise BrokenError("connection reset in the middle") from None
            raise BrokenError("connection reset") from None
        assert isinstance(answer, Answer)
        begin(answer.status)
        await _give(answer.body, take)

    async def aclose(self) -> None:
        """Nothing to close."""


async def _give(body: bytes, take: Take) -> None:
    half = len(body) // 2
    for piece in (body[:half], body[half:]):
        if piece and not await take(piece):
            return


class TokenFile(Token):
    """A token file that others replace. The service keeps the token of its last read."""

    def __init__(self, text: str) -> None:
        super().__init__(text=text)
        self.file = text
        self._held = text

    def current(self) -> str:
        return self._held

    def reread(self) -> str:
        self._held = self.file
        return self._held
