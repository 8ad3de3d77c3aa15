"""F6: a write leaves a process only while that process holds the Lease, as the API server stored
it. Its answer is not awaited any more when another one does. A new leader looks at Slurm first."""

import msgspec

from sunk_sync.embedded.wire import Answer
from tests.kit.clock import now
from tests.sim.history import History
from tests.sim.wire import Exchange


class OneWriter:
    """Compares each write with the claims that the API server accepted.

    What people do to the Lease does not count: it makes nobody a leader.
    """

    def __init__(self, history: History) -> None:
        self._history = history
        self.holder = 0
        """Number of the life that claimed the Lease last; 0: it was given back."""
        self._claimed_s = 0.0
        """When the holder changed last."""
        self._looked = False
        """The holder has asked Slurm since then, and waits no more for the answer."""
        self.paused_s: dict[int, float] = {}
        """Life → when it was paused last: then it cannot stop waiting in time."""

    def sent(self, exchange: Exchange) -> None:
        number = exchange.process.number
        if exchange.writes and number != self.holder:
            self._history.break_promise("two writers", f"{exchange} of life {number}: {self}")
        elif exchange.writes and not self._looked:
            self._history.break_promise("stale", f"{exchange} of life {number} without a look")

    def served(self, exchange: Exchange) -> None:
        answer = exchange.answer
        if exchange.of_lease and exchange.question.method != "GET":
            if isinstance(answer, Answer) and answer.status < 300:
                self._claimed(exchange)
        elif exchange.writes and exchange.process.number != self.holder:
            self._history.count("late writes of the last leader that arrived")

    def over(self, exchange: Exchange) -> None:
        number = exchange.process.number
        if number == self.holder and exchange.side == "slurm" and not exchange.writes:
            self._looked = self._looked or exchange.sent_s > self._claimed_s
        paused = self.paused_s.get(number, -1.0) >= exchange.sent_s
        if exchange.writes and self.holder not in (0, number) and not paused:
            self._history.break_promise("awaited", f"{exchange} of life {number}: {self}")

    def _claimed(self, exchange: Exchange) -> None:
        spec = msgspec.json.decode(exchange.question.body).get("spec", {})
        if "holderIdentity" not in spec:
            return  # an empty Lease for one that was missing
        holder = exchange.process.number if spec["holderIdentity"] else 0
        if holder != self.holder:
            self._history.note("lease", f"life {holder} holds it" if holder else "given back")
            self._history.count("changes of the leader")
            self._claimed_s, self._looked = now(), False
        self.holder = holder

    def serving(self, exchange: Exchange) -> None:
        """Ignore this moment."""

    def taken(self, exchange: Exchange) -> None:
        """Ignore this moment."""

    def half_taken(self, exchange: Exchange, body: bytes) -> None:
        """Ignore this moment."""

    def __str__(self) -> str:
        return f"life {self.holder} holds the Lease" if self.holder else "nobody holds the Lease"
