"""Logs and metrics of the hooks server; never a token, never a body."""

from collections.abc import Callable

import structlog

from sunk_sync.telemetry.exchange import Called
from sunk_sync.telemetry.metrics import Figures, Metrics

Log = structlog.typing.FilteringBoundLogger
Ask = Callable[[tuple[str, ...]], tuple[bool, int]]
"""Takes a failure; returns whether to log it, and how many equal ones were not logged since."""

_REFUSED = "hook call refused: no valid token"
_PASSED = {
    "gate": "a job starts beside Pods that still terminate: its gate waited for --busy-max",
    "lock": "a job starts on a Node without the lock",
}
"""By call: it let a job start that it was made to hold."""


class HookJournal:
    """Logs and counts the calls that ended."""

    def __init__(self, log: Log, metrics: Metrics, *, ask: Ask) -> None:
        self._log = log
        self._ask = ask
        self._calls = metrics.counter("sunk_sync_hook_calls_total")
        self._at_scrape = metrics.at_scrape
        self._seconds = metrics.histogram("sunk_sync_hook_call_duration_seconds")

    def waiting(self, read: Callable[[], int]) -> None:
        """Set the function that returns the number of waiting calls at each scrape."""

        def tell(figures: Figures) -> None:
            figures["sunk_sync_hook_calls_waiting"] = read()

        self._at_scrape.append(tell)

    def called(self, call: Called) -> None:
        """Count the call; log equal failures once a minute."""
        outcome = call.reply.outcome if call.reply else "left"
        self._calls.labels(call.call, outcome).inc()
        self._seconds.labels(call.call).observe(call.seconds)
        if outcome == "401" or (outcome == "passed" and call.call in _PASSED):
            self._warn(call, outcome)
        else:
            self._log.debug("hook call", call=call.call, outcome=outcome, peer=call.peer)

    def _warn(self, call: Called, outcome: str) -> None:
        event = _REFUSED if outcome == "401" else _PASSED[call.call]
        aloud, swallowed = self._ask((f"hook {call.call} {outcome}", call.peer))
        if aloud:
            more = {"swallowed": swallowed} if swallowed else {}
            job = call.reply.job_id if call.reply else ""
            self._log.warning(event, call=call.call, job=job, peer=call.peer, **more)
