"""The simulated network between the service and the servers. Each call and stream passes it."""

import asyncio
from collections.abc import Callable
from typing import Literal, Protocol

from msgspec import Struct

from sunk_sync.embedded.kubernetes.api.watch import Subscription
from sunk_sync.embedded.slurm.api.reply import SlurmAnswer
from sunk_sync.embedded.wire import Answer, Question
from tests.kit.clock import OUTSIDE
from tests.sim.faults import Faults, Journey, Side
from tests.sim.history import History
from tests.sim.worlds import US, Worlds

Moment = Literal["sent", "served", "after", "piece"]
"""Before a call leaves; when the server performs it; shortly after an answer or piece arrives."""
AFTER_TURNS = 3
"""Turns of the loop for "shortly after"."""
AGAIN_S = 0.5
"""Interval at which slurmrestd retries its slurmctld."""
READS = ("GET",)
LEASES = "/leases"
Outage = Literal["refused", "silent", "html"]


class WireError(Exception):
    """A call failed. `kind` is refused (nothing was sent), broken or half."""

    def __init__(self, kind: Literal["refused", "broken", "half"], got: bytes = b"") -> None:
        super().__init__(kind)
        self.kind = kind
        self.got = got


class Process(Struct):
    """One life of the service, as the network knows it."""

    number: int
    alive: bool = True
    polls: int = 0
    cut_off: bool = False
    """Nothing comes back from the API server to this process alone."""


def breaks_calls(process: Process) -> None:
    """Disconnect the process: no bytes reach or leave it."""
    process.alive = False


class Exchange(Struct, kw_only=True):
    """One call of the service. Times are seconds. None stands for not yet, or never."""

    number: int
    process: Process
    side: Side
    question: Question
    sent_s: float
    served_s: float | None = None
    taken_s: float | None = None
    answer: Answer | Subscription | None = None

    @property
    def writes(self) -> bool:
        """Whether it changes what sunk-sync manages: the Lease only says who may."""
        return self.question.method not in READS and not self.of_lease

    @property
    def of_lease(self) -> bool:
        return LEASES in self.question.path

    def __str__(self) -> str:
        query = "&".join(f"{key}={value}" for key, value in self.question.query.items())
        return f"#{self.number} {self.question.method} {self.question.path}" + (
            f"?{query}" if query else ""
        )


class Witness(Protocol):
    """Observes each call of the service."""

    def sent(self, exchange: Exchange) -> None:
        """The call leaves the service."""

    def serving(self, exchange: Exchange) -> None:
        """The server is about to perform the call."""

    def served(self, exchange: Exchange) -> None:
        """The server has performed the call."""

    def taken(self, exchange: Exchange) -> None:
        """The service receives the answer."""

    def half_taken(self, exchange: Exchange, body: bytes) -> None:
        """The service receives the first part of the answer."""

    def over(self, exchange: Exchange) -> None:
        """The service stops waiting for the answer."""


class Broken(Protocol):
    """A stream that can break."""

    frozen: bool
    """The peer is gone. Neither side has noticed it."""
    process: Process

    def cut(self) -> None:
        """Break the connection."""

    def freeze(self) -> None:
        """Remove the peer without notice."""

    def close(self) -> None:
        """Close the stream because its reader is gone."""


class Wire:
    """Transports calls. `outages` holds each unreachable side, and how it fails."""

    def __init__(self, worlds: Worlds, faults: Faults, history: History) -> None:
        self.worlds = worlds
        self.faults = faults
        self.history = history
        self.outages: dict[Side, Outage] = {}
        self.restored_until_s = 0.0
        """Until then no API server runs, because etcd is being restored."""
        self.witnesses: list[Witness] = []
        self.at: Callable[[Moment, Exchange], None] | None = None
        """Called at each moment of each call. Crashes happen there."""
        self.fate: Callable[[Exchange], Journey | None] = lambda _: None
        """The course that a scenario gives to a call. None: draw it."""
        self.streams: list[Broken] = []
        self.on_streamed: list[Callable[[Process, Question, list[bytes]], None]] = []
        self._loop = asyncio.get_running_loop()
        self._number = 0
        self._under_way: dict[int, tuple[Exchange, asyncio.TimerHandle]] = {}

    async def ask(self, process: Process, side: Side, question: Question) -> Answer | Subscription:
        """Return the answer when it arrives. Raises WireError. Can wait for ever."""
        if not process.alive:
            raise asyncio.CancelledError
        self._number += 1
        process.polls += side == "slurm" and question.path.endswith("/nodes/")
        exchange = Exchange(
            number=self._number,
            process=process,
            side=side,
            question=question,
            sent_s=self._loop.time(),
        )
        answered: asyncio.Future[Answer | Subscription] = self._loop.create_future()
        self._send(exchange, answered)
        try:
            answer = await answered
            if not process.alive:
                raise asyncio.CancelledError
            return answer
        finally:
            for witness in self.witnesses:
                witness.over(exchange)

    def _send(self, exchange: Exchange, answered: asyncio.Future[Answer | Subscription]) -> None:
        for witness in self.witnesses:
            witness.sent(exchange)
        self._tell("sent", exchange)
        if not exchange.process.alive:
            return
        journey = self.fate(exchange) or self.faults.journey(exchange.side)
        if journey.words:
            self._note_fault(exchange, journey.words)
        self._later(exchange, journey.out_s, lambda: self._arrive(exchange, journey, answered))

    def _later(self, exchange: Exchange, delay_s: float, doing: Callable[[], None]) -> None:
        def due() -> None:
            self._under_way.pop(exchange.number, None)
            doing()

        handle = self._loop.call_later(delay_s, due, context=OUTSIDE.copy())
        self._under_way[exchange.number] = (exchange, handle)

    def crash(self, process: Process, survives: Callable[[], bool]) -> None:
        """End the process. Calls on their way can still arrive."""
        process.alive = False
        for number, (exchange, handle) in list(self._under_way.items()):
            if exchange.process is process and not survives():
                handle.cancel()
                del self._under_way[number]

    def _note_fault(self, exchange: Exchange, words: str) -> None:
        self.history.note("fault", exchange, words)
        for word in words.split(", "):
            self.history.count(f"fault: {word}")

    def _arrive(
        self, exchange: Exchange, journey: Journey, answered: asyncio.Future[Answer | Subscription]
    ) -> None:
        outage = self._outage(exchange.process, exchange.side)
        if outage == "refused":
            self._fail(answered, WireError("refused"))
        elif outage == "html":
            self._answer(exchange, answered, Answer(status=503, body=b"<html>down</html>"))
        elif journey.loss == "request" or outage == "silent":
            if not journey.silent and outage != "silent":
                self._fail(answered, WireError("broken"))
        elif journey.instead is not None:
            self._answer(exchange, answered, journey.instead)
        else:
            self._serve(exchange, journey, answered)

    def _outage(self, process: Process, side: Side) -> Outage | None:
        if side == "kube" and process.cut_off:
            return "silent"
        if side == "kube" and self.worlds.now_s < self.restored_until_s:
            return "refused"
        return self.outages.get(side)

    def _serve(
        self, exchange: Exchange, journey: Journey, answered: asyncio.Future[Answer | Subscription]
    ) -> None:
        answer = self._do(exchange)
        if isinstance(answer, SlurmAnswer) and answer.after_s > 0:
            self._wait_for_slurmctld(exchange, journey, answered, waited_s=0.0)
            return
        self._tell("served", exchange)
        self._return(exchange, journey, answered, answer)

    def _do(self, exchange: Exchange) -> Answer | Subscription:
        """Let the server perform the call. Changes during it count as ours."""
        side, question, now_s = exchange.side, exchange.question, self.worlds.now_s
        api = self.worlds.kube_api if side == "kube" else self.worlds.slurm_rest
        for witness in self.witnesses:
            witness.serving(exchange)
        answer = self.worlds.act(US, lambda: api.answer(question, now_s))
        if not (isinstance(answer, SlurmAnswer) and answer.after_s > 0):
            exchange.served_s = now_s
            exchange.answer = answer
        for witness in self.witnesses:
            witness.served(exchange)
        return answer

    def _wait_for_slurmctld(
        self,
        exchange: Exchange,
        journey: Journey,
        answered: asyncio.Future[Answer | Subscription],
        *,
        waited_s: float,
    ) -> None:
        def again() -> None:
            answer = self._do(exchange)
            late = isinstance(answer, SlurmAnswer) and answer.after_s > waited_s + AGAIN_S
            if late:
                self._wait_for_slurmctld(exchange, journey, answered, waited_s=waited_s + AGAIN_S)
                return
            self._tell("served", exchange)
            self._return(exchange, journey, answered, answer)

        self._later(exchange, AGAIN_S, again)

    def _return(
        self,
        exchange: Exchange,
        journey: Journey,
        answered: asyncio.Future[Answer | Subscription],
        answer: Answer | Subscription,
    ) -> None:
        if journey.loss == "answer":
            if not journey.silent:
                self._later(
                    exchange, journey.back_s, lambda: self._fail(answered, WireError("broken"))
                )
        elif journey.half and isinstance(answer, Answer) and len(answer.body) > 1:
            half = answer.body[: len(answer.body) // 2]
            self._later(exchange, journey.back_s, lambda: self._break_off(exchange, answered, half))
        else:
            self._later(exchange, journey.back_s, lambda: self._answer(exchange, answered, answer))

    def _break_off(
        self, exchange: Exchange, answered: asyncio.Future[Answer | Subscription], half: bytes
    ) -> None:
        if not answered.done():
            for witness in self.witnesses:
                witness.half_taken(exchange, half)
        self._fail(answered, WireError("half", half))

    def _fail(self, answered: asyncio.Future[Answer | Subscription], error: WireError) -> None:
        if not answered.done():
            answered.set_exception(error)

    def _answer(
        self,
        exchange: Exchange,
        answered: asyncio.Future[Answer | Subscription],
        answer: Answer | Subscription,
    ) -> None:
        if answered.done():
            return
        self.history.steps += 1
        exchange.taken_s = self._loop.time()
        exchange.answer = answer
        for witness in self.witnesses:
            witness.taken(exchange)
        answered.set_result(answer)
        if self.at is not None:
            self._turn(AFTER_TURNS, lambda: self._tell("after", exchange))

    def _turn(self, turns: int, doing: Callable[[], None]) -> None:
        """Call the function after this many turns of the loop."""
        if turns:
            self._loop.call_soon(self._turn, turns - 1, doing)
        else:
            doing()

    def streamed(self, process: Process, question: Question, piece: list[bytes]) -> None:
        """Pass lines of a watch that the service receives to the witnesses."""
        for told in self.on_streamed:
            told(process, question, piece)
        if self.at is not None:
            exchange = Exchange(
                number=0, process=process, side="kube", question=question, sent_s=0.0
            )
            self._turn(AFTER_TURNS, lambda: self._tell("piece", exchange))

    def _tell(self, moment: Moment, exchange: Exchange) -> None:
        if self.at is not None:
            self.at(moment, exchange)
