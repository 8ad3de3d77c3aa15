"""Queue positions of waiting jobs, rounded (P26)."""

from collections.abc import Mapping, Sequence

from sunk_sync.core.translate.pending import AHEAD_MAX, about

Waiting = Mapping[str, tuple[int, int, str]]
"""Job id → its number, its task, the id."""

EVERY_S = 60.0
AT_ONCE = 1000
"""Jobs whose position is reported after one listing, so that the loop is not blocked."""


class Queue:
    """Reported positions: computed once a minute, and reported in slices after each listing."""

    def __init__(self, ahead: dict[str, int]) -> None:
        self._ahead = ahead
        """Job id → about how many wait longer, as last reported."""
        self._places: Mapping[str, int] = {}
        self._to_report: Sequence[str] = ()
        """Jobs whose position changed."""
        self._counted_s = float("-inf")

    def move(self, waiting: Waiting, *, listed_s: float) -> Sequence[str]:
        """Report the next slice of positions; return its jobs."""
        if not self._to_report and listed_s >= self._counted_s + EVERY_S:
            self._counted_s, self._places = listed_s, places(waiting)
            self._to_report = self._moved()
        reported, self._to_report = self._to_report[:AT_ONCE], self._to_report[AT_ONCE:]
        for job_id in reported:
            self._ahead.pop(job_id, None)
            if job_id in self._places:
                self._ahead[job_id] = self._places[job_id]
        return reported

    def _moved(self) -> Sequence[str]:
        ahead, places = self._ahead, self._places
        gone = [job_id for job_id in ahead if job_id not in places]
        return gone + [job_id for job_id, place in places.items() if ahead.get(job_id) != place]


def places(waiting: Waiting) -> dict[str, int]:
    """Return about how many jobs wait before each: 0, 1, 10, 100 or 1,000."""
    first = sorted(waiting.values())[:AHEAD_MAX]
    known = {job_id: about(place) for place, (_, _, job_id) in enumerate(first)}
    return dict.fromkeys(waiting, AHEAD_MAX) | known
