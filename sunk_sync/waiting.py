"""Who waits behind about how many (P26)."""

from collections.abc import Mapping

AHEAD_MAX = 1000


def places(waiting: Mapping[str, tuple[int, int, str]]) -> dict[str, int]:
    """Of each job that waits, about how many are before it: 0, 1, 10, 100 or 1,000.

    `waiting`: job id → its number, its task, itself.
    """
    first = sorted(waiting.values())[:AHEAD_MAX]
    known = {job_id: about(place) for place, (_, _, job_id) in enumerate(first)}
    return dict.fromkeys(waiting, AHEAD_MAX) | known


def about(count: int) -> int:
    """0, 1, 10, 100 or 1,000: what is shown seldom changes."""
    return min(10 ** (len(str(count)) - 1), AHEAD_MAX) if count else 0
