"""`sunk-sync pause` and `resume` on real servers: nothing is written, also after a kill."""

import io

import pytest

from sunk_sync.cli.overview import status
from sunk_sync.cli.pausing import pause, resume
from tests.real.conftest import with_settings
from tests.real.service import Service
from tests.real.stage import Host, Stage, eventually, stays
from tests.real.test_explain import address_of, asked

pytestmark = [pytest.mark.real]


@with_settings(leader_elect="true")
def test_a_pause_holds_writes_survives_a_kill_and_ends_with_resume(
    stage: Stage, service: Service, host: Host
) -> None:
    eventually(lambda: service.lines("writes from now on", since=service.begun), "it leads")
    out = io.StringIO()
    assert pause(address_of(service), for_s=None, why="upgrade of Slurm", out=out) == 0
    assert out.getvalue() == "sunk-sync: paused until resumed: upgrade of Slurm\n"
    host.cordon()
    eventually(lambda: asked(service, "host", host.name)["writes"], "a drain is wanted")
    (write,) = [w for w in asked(service, "host", host.name)["writes"] if "drain:" in w["write"]]
    assert write["state"] == "held back: paused until resumed: upgrade of Slurm"
    assert stays(lambda: not host.drain[0], for_s=1.5)
    assert status(address_of(service), out=io.StringIO()) == 1
    assert service.metric("sunk_sync_paused") == 1
    assert "upgrade of Slurm" in stage.bed.kube.kubectl("get", "events", "-A")
    service.restart()
    eventually(
        lambda: service.metric("sunk_sync_paused") == 1, "paused after the kill", within_s=20
    )
    assert stays(lambda: not host.drain[0], for_s=1.5)
    assert resume(address_of(service), out=io.StringIO()) == 0
    host.until_drained("k8s: node cordoned")
    host.uncordon()
    host.until_free()


@with_settings(leader_elect="true")
def test_a_pause_for_a_time_ends_by_itself(service: Service, host: Host) -> None:
    eventually(lambda: service.lines("writes from now on", since=service.begun), "it leads")
    assert pause(address_of(service), for_s=4.0, why="", out=io.StringIO()) == 0
    host.cordon()
    assert stays(lambda: not host.drain[0], for_s=2)
    host.until_drained("k8s: node cordoned")
    host.uncordon()
    host.until_free()


def test_without_an_election_a_pause_is_refused_with_the_reason(service: Service) -> None:
    errors = io.StringIO()
    assert pause(address_of(service), for_s=None, why="", errors=errors) == 2
    assert "--leader-elect, which is off" in errors.getvalue()
