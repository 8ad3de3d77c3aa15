"""Who waits behind about how many (P26)."""

from collections.abc import Mapping

from sunk_sync.pending import AHEAD_MAX, about


def places(waiting: Mapping[str, tuple[int, int, str]]) -> dict[str, int]:
    """Of each job that waits, about how many are before it: 0, 1, 10, 100 or 1,000.

    `waiting`: job id → its number, its task, itself.
    """
    first = sorted(waiting.values())[:AHEAD_MAX]
    known = {job_id: about(place) for place, (_, _, job_id) in enumerate(first)}
    return dict.fromkeys(waiting, AHEAD_MAX) | known
