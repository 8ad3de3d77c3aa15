"""A list of names for a sentence that stays short."""

from collections.abc import Sequence

NAMED = 3


def shortened(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
