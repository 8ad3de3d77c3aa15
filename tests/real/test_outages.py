"""How soon a Pod that waits is bound once slurmrestd is back (F2, F4), on both Slurms.

`-rP` shows the measured seconds.
"""

import time
from collections.abc import Iterator

import pytest

from tests.real.conftest import Serve
from tests.real.gateway import Gateway, Loss
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
DEFAULT = {"slurm_poll_interval": f"{POLL_S:g}s"}


@pytest.fixture
def gateway(pods: PodStage) -> Iterator[Gateway]:
    with Gateway(pods.bed.slurm.url) as made:
        yield made


def warm_up(pods: PodStage, host: Host) -> None:
    """Bind and delete a Pod, so that the service is not new to Slurm."""
    first = pods.load(host)
    first.until_bound()
    first.delete(now=True)
    first.until(first.ended)


def seconds_until_bound(load: Load, *, since_s: float, within_s: float) -> float:
    """Return the seconds from `since_s` to its binding; it must have one job only."""
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
    schedule(**DEFAULT)
    warm_up(pods, host)
    pods.bed.slurm.stop_slurmrestd()
    load = pods.load(host)
    time.sleep(40)
    pods.bed.slurm.start_slurmrestd()
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


def lose_one(gateway: Gateway, what: Loss, pods: PodStage, host: Host) -> tuple[Load, float]:
    """Create a Pod and lose its first submission; return the Pod and the time of the loss."""
    lost_s: list[float] = []

    def lose(method: str, path: str) -> Loss:
        if method != "POST" or not path.endswith("job/submit") or lost_s:
            return ""
        lost_s.append(time.monotonic())
        return what

    gateway.lose = lose
    load = pods.load(host)
    eventually(lambda: lost_s, f"lost: {what}")
    return load, lost_s[0]


def test_a_submission_whose_answer_the_proxy_lost_is_found_F2(
    pods: PodStage, schedule: Serve, gateway: Gateway, host: Host
) -> None:
    schedule(slurm_api_base=gateway.url, **DEFAULT)
    warm_up(pods, host)
    load, lost_s = lose_one(gateway, "answer", pods, host)
    assert seconds_until_bound(load, since_s=lost_s, within_s=30) < SOON_S + POLL_S


def test_a_submission_that_the_proxy_lost_is_made_again_when_it_can_no_longer_arrive_F2(
    pods: PodStage, schedule: Serve, gateway: Gateway, host: Host
) -> None:
    """A 502 does not show whether slurmrestd has the request (decision 26)."""
    schedule(slurm_api_base=gateway.url, **DEFAULT)
    warm_up(pods, host)
    load, lost_s = lose_one(gateway, "request", pods, host)
    took_s = seconds_until_bound(load, since_s=lost_s, within_s=30)
    assert SETTLED_S < took_s < SETTLED_S + POLL_S + SOON_S
