"""Oracle, read-set, safety and quiet world on random histories.

SUNK_SYNC_HISTORIES says how many (200); SUNK_SYNC_HISTORY replays the one of that number.
"""

import os

from tests.core.history import run_histories

COUNT = int(os.environ.get("SUNK_SYNC_HISTORIES", "200"))
ONE = os.environ.get("SUNK_SYNC_HISTORY")


def test_every_history_keeps_the_promises() -> None:
    """After every step: standing verdicts are those of a full pass, whatever a decision read marks
    its key when it changes, nobody's drain is touched, no absence counts without evidence. In the
    end everything comes to rest, is right, and stays quiet (S0-S20, M1-M7).
    """
    run_histories([int(ONE)] if ONE else range(COUNT))
