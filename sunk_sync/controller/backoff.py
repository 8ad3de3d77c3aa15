"""The wait before a failed write is sent again: exponential, with jitter, bounded."""

from sunk_sync.core.model.timing import doubled_s

BACKOFF_FIRST_S = 0.2
BACKOFF_MAX_S = 30.0


def backoff_s(*, attempts: int, retry_after_s: float | None, random: float) -> float:
    """Return the seconds to wait after this many failures in a row.

    retry_after_s: from the server's Retry-After. random: from 0 to 1.
    """
    if retry_after_s is not None:
        return min(retry_after_s, BACKOFF_MAX_S) * (1.0 + 0.1 * random)
    longest_s = doubled_s(BACKOFF_FIRST_S, doublings=attempts - 1, longest_s=BACKOFF_MAX_S)
    return longest_s * (0.5 + 0.5 * random)
