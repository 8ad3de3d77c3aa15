"""Limits that several parts of the core share; times in seconds."""

BINDING_S = 15.0
"""A binding, or the creation of a Pod, arrives within this time after sunk-sync gave it up without
an answer, or never."""
BEFORE_KILL_S = 2.0
"""sunk-sync drains the host this long before Slurm kills the script of a placeholder (L6)."""
A_MINUTE_MAX = 5
"""Submissions of one workload in a minute (P32)."""

_DOUBLINGS_MAX = 20
"""More than any pause here needs; a float overflows after a thousand."""


def doubled_s(first_s: float, *, doublings: int, longest_s: float) -> float:
    """Return a pause in seconds that doubles each time, from `first_s` up to `longest_s`."""
    return min(first_s * 2.0 ** min(max(doublings, 0), _DOUBLINGS_MAX), longest_s)
