"""Rows M1 to M8 and F11 with the real servers: what Kubernetes shows of Slurm.

`Unknown` of M2, after a minute without Slurm, is in test_faults.py.
"""

import json
import re
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from tests.real.churn import camel
from tests.real.conftest import Serve, with_settings
from tests.real.service import NAMESPACE, Service
from tests.real.stage import PREFIX, Host, Stage, eventually, stays
from tests.real.testbed.kube_objects import Object, conditions, status_of

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("service")]

CORDONED = "k8s: node cordoned"
BASES = ("ALLOCATED", "DOWN", "ERROR", "FUTURE", "IDLE", "MIXED", "UNKNOWN")
FLAGS = {"COMPLETING", "DRAIN", "FAIL", "INVALID_REG", "MAINTENANCE", "NOT_RESPONDING", "PLANNED",
         "RESERVED", "REBOOT_REQUESTED"}  # fmt: skip


def shown(state: set[str]) -> set[str]:
    """Return the conditions of M1 for the states in these tests."""
    base = next(name for name in BASES if name in state)
    return {camel(base), *map(camel, FLAGS & state)}


def until_shown(host: Host, *states: str) -> None:
    """Wait until slurmctld has these states and the Pod exactly the conditions for them."""
    host.until(lambda: set(states) <= host.state)
    host.until(lambda: set(states) <= host.state and set(host.pod_states) == shown(host.state))
    assert {one["status"] for one in host.pod_states.values()} <= {"True"}


def test_the_pod_shows_all_states_of_a_real_job_M1(host: Host) -> None:
    until_shown(host, "IDLE")
    first = host.run_job("-c", "4", "--mem=100", script="trap '' TERM; while :; do sleep 1; done")
    until_shown(host, "MIXED")
    host.until(lambda: host.node_conditions["Running"] == "True")
    second = host.run_job("-c", "12", "--mem=100")
    until_shown(host, "ALLOCATED")
    host.update(state="drain", reason="soon")
    until_shown(host, "ALLOCATED", "DRAIN")
    host.cancel(second)
    until_shown(host, "MIXED", "DRAIN")
    host.cancel(first)
    until_shown(host, "COMPLETING", "DRAIN")
    until_shown(host, "IDLE", "DRAIN")
    host.until(lambda: "COMPLETING" not in host.state and "Completing" not in host.pod_states)
    host.until(lambda: host.node_conditions["Running"] == "False")


def test_the_message_is_slurms_reason_and_ended_conditions_are_removed_M1(host: Host) -> None:
    host.set_pod_condition("example.com/Healthy", "True")
    before = others(host.pod)
    host.update(state="drain", reason="fan 3 broken")
    host.until(lambda: host.pod_states.keys() == {"Idle", "Drain"})
    assert {one.get("message") for one in host.pod_states.values()} == {"fan 3 broken"}
    assert all(one["reason"] for one in host.pod_states.values())
    host.update(state="undrain")
    host.until(lambda: set(host.pod_states) == {"Idle"})
    assert others(host.pod) == before
    assert "example.com/Healthy" in before
    managers = {one["manager"] for one in host.pod["metadata"]["managedFields"]}
    assert "sunk-sync-mirror" in managers


def others(pod: Object) -> Object:
    """Return the conditions that are not ours."""
    ours = "SlurmNodeState"
    return {kind: one for kind, one in conditions(pod).items() if not kind.startswith(ours)}


def test_the_pod_shows_a_maintenance_reservation_M1(host: Host) -> None:
    """slurmctld reports MAINTENANCE seconds after RESERVED."""
    scontrol = host.bed.slurm.scontrol
    words = ["starttime=now", "duration=60", f"nodes={host.name}", "flags=maint,ignore_jobs"]
    scontrol("create", "reservation", f"reservationname=r-{host.name}", *words, "users=root")
    try:
        host.until(lambda: host.state & {"RESERVED", "MAINTENANCE"}, within_s=20)
        host.until(lambda: set(host.pod_states) == shown(host.state))
        assert set(host.pod_states) & {"Reserved", "Maintenance"}
    finally:
        scontrol("delete", f"reservationname=r-{host.name}")


def test_at_most_one_write_a_second_and_the_latest_state_wins_M1(host: Host) -> None:
    host.until(lambda: set(host.pod_states) == {"Idle"})
    seconds = 4
    seen: list[Object] = []
    pods = host.bed.kube.rest.call("GET", f"/api/v1/namespaces/{NAMESPACE}/pods?limit=1")
    version = pods["metadata"]["resourceVersion"]  # the Pod's own can be too old for a watch
    watching = threading.Thread(target=lambda: seen.extend(_watch(host, version, seconds + 2)))
    watching.start()
    end = time.monotonic() + seconds
    flaps = 0
    while time.monotonic() < end:
        host.update(state="drain", reason=f"flap {flaps}")
        host.update(state="undrain")
        flaps += 1
    host.update(state="drain", reason="the last")
    host.until(lambda: {one.get("message") for one in host.pod_states.values()} == {"the last"})
    watching.join()
    versions = [json.dumps(pod["status"]["conditions"]) for pod in seen]
    changes = 1 + sum(before != after for before, after in pairwise(versions))
    assert flaps > seconds
    assert 3 <= changes <= seconds + 3, changes


def _watch(host: Host, version: str, seconds: int) -> Iterator[Object]:
    query = f"watch=true&resourceVersion={version}&timeoutSeconds={seconds}"
    path = f"/api/v1/namespaces/{NAMESPACE}/pods?fieldSelector=metadata.name={host.pod_name}"
    text = host.bed.kube.rest.call("GET", f"{path}&{query}")
    for line in str(text).splitlines():
        yield json.loads(line)["object"]


def test_the_node_has_four_conditions_M2(host: Host) -> None:
    """SlurmCordon is True only for a drain that did not begin in Kubernetes."""
    quiet = {"Cordon": "False", "Drain": "False", "NotResponding": "False", "Running": "False"}
    host.until(lambda: host.node_conditions == quiet)
    host.cordon()
    host.until(lambda: host.node_conditions == {**quiet, "Drain": "True"})
    host.uncordon()
    host.until(lambda: host.node_conditions["Drain"] == "False")
    host.update(state="drain", reason="fan broken")
    host.until(lambda: host.node_conditions == {**quiet, "Drain": "True", "Cordon": "True"})
    assert status_of(host.node, "Ready") == "True"


def test_the_transition_time_changes_only_with_the_status_M2(host: Host) -> None:
    host.update(state="drain", reason="one")
    host.until(lambda: _condition(host)["message"] == "one")
    before = _condition(host)
    time.sleep(1.1)  # times have whole seconds
    host.update(reason="two")
    host.until(lambda: _condition(host)["message"] == "two")
    after = _condition(host)
    assert after["lastTransitionTime"] == before["lastTransitionTime"]
    host.update(state="undrain")
    host.until(lambda: _condition(host)["status"] == "False")
    assert _condition(host)["lastTransitionTime"] > before["lastTransitionTime"]


def _condition(host: Host) -> dict[str, str]:
    return {"message": "", **conditions(host.node).get("SlurmDrain", {})}


def test_pod_and_node_show_the_drain_reason_M3(host: Host) -> None:
    host.cordon()
    host.until(lambda: host.annotation("drain") == (CORDONED, CORDONED))
    host.update(reason="mine now")
    host.until(lambda: host.annotation("drain") == ("mine now", "mine now"))
    host.uncordon()
    host.update(state="undrain")
    host.until(lambda: host.annotation("drain") == (None, None))


def test_labels_name_the_pod_of_a_node_M4(host: Host) -> None:
    wanted = {"cluster": "slurm", "namespace": "slurm", "pod": host.pod_name}
    host.until(lambda: _labels(host) == wanted)
    label = {"metadata": {"labels": {f"{PREFIX}nodeset": "gpu-h100"}}}
    host.bed.kube.patch_pod(host.pod_name, NAMESPACE, label)
    host.until(lambda: _labels(host) == {**wanted, "nodeset": "gpu-h100"})
    host.delete_pod()
    host.until(lambda: _labels(host) == {"cluster": "slurm"})
    assert host.node["metadata"]["labels"]["kubernetes.io/hostname"] == host.name


def _labels(host: Host) -> dict[str, str]:
    labels = host.node["metadata"]["labels"]
    return {k.removeprefix(PREFIX): v for k, v in labels.items() if k.startswith(PREFIX)}


@with_settings(slurm_poll_interval="1s")
def test_without_a_change_nothing_is_written_M5(stage: Stage, service: Service) -> None:
    begun_s = time.monotonic()
    before, written = _server_side(stage), service.write_count()
    time.sleep(5)
    after = _server_side(stage)
    spent_s = time.monotonic() - begun_s
    assert service.write_count() == written
    for name in ("objects", "slurm_nodes", "applied", "updates"):
        assert after[name] == before[name], name
    assert 3 <= after["polls"] - before["polls"] - 1 <= spent_s + 1


def _server_side(stage: Stage) -> dict[str, Any]:
    """Return the writes and slurmctld's requests as the servers count them.

    This function reads the nodes itself: slurmctld counts one more listing.
    """
    rest, slurm = stage.bed.kube.rest, stage.bed.slurm
    rows = slurm.slurm_nodes()
    calls = slurm.run_in_root("sdiag")
    metrics = str(rest.call("GET", "/metrics"))
    applied = re.findall(r'^apiserver_request_total\{.*verb="APPLY".*\} (\d+)', metrics, re.M)
    return {
        "objects": stage.bed.kube.resource_versions(NAMESPACE),
        "slurm_nodes": [(row["name"], row["state"], row["reason"], row["comment"]) for row in rows],
        "applied": sum(map(int, applied)),
        "updates": _count(calls, "REQUEST_UPDATE_NODE"),
        "polls": _count(calls, "REQUEST_NODE_INFO") + _count(calls, "REQUEST_NODE_INFO_SINGLE"),
    }


def _count(sdiag: str, call: str) -> int:
    found = re.search(rf"^\s*{call}\s+\(.*count:(\d+)", sdiag, re.M)
    return int(found[1]) if found else 0


def test_conditions_and_labels_of_a_removed_slurm_node_are_removed_M6(host: Host) -> None:
    """State FUTURE removes a node from every listing."""
    host.cordon()
    host.until(lambda: host.annotation("drain") == (CORDONED, CORDONED))
    host.until(lambda: len(host.node_conditions) == 4 and host.pod_states)
    ready = others(host.pod)
    host.update(state="future")
    host.until(lambda: host.annotation("drain") == (None, None))
    eventually(lambda: not host.node_conditions, "the Node's conditions gone")
    eventually(lambda: not host.pod_states, "the Pod's conditions gone")
    eventually(lambda: not _labels(host), "the labels gone")
    assert others(host.pod) == ready
    assert list(conditions(host.node)) == ["Ready"]


class TestCordonOnSlurmDrain:
    pytestmark = with_settings(cordon_on_slurm_drain="true")

    def test_a_drain_in_slurm_cordons_and_its_end_uncordons_M7(self, host: Host) -> None:
        host.update(state="drain", reason="fan broken")
        theirs = host.drain
        host.until(lambda: host.cordoned)
        assert host.annotation("cordoned-for-drain")[1]
        assert stays(lambda: host.drain == theirs)
        host.update(state="undrain")
        host.until(lambda: not host.cordoned)
        assert host.annotation("cordoned-for-drain")[1] is None
        assert stays(lambda: host.free and not host.cordoned, for_s=0.6)

    def test_a_humans_own_cordon_is_not_lifted_M7(self, host: Host) -> None:
        host.update(state="drain", reason="fan broken")
        host.cordon()
        host.until(lambda: host.node_conditions["Cordon"] == "True")
        host.update(state="undrain")
        host.until_drained(CORDONED)
        assert host.cordoned

    def test_keep_cordon_keeps_it_M7(self, host: Host) -> None:
        host.update(state="drain", reason="fan broken")
        host.until(lambda: host.cordoned)
        host.annotate_node(keep_cordon="true")
        host.update(state="undrain")
        assert stays(lambda: host.cordoned)
        host.annotate_node(keep_cordon=None)
        host.until(lambda: not host.cordoned)

    def test_our_own_drain_cordons_nothing_M7(self, host: Host) -> None:
        host.annotate_pod(cordon="true")
        host.until_drained("k8s: pod cordoned")
        assert stays(lambda: not host.cordoned)


def test_the_cordon_is_off_by_default_M7(host: Host) -> None:
    host.update(state="drain", reason="fan broken")
    host.until(lambda: host.node_conditions["Cordon"] == "True")
    assert stays(lambda: not host.cordoned)


def test_the_mark_names_node_and_pod_M8(stage: Stage, host: Host) -> None:
    host.until(lambda: host.mark)
    cluster = stage.bed.kube.rest.call("GET", "/api/v1/namespaces/kube-system")["metadata"]["uid"]
    assert host.mark == {
        "cluster": cluster,
        "node": host.name,
        "namespace": NAMESPACE,
        "pod": host.pod_name,
        "uid": host.pod["metadata"]["uid"],
    }


def test_a_foreign_comment_stays_and_drains_still_work_M8(host: Host) -> None:
    host.update(comment="rack 7, ask Ann")
    assert stays(lambda: host.comment == "rack 7, ask Ann", for_s=0.6)
    host.delete_pod()
    host.until_drained("k8s: pod terminated")
    assert host.comment == "rack 7, ask Ann"


def test_with_a_foreign_comment_a_restart_forgets_the_pod_M8(
    stage: Stage, serve: Serve, host: Host
) -> None:
    """Nothing names the Pod then, so nothing is drained for it (S18)."""
    stage.quit()
    host.update(comment="ask Ann")
    host.delete_pod()
    host.bed.kube.delete_node(host.name)
    serve()
    assert stays(lambda: "DRAIN" not in host.state and host.comment == "ask Ann")


def test_marks_removed_by_a_reconfigure_are_written_again_M8_F11(stage: Stage, host: Host) -> None:
    host.until(lambda: host.mark)
    host.cordon()
    host.until_drained(CORDONED)
    theirs = stage.take()
    theirs.update(state="drain", reason="fan broken")
    mark = host.mark
    stage.bed.slurm.reconfigure()
    host.until(lambda: host.mark == mark)
    theirs.until(lambda: theirs.mark)
    assert host.drained_as(CORDONED)
    assert theirs.drained_as("fan broken")
