"""Oracle, read-set, safety and quiet world on random histories.

SUNK_SYNC_HISTORIES says how many (200); SUNK_SYNC_HISTORY replays the one of that number.
"""

import os

import pytest

from tests.core.history import run_histories
from tests.core.workload_history import WorkloadHistory

pytestmark = pytest.mark.no_cover
"""Counting the lines of so many histories would take longer than they do."""
COUNT = int(os.environ.get("SUNK_SYNC_HISTORIES", "200"))
ONE = os.environ.get("SUNK_SYNC_HISTORY")


def test_every_history_keeps_the_promises() -> None:
    """After every step: standing verdicts are those of a full pass, whatever a decision read marks
    its key when it changes, nobody's drain is touched, no absence counts without evidence. In the
    end everything comes to rest, is right, and stays quiet (S0-S20, M1-M7).
    """
    run_histories([int(ONE)] if ONE else range(COUNT))


def test_every_history_with_workloads_keeps_the_promises() -> None:
    """The same with workload Pods, their jobs and the hooks server: nobody is bound where his job
    is not, or beside a Pod whose job is not confirmed; no job ends before its Pods, no Pod before
    its job; nothing is submitted twice or against a human's word; no orphan ends unasked. At rest
    each Pod is bound or says why, and has one job (P1-P30, G1-G7, L6-L7, F2).
    """
    run_histories([int(ONE)] if ONE else range(COUNT), kind=WorkloadHistory)
