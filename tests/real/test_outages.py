"""How soon a Pod that waits is bound once slurmrestd is back (F2, F4), on both Slurms.

`-rP` shows the measured seconds.
"""

import threading
import time
from collections.abc import Iterator

import pytest

from tests.real.conftest import Serve
from tests.real.gateway import Gateway
from tests.real.stage import Host, eventually
from tests.real.workloads import Load, PodStage

pytestmark = pytest.mark.real

AWAY_S = 5.0
SOON_S = 2.0
"""One poll, one submission, one round of Slurm's scheduler, the start of a script."""
SETTLED_S = 12.0
"""MessageTimeout and two seconds: so long a request whose answer is lost may still be carried out.
"""
POLL_S = 1.0
SUBMIT = "job/submit"
DEFAULT = {"slurm_poll_interval": f"{POLL_S:g}s"}


@pytest.fixture
def gateway(pods: PodStage) -> Iterator[Gateway]:
    """A proxy before slurmrestd."""
    with Gateway(pods.bed.slurm.url) as made:
        yield made


@pytest.fixture
def host(pods: PodStage) -> Host:
    """A machine that no other test has used."""
    return pods.take()


def warm_up(pods: PodStage, host: Host) -> None:
    """A Pod of the same service is bound: it runs as it does every day."""
    first = pods.load(host)
    first.until_bound()
    first.delete(now=True)
    first.until(first.ended)


def seconds_until_bound(load: Load, *, since_s: float, within_s: float) -> float:
    """From `since_s` on; and it has one job only."""
    load.until(lambda: load.node, within_s=within_s)
    took_s = time.monotonic() - since_s
    print(f"bound {took_s:.2f} s after slurmrestd was back")
    assert len(load.jobs) == 1
    return took_s


@pytest.mark.parametrize("created_s", [0.0, 3.0], ids=["at once", "later"])
@pytest.mark.parametrize("way", ["refused", "502"])
def test_a_pod_created_while_slurmrestd_is_away_is_bound_soon_after_F2_F4(
    pods: PodStage, schedule: Serve, gateway: Gateway, host: Host, *, way: str, created_s: float
) -> None:
    """Created before or after a poll has met the outage."""
    slurm = pods.bed.slurm
    schedule(slurm_api_base=gateway.url if way == "502" else slurm.url, **DEFAULT)
    warm_up(pods, host)
    slurm.stop_slurmrestd()
    time.sleep(created_s)
    load = pods.load(host)
    time.sleep(AWAY_S - created_s)
    slurm.start_slurmrestd()
    back_s = time.monotonic()
    assert seconds_until_bound(load, since_s=back_s, within_s=30) < SOON_S


def test_after_a_long_outage_a_pod_is_bound_soon_F2_F4(
    pods: PodStage, schedule: Serve, host: Host
) -> None:
    """No back-off has grown meanwhile, of readers or of writers."""
    slurm = pods.bed.slurm
    schedule(**DEFAULT)
    warm_up(pods, host)
    slurm.stop_slurmrestd()
    load = pods.load(host)
    time.sleep(40)
    slurm.start_slurmrestd()
    assert seconds_until_bound(load, since_s=time.monotonic(), within_s=30) < SOON_S


def test_a_pod_created_while_slurmctld_is_away_is_bound_soon_after_F2_F4(
    pods: PodStage, schedule: Serve, host: Host
) -> None:
    """slurmrestd reports that it reached no slurmctld (1800)."""
    slurm = pods.bed.slurm
    schedule(**DEFAULT)
    warm_up(pods, host)
    slurm.stop_slurmctld()
    load = pods.load(host)
    time.sleep(AWAY_S)
    slurm.start_slurmctld()
    started_s = time.monotonic()
    host.until(lambda: "IDLE" in host.state)
    print(f"its host was idle {time.monotonic() - started_s:.2f} s after slurmctld listened")
    seconds_until_bound(load, since_s=time.monotonic(), within_s=SETTLED_S)


class Losing:
    """Lets the gateway lose the first submission, and says when that was."""

    def __init__(self, gateway: Gateway, what: str) -> None:
        self.lost_s = 0.0
        self._what = what
        self._lock = threading.Lock()
        gateway.lose = self._lose  # type: ignore[assignment]

    def _lose(self, method: str, path: str) -> str:
        with self._lock:
            if method != "POST" or not path.endswith(SUBMIT) or self.lost_s:
                return ""
            self.lost_s = time.monotonic()
            return self._what


def test_a_submission_whose_answer_the_proxy_lost_is_found_F2(
    pods: PodStage, schedule: Serve, gateway: Gateway, host: Host
) -> None:
    schedule(slurm_api_base=gateway.url, **DEFAULT)
    warm_up(pods, host)
    losing = Losing(gateway, "answer")
    load = pods.load(host)
    eventually(lambda: losing.lost_s, "an answer is lost")
    assert seconds_until_bound(load, since_s=losing.lost_s, within_s=30) < SOON_S + POLL_S


def test_a_submission_that_the_proxy_lost_is_made_again_when_it_can_no_longer_arrive_F2(
    pods: PodStage, schedule: Serve, gateway: Gateway, host: Host
) -> None:
    """A 502 does not show whether slurmrestd has the request (decision 26)."""
    schedule(slurm_api_base=gateway.url, **DEFAULT)
    warm_up(pods, host)
    losing = Losing(gateway, "request")
    load = pods.load(host)
    eventually(lambda: losing.lost_s, "a request is lost")
    took_s = seconds_until_bound(load, since_s=losing.lost_s, within_s=30)
    assert SETTLED_S < took_s < SETTLED_S + POLL_S + SOON_S
