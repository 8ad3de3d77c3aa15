"""Rows S0 to S12 with the real servers: what Kubernetes requires of Slurm."""

from collections.abc import Callable

import pytest

from tests.real.conftest import Serve, with_settings
from tests.real.service import Service
from tests.real.stage import Host, Stage, eventually, stays

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("service")]

CORDONED = "k8s: node cordoned"
POD_CORDONED = "k8s: pod cordoned"
UNSEEN = {"slurm_poll_interval": "120s"}
"""Changes in Slurm are visible only in the read before the write."""
unseen = with_settings(**UNSEEN)


@unseen
def test_a_human_drain_seen_only_by_the_last_read_is_kept_S0(service: Service, host: Host) -> None:
    host.update(state="drain", reason="fan broken")
    theirs = host.drain
    host.cordon()
    eventually(lambda: service.writes("drain", slurm_node=host.name, outcome="refused"), "refused")
    assert stays(lambda: host.drain == theirs, for_s=0.5)


@unseen
def test_an_empty_reason_seen_only_by_the_last_read_is_kept_S0(host: Host) -> None:
    host.bed.slurm.update_slurm_node(host.name, state=["DRAIN"])
    theirs = host.drain
    assert theirs[:2] == (True, "")
    host.cordon()
    assert stays(lambda: host.drain == theirs)


@unseen
def test_a_lift_reads_the_node_again_S0(host: Host) -> None:
    host.cordon()
    host.until_drained(CORDONED)
    host.update(reason="mine now")
    host.uncordon()
    assert stays(lambda: host.drained_as("mine now"))


@unseen
def test_a_node_that_went_down_since_the_last_poll_keeps_its_reason_S0(host: Host) -> None:
    host.update(state="down", reason="psu burnt")
    host.cordon()
    assert stays(lambda: "DOWN" in host.state and host.reason == "psu burnt")
    assert "DRAIN" not in host.state


@pytest.mark.parametrize(
    "annotation", ["node.coreweave.cloud/cordonReason", "sunk.coreweave.com/cordon-reason"]
)
def test_the_reason_contains_the_text_of_the_cordon_S1(host: Host, annotation: str) -> None:
    host.bed.kube.annotate_node(host.name, {annotation: "rack 7 moves"})
    host.cordon()
    host.until_drained("k8s: node cordoned: rack 7 moves")
    host.bed.kube.annotate_node(host.name, {annotation: "rack 8 moves"})
    host.until_drained("k8s: node cordoned: rack 8 moves")


def test_kubectl_cordon_drains_the_node_S1(host: Host, service: Service) -> None:
    host.bed.kube.kubectl("cordon", host.name)
    host.until_drained(CORDONED)
    eventually(lambda: service.writes("drain", slurm_node=host.name), "the line of the log")
    (line,) = service.writes("drain", slurm_node=host.name)
    assert line["because"].startswith(f"drained: Node {host.name} is cordoned")
    assert host.slurm["reason_set_by_user"] == "root"
    host.bed.kube.kubectl("uncordon", host.name)
    host.until_free()


def test_the_end_of_the_last_cause_lifts_the_drain_S2(host: Host) -> None:
    """24.11 keeps the text at an UNDRAIN, so the text then says that the drain is lifted."""
    host.cordon()
    host.until_drained(CORDONED)
    host.uncordon()
    host.until_free()
    old = host.bed.slurm.version == "24.11"
    assert host.reason == ("lifted, was k8s: node cordoned" if old else "")
    assert host.state - {"NOT_RESPONDING"} == {"IDLE"}


def test_the_end_of_one_of_two_causes_lifts_nothing_S2(host: Host) -> None:
    host.cordon()
    host.annotate_pod(cordon="yes")
    host.until_drained(CORDONED)
    host.uncordon()
    host.until_drained(POD_CORDONED)
    host.annotate_pod(cordon=None)
    host.until_free()


def test_our_text_on_a_node_without_drain_is_rewritten_S2(host: Host) -> None:
    """26.05 drops a reason on a node that is neither drained nor down."""
    host.update(reason="k8s: left behind")
    old = host.bed.slurm.version == "24.11"
    host.until(lambda: host.reason == ("lifted, was k8s: left behind" if old else ""))
    assert "DRAIN" not in host.state


def test_a_cordoned_pod_is_drained_until_the_annotation_is_removed_S3(host: Host) -> None:
    for value in ("false", ""):
        host.annotate_pod(cordon=value)
        assert stays(lambda: "DRAIN" not in host.state, for_s=0.4)
    host.annotate_pod(cordon="true")
    host.until_drained(POD_CORDONED)
    host.annotate_pod(cordon="false")
    host.until_free()


@pytest.mark.parametrize(("kind", "grace_s"), [("pod", 0.7), ("node", 1.5)])
def test_a_pod_or_node_not_ready_for_longer_than_the_grace_period_is_drained_S4_S8(
    host: Host, kind: str, grace_s: float
) -> None:
    set_ready = {"pod": host.set_pod_ready, "node": host.set_node_ready}[kind]
    set_ready(ready=False)
    assert stays(lambda: "DRAIN" not in host.state, for_s=grace_s)
    host.until_drained(f"k8s: {kind} not ready")
    set_ready(ready=True)
    host.until_free()


def test_a_pod_not_ready_for_less_than_the_grace_period_is_not_drained_S4(host: Host) -> None:
    host.set_pod_ready(ready=False)
    assert stays(lambda: "DRAIN" not in host.state, for_s=0.5)
    host.set_pod_ready(ready=True)
    assert stays(lambda: "DRAIN" not in host.state, for_s=1.2)


def test_the_drain_for_a_terminating_pod_stays_after_its_end_S5_S7(host: Host) -> None:
    host.until(lambda: host.mark)
    host.delete_pod(slowly=True)
    host.until_drained("k8s: pod terminating")
    host.let_pod_end()
    host.until_drained("k8s: pod terminated")
    host.create_pod()
    host.until_free()
    host.until(lambda: host.mark and host.mark["uid"] == host.pod["metadata"]["uid"])


def test_a_pod_pending_deletion_is_marked_when_its_node_is_drained_and_idle_S6(
    host: Host, service: Service
) -> None:
    job = host.run_job(script="trap '' TERM; for i in $(seq 600); do sleep 1; done")
    host.annotate_pod(pending_deletion="scale-down")
    host.until_drained("k8s: pod pending deletion: scale-down")
    assert stays(lambda: host.annotation("drained")[0] is None, for_s=0.7)
    assert not host.state.isdisjoint({"ALLOCATED", "MIXED"})
    host.cancel(job)
    host.until(lambda: "COMPLETING" in host.state)
    seen = set[tuple[bool, str | None]]()

    def is_marked() -> bool:
        row, drained = host.state, host.annotation("drained")[0]
        seen.add(("COMPLETING" in row and "COMPLETING" in host.state, drained))
        return drained == "true"

    host.until(is_marked)
    assert (True, "true") not in seen
    assert "COMPLETING" not in host.state
    assert service.writes("set-metadata", pod=f"slurm/{host.pod_name}", outcome="done")
    host.annotate_pod(pending_deletion=None)
    host.until_free()
    host.until(lambda: host.annotation("drained")[0] is None)


def test_drained_is_removed_after_an_undrain_S6(host: Host) -> None:
    host.annotate_pod(pending_deletion="")
    host.until_drained("k8s: pod pending deletion")
    host.until(lambda: host.annotation("drained")[0] == "true")
    host.update(state="undrain")
    host.until_drained("k8s: pod pending deletion")
    host.until(lambda: host.annotation("drained")[0] == "true")


def test_the_mark_names_a_pod_deleted_before_the_start_S7(
    stage: Stage, serve: Serve, host: Host
) -> None:
    service = serve()
    host.until(lambda: host.mark)
    service.kill9()
    host.delete_pod()
    pods = ("get", "pods", "-n", "slurm", "-o", "name")
    host.until(lambda: host.pod_name not in stage.bed.kube.kubectl(*pods))
    assert host.free
    serve()
    host.until_drained("k8s: pod terminated")


def test_a_deleted_node_is_drained_S8(host: Host) -> None:
    host.until(lambda: host.mark)
    host.bed.kube.delete_node(host.name)
    host.until_drained("k8s: node gone")
    host.bed.kube.add_nodes(host.name)
    host.until(lambda: not host.drained_as("k8s: node gone"))


def test_the_first_cause_sets_the_reason_with_one_write_per_change_S9(
    host: Host, service: Service
) -> None:
    host.until(lambda: host.mark)
    steps: list[tuple[Callable[[], None], str]] = [
        (lambda: host.set_pod_ready(ready=False), "k8s: pod not ready"),
        (lambda: host.annotate_pod(cordon="1"), POD_CORDONED),
        (host.cordon, CORDONED),
        (lambda: host.annotate_pod(pending_deletion="update"), "k8s: pod pending deletion: update"),
        (lambda: host.delete_pod(slowly=True), "k8s: pod terminating"),
        (lambda: host.set_node_ready(ready=False), "k8s: node not ready"),
        (lambda: host.set_node_ready(ready=True), "k8s: pod terminating"),
        (host.let_pod_end, "k8s: pod terminated"),
        (host.create_pod, CORDONED),
    ]
    for act, reason in steps:
        act()
        host.until_drained(reason)
    host.uncordon()
    host.until_free()
    service.settle()
    done = service.writes(slurm_node=host.name, outcome="done")
    reasons = [line["reason"] for line in done if line["action"] in ("drain", "undrain")]
    assert reasons == [reason for _, reason in steps] + ["lifted, was k8s: node cordoned"]


def test_a_change_of_a_lower_cause_writes_nothing_S9(host: Host) -> None:
    host.cordon()
    host.until_drained(CORDONED)
    before = host.drain
    host.annotate_pod(cordon="true")
    host.set_pod_ready(ready=False)
    assert stays(lambda: host.drain == before, for_s=1.5)
    host.annotate_pod(cordon=None)
    host.set_pod_ready(ready=True)
    assert stays(lambda: host.drain == before, for_s=0.6)


@pytest.mark.parametrize("how", ["undrain", "resume"])
def test_a_human_undrain_while_the_cause_persists_is_drained_again_S10(
    host: Host, how: str
) -> None:
    host.cordon()
    host.until_drained(CORDONED)
    before = host.drain
    host.update(state=how)
    host.until(lambda: host.drained_as(CORDONED) and host.drain[2] >= before[2])


def test_a_human_drain_is_untouched_while_causes_come_and_go_S11(host: Host) -> None:
    host.update(state="drain", reason="fan broken")
    host.until(lambda: host.node_conditions.get("Cordon") == "True")
    theirs = host.drain
    host.cordon(reason="rack 7")
    host.annotate_pod(cordon="true")
    assert stays(lambda: host.drain == theirs)
    host.uncordon()
    host.annotate_pod(cordon=None)
    assert stays(lambda: host.drain == theirs)
    host.update(state="undrain")
    assert stays(lambda: host.free, for_s=0.5)


def test_our_drain_with_a_changed_reason_is_foreign_S12(host: Host) -> None:
    host.cordon()
    host.until_drained(CORDONED)
    host.update(reason="keep it: bad DIMM")
    host.until(lambda: host.node_conditions.get("Cordon") == "True")
    theirs = host.drain
    host.uncordon()
    assert stays(lambda: host.drain == theirs)


def test_a_node_that_an_autoscaler_is_about_to_remove_is_drained_S21(host: Host) -> None:
    kube, key = host.bed.kube, "ToBeDeletedByClusterAutoscaler"
    kube.taint_node(host.name, "nvidia.com/gpu")
    assert stays(lambda: host.free)
    kube.taint_node(host.name, key)
    host.until_drained(f"k8s: node tainted: {key}")
    kube.taint_node(host.name, key, on=False)
    host.until_free()


@with_settings(drain_conditions="KernelDeadlock")
def test_a_node_with_a_condition_of_others_is_drained_S21(host: Host) -> None:
    host.bed.kube.set_node_condition(host.name, "KernelDeadlock", "True")
    host.until(lambda: host.reason.startswith("k8s: node condition: KernelDeadlock=True"))
    host.bed.kube.set_node_condition(host.name, "KernelDeadlock", "False")
    host.until_free()
