"""F6: two replicas on real servers. The leader is stopped, killed, paused or cut off.

`SUNK_SYNC_FAILOVERS` repeats each; `SUNK_SYNC_STOPPED_S` is how long a leader stays stopped. Each
figure is printed (`-rP`).
"""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median

import pytest

from tests.real.conftest import for_each_slurm
from tests.real.replicas import Calls, Pair, Replica, Write, call, flipping, hooks_key
from tests.real.service import install
from tests.real.stage import eventually
from tests.real.testbed import Bed, SlurmConf

FAILOVERS = int(os.environ.get("SUNK_SYNC_FAILOVERS", "2"))
STOPPED_S = float(os.environ.get("SUNK_SYNC_STOPPED_S", "20"))
LEASE_S = 6.0
HOSTS = 10
AT_REST_S = 2.0
SLOW_S = 1.0
"""On a busy machine each step of a take-over can take longer."""
LOST_S = 3 * LEASE_S
"""A call that is not answered by then is lost."""

pytestmark = [pytest.mark.real, pytest.mark.timeout(300 + 120 * FAILOVERS)]


@contextmanager
def two_replicas(version: str) -> Iterator[Pair]:
    conf = SlurmConf(slurmds=1, external_nodes=HOSTS)
    with Bed.start(slurm=version, conf=conf) as bed:
        install(bed)
        with Pair(bed) as pair:
            yield pair


pairs = for_each_slurm(two_replicas)


@pytest.fixture
def pair(pairs: Pair) -> Pair:
    """Two running replicas, of which one leads."""
    pairs.revive()
    return pairs


def writes_after(pair: Pair, replica: Replica, at: float) -> list[Write]:
    return [one for one in pair.written_by(replica) if one.at > at]


def gap_at(pair: Pair, harm: Callable[[Replica], None]) -> tuple[float, Replica]:
    """Harm the leader; return the seconds between its last and the other's first write."""
    leader, standby = pair.leader, pair.standby
    with flipping(pair.bed):
        time.sleep(AT_REST_S)
        assert pair.written_by(leader)
        at = time.monotonic()
        harm(leader)
        eventually(lambda: writes_after(pair, standby, at), "the standby writes")
        first = writes_after(pair, standby, at)[0]
        time.sleep(AT_REST_S)
    last = pair.written_by(leader)[-1]
    assert last.at < first.at, f"two wrote: {last}, {first}"
    return first.at - last.at, leader


def spread(seconds: list[float]) -> str:
    return f"p50 {median(seconds):.2f} s, max {max(seconds):.2f} s"


def repeat(pair: Pair, what: str, harm: Callable[[Replica], None]) -> list[float]:
    gaps = []
    with Calls(pair) as calls:
        for _ in range(FAILOVERS):
            gap_s, ended = gap_at(pair, harm)
            gaps.append(gap_s)
            pair.replace(ended)
    report = f"{pair.bed.slurm.version}: {what}: gap in writes {spread(gaps)}"
    waits = f"{calls.begun} gate calls, longest wait {max(calls.waited_s):.2f} s"
    print(f"{report}, {waits}, {calls.begun - len(calls.waited_s)} lost")
    assert len(calls.waited_s) == calls.begun
    assert max(calls.waited_s) < LOST_S
    return gaps


def test_a_stopped_leader_hands_over_at_once_F6_F10(pair: Pair) -> None:
    """SIGTERM: it ends with 0 and releases the Lease."""

    def stop(leader: Replica) -> None:
        leader.service.send(signal.SIGTERM)

    gaps = repeat(pair, "SIGTERM", stop)
    assert max(gaps) < SLOW_S


def test_a_killed_leader_is_replaced_when_its_lease_expires_F6(pair: Pair) -> None:
    gaps = repeat(pair, "SIGKILL", lambda leader: leader.service.kill9())
    assert max(gaps) < LEASE_S + SLOW_S


def test_a_leader_that_was_paused_writes_nothing_after_it_wakes_F6(pair: Pair) -> None:
    """SIGSTOP, as a frozen machine: it notices that its Lease is over, and ends."""

    def pause(leader: Replica) -> None:
        leader.service.send(signal.SIGSTOP)

    gaps = []
    for _ in range(FAILOVERS):
        stopped_s = time.monotonic()
        gap_s, leader = gap_at(pair, pause)
        gaps.append(gap_s)
        time.sleep(max(0.0, stopped_s + STOPPED_S - time.monotonic()))
        woken_s = time.monotonic()
        leader.service.send(signal.SIGCONT)
        assert leader.service.wait_end() == 1
        assert writes_after(pair, leader, woken_s) == []
        assert leader.service.lines("lost the Lease: this process ends")
        pair.replace(leader)
    print(f"{pair.bed.slurm.version}: SIGSTOP: gap in writes {spread(gaps)}")
    assert max(gaps) < LEASE_S + SLOW_S


def test_a_leader_that_is_cut_off_from_the_api_server_gives_way_F6(pair: Pair) -> None:
    """It still reaches Slurm, and must not write there."""
    gaps = repeat(pair, "cut off", lambda leader: leader.to_kube.cut())
    assert max(gaps) < LEASE_S + SLOW_S


def test_a_standby_passes_calls_on_and_says_who_leads_F6(pair: Pair) -> None:
    """It is ready, and its metrics show that it writes nothing."""
    leader, standby = pair.leader, pair.standby
    body = {"job_id": "999999", "nodes": "n1", "deadline_s": 5}
    assert call(standby.hooks_url, hooks_key(pair.bed), "/v1/gate", body) == {"action": "go"}
    asked = {"call": "gate", "outcome": "forwarded"}
    assert standby.service.metric("sunk_sync_hook_calls_total", **asked) >= 1
    status, text = standby.service.readyz_verbose()
    assert status == 200
    assert "this replica stands by; the leader is" in text
    assert "this replica leads" in leader.service.readyz_verbose()[1]
    assert standby.service.write_count() == 0


@pytest.mark.night("it counts for half a minute")
def test_a_standby_asks_slurm_a_tenth_of_what_the_leader_asks_F6(pair: Pair) -> None:
    """Over half a minute without changes."""

    def asked(replica: Replica) -> float:
        return replica.service.metric("rest_client_requests_total", host="slurm")

    leader, standby = pair.leader, pair.standby
    before = asked(leader), asked(standby)
    time.sleep(30)
    ours, theirs = asked(leader) - before[0], asked(standby) - before[1]
    print(f"{pair.bed.slurm.version}: requests to slurmrestd in 30 s: {ours:g} and {theirs:g}")
    assert theirs <= 0.15 * ours
