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

STAGE_HOSTS = 16
pytestmark = pytest.mark.real
NIGHT = pytest.mark.night("one outage of each kind runs with each commit")

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


@pytest.mark.parametrize(
    ("way", "created_s", "away_s"),
    [
        ("refused", 0, 5),
        ("502", 3, 5),
        pytest.param("refused", 3, 5, marks=NIGHT),
        pytest.param("502", 0, 5, marks=NIGHT),
        pytest.param("refused", 0, 40, marks=NIGHT),
    ],
)
def test_a_pod_created_while_slurmrestd_is_away_is_bound_soon_after_F2_F4(
    pods: PodStage,
    gateway: Gateway,
    schedule: Serve,
    host: Host,
    *,
    way: str,
    created_s: float,
    away_s: float,
) -> None:
    """Before or after a poll has met the outage; after 40 s no back-off has grown."""
    slurm = pods.bed.slurm
    schedule(slurm_api_base=gateway.url if way == "502" else slurm.url, **DEFAULT)
    warm_up(pods, host)
    slurm.stop_slurmrestd()
    time.sleep(created_s)
    load = pods.load(host)
    time.sleep(away_s - created_s)
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


@pytest.mark.parametrize(
    ("what", "least_s", "most_s"),
    [("answer", 0.0, SOON_S + POLL_S), ("request", SETTLED_S, SETTLED_S + POLL_S + SOON_S)],
)
def test_a_submission_that_the_proxy_lost_becomes_one_job_F2(
    pods: PodStage,
    gateway: Gateway,
    schedule: Serve,
    host: Host,
    *,
    what: Loss,
    least_s: float,
    most_s: float,
) -> None:
    """The next listing shows a job whose answer was lost. From the 502 for a lost request nobody
    knows that slurmrestd does not have it: it is sent again when it can no longer arrive
    (decision 26).
    """
    schedule(slurm_api_base=gateway.url, **DEFAULT)
    warm_up(pods, host)
    lost_s: list[float] = []

    def lose(method: str, path: str) -> Loss:
        if method != "POST" or not path.endswith("job/submit") or lost_s:
            return ""
        lost_s.append(time.monotonic())
        return what

    gateway.lose = lose
    load = pods.load(host)
    eventually(lambda: lost_s, f"an {what} is lost")
    assert least_s < seconds_until_bound(load, since_s=lost_s[0], within_s=30) < most_s
