"""L5: without any flag the tokens of running placeholders survive a restart of sunk-sync.

The manifests bring the Secret with the key empty. `-rP` shows the measured seconds.
"""

import base64
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.real.conftest import check_health
from tests.real.service import NAMESPACE, Service, install
from tests.real.stage import Host
from tests.real.testbed import Bed
from tests.real.testbed.kube import REPOSITORY
from tests.real.testbed.rest import RestError
from tests.real.workloads import KILL_WAIT_S, Load, PodStage

STAGE_HOSTS = 16
pytestmark = pytest.mark.real

SECRET = "sunk-sync-slurm-hooks-key"
ROLE = "sunk-sync-hooks-key"
HOOKS_KEY = REPOSITORY / "deploy" / "manifests" / "hooks-key.yaml"
SOON_S = 2.0
NOT_KEPT = "hooks key is not kept"


class Key:
    """The Secret with the key, as an administrator sees and changes it."""

    def __init__(self, bed: Bed, *, namespace: str = NAMESPACE, name: str = SECRET) -> None:
        self._bed = bed
        self._path = f"/api/v1/namespaces/{namespace}/secrets"
        self._name = name

    def read(self) -> str | None:
        """Empty: the Secret holds none; None: there is no Secret."""
        listed = self._bed.kube.rest.call("GET", self._path)["items"]
        found: Any = {one["metadata"]["name"]: one for one in listed}.get(self._name)
        if found is None:
            return None
        return base64.b64decode((found.get("data") or {}).get("key", "")).decode()

    def delete(self) -> None:
        with suppress(RestError):
            self._bed.kube.rest.call("DELETE", f"{self._path}/{self._name}")


def without_flag(pods: PodStage, **flags: str) -> Service:
    """Return the service as the manifests run it, without --hooks-key-file."""
    pods.quit()
    settings = pods.settings(flags)
    del settings["hooks_key_file"]
    return Service(pods.bed, **settings)


@pytest.fixture
def key(pods: PodStage) -> Iterator[Key]:
    """The Secret as the manifests bring it, before and after."""
    key = Key(pods.bed)
    key.delete()
    install(pods.bed)
    assert key.read() == ""
    yield key
    install(pods.bed)


def seconds_until_released(load: Load, host: Host) -> float:
    """From the moment in which the Pod is gone until its host is free of its job."""
    load.until(lambda: load.live and load.live[0]["job_state"] == ["RUNNING"])
    load.delete(now=True)
    load.until(lambda: load.gone)
    gone_s = time.monotonic()
    load.until(load.ended, within_s=KILL_WAIT_S + 10)
    host.until(lambda: "COMPLETING" not in host.state)
    took_s = time.monotonic() - gone_s
    print(f"host released {took_s:.2f} s after its Pod was gone")
    return took_s


def test_after_a_restart_a_running_placeholder_releases_its_host_at_once_L5(
    pods: PodStage, key: Key, host: Host
) -> None:
    with without_flag(pods) as service:
        made = key.read()
        assert made
        load = pods.load(host)
        load.until_bound()
        since = service.mark()
        service.restart()
        assert key.read() == made
        assert seconds_until_released(load, host) < SOON_S
        assert service.lines("hook refused: no valid token", since=since) == []
        assert service.lines(NOT_KEPT) == []
        assert made not in service.log_file.read_text()
        check_health(service, since=0)


def test_applying_the_manifests_again_keeps_the_key_L5(pods: PodStage, key: Key) -> None:
    with without_flag(pods):
        made = key.read()
    assert made
    install(pods.bed)
    assert key.read() == made
    pods.bed.kube.kubectl("apply", "--server-side", "--force-conflicts", "-f", HOOKS_KEY)
    assert key.read() == made


def test_without_any_right_on_the_secret_the_log_says_what_to_do_L5(
    pods: PodStage, key: Key, host: Host
) -> None:
    """The service runs, but after a restart the host waits for KillWait."""
    kubectl = pods.bed.kube.kubectl
    kubectl("delete", "rolebinding", "-n", NAMESPACE, ROLE)
    with without_flag(pods) as service:
        (line,) = service.lines(NOT_KEPT)
        assert line["level"] == "warning"
        assert "forbidden" in line["why"]
        assert f"create secret generic {SECRET}" in line["cure"]
        assert key.read() == ""
        load = pods.load(host)
        load.until_bound()
        service.restart()
        assert seconds_until_released(load, host) > KILL_WAIT_S - 1


def test_a_missing_secret_is_not_made_and_the_cure_cures_L5(pods: PodStage, key: Key) -> None:
    """RBAC cannot limit `create` to one name, so our account may create no Secret."""
    kube = pods.bed.kube
    key.delete()
    with without_flag(pods) as service:
        (line,) = service.lines(NOT_KEPT)
        assert key.read() is None
        command = line["cure"].partition(";")[0]
        kube.kubectl(*command.split()[1:])
        service.restart()
        assert key.read()
        assert service.lines(NOT_KEPT, since=service.begun) == []


def test_who_may_make_secrets_needs_no_manifests_L5(pods: PodStage) -> None:
    """Outside a cluster the Secret is in the namespace of the kubeconfig's context."""
    bed = pods.bed
    found = Key(bed, namespace="default", name="sunk-sync-abroad-hooks-key")
    assert found.read() is None
    flags = {"kubeconfig": str(bed.kube.admin_kubeconfig), "cluster_name": "Abroad"}
    with without_flag(pods, **flags) as service:
        made = found.read()
        assert made
        service.restart()
        assert found.read() == made
        assert service.lines(NOT_KEPT) == []
    found.delete()


def test_a_key_file_wins_L5(pods: PodStage, key: Key, tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("0123456789abcdef")
    service = pods.serve(hooks_key_file=str(file))
    assert service.lines("hooks key") == []
    assert service.lines(NOT_KEPT) == []
    assert key.read() == ""
