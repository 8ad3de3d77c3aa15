"""F1: killed at any moment, the service continues from the state of both systems.

`SUNK_SYNC_KILLS=50` for more kills; the seed is printed.
"""

import os
import random
import time

import pytest

from tests.real.churn import Churn, faults
from tests.real.conftest import check_health, for_each_slurm
from tests.real.service import QUICK, Service, install
from tests.real.stage import Host, eventually
from tests.real.testbed import Bed, SlurmConf

KILLS = int(os.environ.get("SUNK_SYNC_KILLS", "5"))
SEED = int(os.environ.get("SUNK_SYNC_SEED", str(random.randrange(10**6))))
HOSTS = 8
QUIET_S = 1.0
PACED_S = 1.2
"""Conditions of one object are written once a second (M1): longer than that."""

pytestmark = [pytest.mark.real, pytest.mark.timeout(60 + 60 * KILLS)]


own_bed = for_each_slurm(lambda version: Bed.start(slurm=version, conf=SlurmConf(slurmds=HOSTS)))


def test_after_kills_at_random_moments_every_host_converges_F1(own_bed: Bed) -> None:
    """Each cause is drained with its reason; each human's drain is unchanged."""
    print(f"SUNK_SYNC_SEED={SEED} SUNK_SYNC_KILLS={KILLS}")
    moments = random.Random(SEED)
    install(own_bed)
    hosts = [Host(own_bed, name) for name in own_bed.slurm.conf.names]
    churn = Churn(hosts, seed=SEED)
    service = Service(own_bed, **{**QUICK, "not_ready_grace": "500ms"})
    began_s = time.monotonic()
    with service:
        service.settle()  # a host without our mark whose Pod is deleted belongs to nobody (S18)
        for number in range(KILLS):
            kill_once(service, churn, moments)
            print(f"kill {number + 1} at {time.monotonic() - began_s:.0f} s", flush=True)
            until_right(churn, f"kill {number}")
            until_quiet(service, hosts)
            check_health(service, since=service.begun)
    took_s = time.monotonic() - began_s
    print(f"{KILLS} kills, {churn.done} changes, {took_s:.0f} s")
    assert churn.done > 5 * KILLS


def kill_once(service: Service, churn: Churn, moments: random.Random) -> None:
    """Kill the service amid changes; every third time kill it again at its start."""
    churn.begin()
    time.sleep(moments.uniform(0.02, 1.0))
    service.kill9()
    time.sleep(moments.uniform(0.0, 0.4))
    service.start()
    if moments.random() < 1 / 3:
        time.sleep(moments.uniform(0.3, 1.2))
        service.kill9()
        service.start()
    time.sleep(moments.uniform(0.0, 1.0))
    churn.end()
    service.wait_ready()


def until_right(churn: Churn, when: str) -> None:
    def found() -> list[str]:
        humans = churn.humans
        return [one for host in churn.hosts for one in faults(host, humans.get(host.name))]

    try:
        eventually(lambda: not found(), when, within_s=60)
    except AssertionError:
        raise AssertionError(f"{when}: {found()}") from None


def until_quiet(service: Service, hosts: list[Host]) -> None:
    """Check that a second round changes nothing: no write, no newer object, no newer reason."""
    service.settle(quiet_s=PACED_S)
    before, written = snapshot(hosts), service.write_count()
    time.sleep(QUIET_S)
    assert service.write_count() == written, service.writes()[-3:]
    assert snapshot(hosts) == before


def snapshot(hosts: list[Host]) -> dict[str, object]:
    drains = {host.name: host.drain for host in hosts}
    return {"objects": hosts[0].bed.kube.resource_versions("slurm"), "drains": drains}
