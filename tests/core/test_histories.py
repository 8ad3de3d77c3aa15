"""Random histories: after every step all checks hold, and at the end everything converges.

SUNK_SYNC_HISTORIES is their number (200); SUNK_SYNC_HISTORY replays the one with that seed.
"""

import os
from collections.abc import Sequence

import pytest

from tests.core.history import run_histories
from tests.core.lock_history import LockHistory
from tests.core.node_set_history import NodeSetHistory
from tests.core.packing_history import PackingHistory
from tests.core.ruled_history import RuledHistory
from tests.core.volume_history import VolumeHistory
from tests.core.workload_history import WorkloadHistory

pytestmark = pytest.mark.no_cover
"""Coverage of so many histories would take longer than the histories."""
COUNT = int(os.environ.get("SUNK_SYNC_HISTORIES", "200"))
ONE = os.environ.get("SUNK_SYNC_HISTORY")
SAMPLE = 30
WHY = "a history takes a quarter of a second, and the sample has all kinds of facts and faults"


def histories() -> list[object]:
    """Return the numbers of the histories for each run."""
    if ONE:
        return [[int(ONE)]]
    rest = range(SAMPLE, COUNT)
    return [range(min(SAMPLE, COUNT)), pytest.param(rest, marks=pytest.mark.night(WHY))]


each = pytest.mark.parametrize("seeds", histories(), ids=str)


@each
def test_every_history_keeps_all_promises_S0_to_S20_M1_to_M7(seeds: Sequence[int]) -> None:
    """After every step the verdicts equal those of a full pass, a change of any row that a decision
    read marks its key, no foreign drain is touched, and no absence counts without evidence. In the
    end everything converges, is right, and nothing more is written.
    """
    run_histories(seeds)


@each
def test_every_history_with_workloads_keeps_all_promises(seeds: Sequence[int]) -> None:
    """The same with workload Pods, jobs and the hooks server. No Pod is bound where its job is not,
    or beside a Pod whose job is not confirmed. No job ends before its Pods, no Pod before its job.
    Nothing is submitted twice or against a human's cancel. In the end each Pod is bound or says
    why, and has one job (P1-P30, G1-G9, L6-L7, F2).
    """
    run_histories(seeds, kind=WorkloadHistory)


@each
def test_every_history_with_rules_about_other_pods_keeps_all_promises_P8(
    seeds: Sequence[int],
) -> None:
    """The same with ports, affinity between Pods and topology spread. Pods of others come and go,
    and labels of Pods and Nodes change. No Pod is bound beside one that a rule of the two forbids.
    """
    run_histories(seeds, kind=RuledHistory)


@each
def test_every_history_with_volumes_keeps_all_promises_P8(seeds: Sequence[int]) -> None:
    """The same with claims that get their volumes where the job runs, while people change claims,
    volumes and classes, and a provisioner gives up. No Pod is bound before its claims, or where
    its volumes are out of reach. In the end no claim names the job of a Pod that went elsewhere.
    """
    run_histories(seeds, kind=VolumeHistory)


@each
def test_every_history_with_locks_keeps_all_promises_L1_L2_L3_L4(seeds: Sequence[int]) -> None:
    """As the first while prologs ask for locks, Pods of others come and go, and people change
    taints. No Node counts as locked without a listing of its Pods that began after the taint, and
    no lock is taken away from a job or a caller. In the end no lock is left on an idle host.
    """
    run_histories(seeds, kind=LockHistory)


@each
def test_every_history_with_packing_keeps_all_promises_W1_W2_W3_W4(seeds: Sequence[int]) -> None:
    """As the first while jobs come and go, and people and reconfigures set weights. No packed
    weight is written without --pack, and no own weight is lost. In the end each host with a Node
    has the weight of its use, or its own one.
    """
    run_histories(seeds, kind=PackingHistory)


@each
def test_every_history_with_node_sets_keeps_all_promises(seeds: Sequence[int]) -> None:
    """The same with NodeSets whose Pods sunk-sync makes and ends, while people change them, delete
    Pods by hand and drain nodes, and Slurm loses records. No job is lost by a deletion of a drained
    Pod, and no record goes under a living one. In the end each NodeSet has its Pods, each with its
    own record of the right shape, and no record is left over (N1-N25).
    """
    run_histories(seeds, kind=NodeSetHistory)
