"""Rows S1-S18 and S20: when sunk-sync drains a Slurm node, lifts its drain, or leaves it alone."""

import itertools
from typing import Any

import pytest
from msgspec.structs import replace

from sunk_sync.core.model.actions import LOOK_AGAIN_S, Drain, GetObject, RewriteReason, Undrain
from sunk_sync.core.model.facts import Node, Row, SlurmdPod
from sunk_sync.core.model.node_signs import Sign
from sunk_sync.core.model.verdict import QUIET
from sunk_sync.core.rules.host.drain import EXISTS_AGAIN_S, drain
from sunk_sync.core.translate.node_states import FROZEN
from sunk_sync.core.views.host import NO_TRACES
from tests.kit.build import Core, deleted, listing, marked, node, slurm_node, slurmd_pod, source_of

ACTS = (Drain, Undrain, RewriteReason)
CORDONED = "k8s: node cordoned"


def core_of(*, slurm: str = "IDLE", reason: str = "", **fields: Any) -> Core:
    """Make host n1: Node kn1, its slurmd Pod and a Slurm node in this state."""
    rows = [fields.pop("node", node()), fields.pop("pod", slurmd_pod())]
    return Core(*rows, slurm_node("n1", slurm, reason=reason), **fields)


def reasons(core: Core) -> list[str]:
    """Return the reasons of the wanted drains; nothing else of this rule may be wanted."""
    wants = core.wants("n1", *ACTS)
    assert all(isinstance(want, Drain) for want in wants)
    return [want.reason for want in wants]


def lose_pod(core: Core) -> None:
    """S7: the slurmd Pod is deleted, and a read by name does not find it."""
    core.see(deleted("slurmd_pods", slurmd_pod()))
    core.answer(slurmd_pod(), "no")


def lose_node(core: Core) -> None:
    """S8: the Node is deleted, and a read by name does not find it."""
    core.see(deleted("nodes", node()))
    core.answer(node(), "no")


REASONS = {
    "S8": "k8s: node gone",
    "S7": "k8s: pod terminated",
    "S5": "k8s: pod terminating",
    "S6": "k8s: pod pending deletion: roll",
    "S1": "k8s: node cordoned",
    "S3": "k8s: pod cordoned",
    "S4": "k8s: pod not ready",
}
"""In the order of their rank."""
SENTENCES = {
    "S8": "drained: Node kn1 is gone",
    "S7": "drained: Pod slurm/slurmd-n1 is gone",
    "S5": "drained: Pod slurm/slurmd-n1 is terminating",
    "S6": "drained: Pod slurm/slurmd-n1 is to be deleted (roll)",
    "S1": "drained: Node kn1 is cordoned",
    "S3": "drained: Pod slurm/slurmd-n1 is cordoned",
    "S4": "drained: Pod slurm/slurmd-n1 is not ready",
}
OF_POD: dict[str, dict[str, Any]] = {
    "S5": {"terminating": True},
    "S6": {"pending_deletion": "roll"},
    "S3": {"cordon": "true"},
    "S4": {"ready": False},
}


def begin(core: Core, *rows: str) -> None:
    """Make these causes exist, all at once."""
    pod_fields = {name: value for row in rows for name, value in OF_POD.get(row, {}).items()}
    if pod_fields:
        core.see(slurmd_pod(**pod_fields))
    if "S1" in rows:
        core.see(node(unschedulable=True))
    if "S7" in rows:
        lose_pod(core)
    if "S8" in rows:
        lose_node(core)
    core.wait(6)


def end(core: Core) -> None:
    """End every cause."""
    core.see(node(), slurmd_pod())


@pytest.mark.parametrize("row", REASONS)
def test_each_cause_drains_with_its_own_reason_S1_S3_S4_S5_S6_S7_S8(row: str) -> None:
    core = core_of()
    begin(core, row)
    assert reasons(core) == [REASONS[row]]
    assert SENTENCES[row] in core.verdict().because.split("; ")


def possible(pair: tuple[str, str]) -> bool:
    """Return whether both can exist: what is gone has no other state."""
    if "S7" in pair and not {"S7", "S8", "S1"} >= set(pair):
        return False
    return set(pair) != {"S8", "S1"} and set(pair) != {"S7", "S1"}


PAIRS = [pair for pair in itertools.combinations(REASONS, 2) if possible(pair)]


@pytest.mark.parametrize("pair", PAIRS, ids=["+".join(pair) for pair in PAIRS])
def test_of_two_causes_the_first_gives_the_reason_S9(pair: tuple[str, str]) -> None:
    """The order is S8, S7, S5, S6, S1, S3, S4."""
    core = core_of()
    begin(core, *pair)
    assert reasons(core) == [REASONS[pair[0]]]


def test_a_node_that_is_not_ready_ranks_before_its_cordon_S9() -> None:
    core = core_of(node=node(ready="False", unschedulable=True))
    core.wait(41)
    assert core.wants("n1", Drain) == [Drain("n1", "k8s: node not ready", absence=True)]


@pytest.mark.parametrize("row", REASONS)
def test_our_drain_with_another_reason_is_rewritten_once_S9(row: str) -> None:
    core = core_of(slurm="IDLE+DRAIN", reason="k8s: something else")
    begin(core, row)
    want = Drain("n1", REASONS[row], rewrites=row in ("S4", "S7", "S8"))
    assert core.wants("n1", *ACTS) == [want]
    core.see(slurm_node("n1", "IDLE+DRAIN", reason=REASONS[row]))
    assert not core.wants("n1", *ACTS)


def test_our_drain_keeps_its_reason_while_a_cause_of_higher_rank_is_unknown_S9() -> None:
    """After a restart a missing Pod is read first."""
    core = core_of(slurm="IDLE+DRAIN", reason="k8s: pod terminated", node=node(unschedulable=True))
    core.see(deleted("slurmd_pods", slurmd_pod()))
    assert not core.wants("n1", *ACTS)
    assert core.wants("n1", GetObject)
    assert "drain kept (k8s: pod terminated)" in core.verdict().because
    core.answer(slurmd_pod(), "no")
    assert not core.wants("n1", *ACTS)


@pytest.mark.parametrize(
    ("slurm", "wants", "sentence"),
    [
        (
            ("IDLE+DRAIN", "k8s: pod terminated"),
            [],
            "drain kept (k8s: pod terminated): Pod slurm/slurmd-n1 is missing, reading it",
        ),
        (("IDLE", ""), [Drain("n1", "k8s: node cordoned")], "drained: Node n1 is cordoned"),
        (("IDLE+DRAIN", "k8s: node cordoned"), [], "drained: Node n1 is cordoned"),
    ],
    ids=["ours, for the unknown cause", "no drain yet", "ours, for the cordon"],
)
def test_a_cause_that_exists_drains_while_one_of_higher_rank_is_unknown_S9(
    slurm: tuple[str, str], wants: list[Drain], sentence: str
) -> None:
    """The Node is cordoned, and its slurmd Pod is missing."""
    pod = slurmd_pod(node_name="n1")
    core = Core(node("n1", unschedulable=True), pod, slurm_node("n1", slurm[0], reason=slurm[1]))
    core.see(deleted("slurmd_pods", pod))
    assert core.wants("n1", GetObject)
    assert core.wants("n1", *ACTS) == wants
    assert core.verdict().because.startswith(sentence)


@pytest.mark.parametrize("reason", ["k8s: node gone", ""])
@pytest.mark.parametrize(
    ("mark", "missing"),
    [(marked(pod="", uid=""), "Node kn1"), (marked(), "Pod slurm/slurmd-n1")],
    ids=["Node", "Pod"],
)
def test_nothing_is_done_before_a_listing_S7_S8_S20(mark: str, missing: str, reason: str) -> None:
    state = "IDLE+DRAIN" if reason else "IDLE"
    core = Core(slurm_node("n1", state, reason=reason, comment=mark), listed=False)
    assert not core.wants("n1")
    assert core.verdict().because.startswith(f"drain kept ({reason}): ") is bool(reason)
    assert f"{missing} is not listed yet" in core.verdict().because


@pytest.mark.parametrize("row", [row for row in REASONS if row != "S7"])
def test_our_drain_is_lifted_when_the_last_cause_is_gone_S2(row: str) -> None:
    core = core_of()
    begin(core, row)
    core.see(slurm_node("n1", "IDLE+DRAIN", reason=REASONS[row]))
    end(core)
    assert core.wants("n1", *ACTS) == [Undrain("n1", f"lifted, was {REASONS[row]}")]
    assert "undrained: no cause is left" in core.verdict().because


def test_a_new_pod_of_the_same_name_lifts_the_drain_for_the_missing_one_S2_S7() -> None:
    core = core_of(slurm="IDLE+DRAIN", reason="k8s: pod terminated")
    lose_pod(core)
    assert not core.wants("n1", *ACTS)
    core.see(slurmd_pod(uid="new"))
    assert core.wants("n1", *ACTS) == [Undrain("n1", "lifted, was k8s: pod terminated")]


@pytest.mark.parametrize("state", ["IDLE", "ALLOCATED", "MIXED", "IDLE+NOT_RESPONDING"])
def test_our_reason_on_a_node_without_drain_is_rewritten_S2(state: str) -> None:
    """slurmctld would keep it for a drain of its own."""
    core = core_of(slurm=state, reason="k8s: node cordoned")
    assert core.wants("n1", *ACTS) == [RewriteReason("n1", "lifted, was k8s: node cordoned")]
    assert "a reason of sunk-sync on a node without drain: lifted" in core.verdict().because
    core.see(slurm_node("n1", state, reason="lifted, was k8s: node cordoned"))
    assert not core.wants("n1", *ACTS)


def test_our_reason_without_drain_is_rewritten_also_while_a_cause_is_unknown_S2() -> None:
    core = core_of(slurm="IDLE", reason="k8s: x", pod=slurmd_pod(ready=False))
    assert core.wants("n1", *ACTS) == [RewriteReason("n1", "lifted, was k8s: x")]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"unschedulable": True}, "k8s: node cordoned"),
        ({"unschedulable": True, "cordon_reason": "disk"}, "k8s: node cordoned: disk"),
        ({"unschedulable": True, "cordoned_for_drain": True}, None),
        ({"cordon_reason": "disk"}, None),
    ],
    ids=["plain", "with its reason", "of our own making", "a reason alone"],
)
def test_a_cordoned_node_is_drained_with_its_reason_unless_the_cordon_is_ours_S1(
    fields: dict[str, Any], reason: str | None
) -> None:
    core = core_of(node=node(**fields))
    assert core.wants("n1", *ACTS) == ([Drain("n1", reason)] if reason else [])
    why = " (disk)" if "cordon_reason" in fields else ""
    assert (f"drained: Node kn1 is cordoned{why};" in core.verdict().because) is bool(reason)


@pytest.mark.parametrize(
    ("value", "reason"),
    [(None, None), ("", "k8s: pod pending deletion"), ("w", "k8s: pod pending deletion: w")],
)
def test_any_value_of_pending_deletion_drains_S6(value: str | None, reason: str | None) -> None:
    core = core_of(pod=slurmd_pod(pending_deletion=value))
    assert core.wants("n1", *ACTS) == ([Drain("n1", reason)] if reason else [])
    why = f" ({value})" if value else ""
    sentence = f"drained: Pod slurm/slurmd-n1 is to be deleted{why};"
    assert (sentence in core.verdict().because) is bool(reason)


@pytest.mark.parametrize("grace_s", [5.0, 0.0, 20.0])
def test_a_pod_drains_once_it_is_not_ready_for_longer_than_its_grace_S4(grace_s: float) -> None:
    """Counted from when this process saw it become not ready."""
    core = core_of(not_ready_grace_s=grace_s)
    core.wait(100)
    core.see(slurmd_pod(ready=False))
    core.wait(grace_s - 0.01) if grace_s else None
    assert bool(core.wants("n1", Drain)) is (grace_s == 0)
    core.see(slurmd_pod(ready=False, drain="another fact of the Pod changes nothing"))
    core.wait(0.02)
    assert core.wants("n1", Drain) == [Drain("n1", "k8s: pod not ready", absence=True)]


def test_a_pod_that_was_ready_in_between_starts_a_new_grace_S4() -> None:
    core = core_of()
    for _ in range(5):
        core.see(slurmd_pod(ready=False))
        core.wait(4)
        core.see(slurmd_pod())
        core.wait(4)
        assert not core.wants("n1", *ACTS)


def test_a_finished_pod_counts_as_not_ready_S4() -> None:
    """It claims nothing, but its host has no slurmd."""
    core = core_of()
    core.see(slurmd_pod(finished=True))
    core.wait(6)
    assert core.wants("n1", Drain) == [Drain("n1", "k8s: pod not ready", absence=True)]


@pytest.mark.parametrize("ready", ["False", "Unknown"])
def test_a_node_drains_once_it_is_not_ready_for_longer_than_its_grace_S8(ready: str) -> None:
    core = core_of()
    core.see(node(ready=ready))
    core.wait(39)
    assert not core.wants("n1", *ACTS)
    core.wait(2)
    assert core.wants("n1", Drain) == [Drain("n1", "k8s: node not ready", absence=True)]
    assert core.verdict().because.startswith(f"drained: Node kn1 is not ready ({ready})")


def test_the_drain_stays_when_ready_changes_from_false_to_unknown_S8() -> None:
    core = core_of()
    core.see(node(ready="False"))
    core.wait(41)
    core.see(slurm_node("n1", "IDLE+DRAIN", reason="k8s: node not ready"))
    core.see(node(ready="Unknown"))
    assert not core.wants("n1", *ACTS)


@pytest.mark.parametrize("found", ["unknown", "yes"])
@pytest.mark.parametrize("row", [slurmd_pod(), node()], ids=["Pod", "Node"])
def test_a_missing_object_is_read_again_later_S7_S8_S20(row: Node | SlurmdPod, found: Any) -> None:
    """403 and an object that exists are no evidence that it is gone."""
    core = core_of()
    core.see(deleted(source_of(row), row))
    of_node = isinstance(row, Node)
    look = GetObject("Node" if of_node else "Pod", "" if of_node else "slurm", row.name, 0.0)
    assert core.wants("n1", GetObject) == [look]
    asked_s = core.now
    core.answer(row, found)
    assert not core.wants("n1", GetObject, *ACTS)
    assert ("from the listing but exists" in core.verdict().because) is (found == "yes")
    core.wait((EXISTS_AGAIN_S if found == "yes" else LOOK_AGAIN_S) - 0.1)
    assert not core.wants("n1", GetObject, *ACTS)
    core.wait(0.1)
    assert core.wants("n1", GetObject, *ACTS) == [replace(look, after_s=asked_s)]


def test_a_pod_with_another_uid_under_the_name_drains_S7() -> None:
    core = core_of()
    core.see(deleted("slurmd_pods", slurmd_pod()))
    core.answer(slurmd_pod(), "yes", "another")
    assert core.wants("n1", Drain) == [Drain("n1", "k8s: pod terminated", absence=True)]


def test_a_finished_terminating_pod_counts_as_terminating_S5() -> None:
    core = core_of()
    core.see(slurmd_pod(finished=True, terminating=True))
    assert core.wants("n1", Drain) == [Drain("n1", "k8s: pod terminating")]


def test_a_finished_pod_is_not_read_by_name_S7() -> None:
    core = core_of()
    core.see(slurmd_pod(finished=True), deleted("nodes", node()))
    assert core.wants("n1", GetObject) == [GetObject("Node", "", "kn1", 0.0)]


@pytest.mark.parametrize(
    ("row", "drains"),
    [
        (node("n1", unschedulable=True), True),
        (slurmd_pod(cordon="true"), True),
        (node("n1"), False),
    ],
    ids=["cordoned Node", "cordoned Pod", "no cause"],
)
def test_the_rule_needs_no_memory_of_a_node_or_pod_that_exists_S18(row: Row, drains: bool) -> None:
    core = Core(row, slurm_node())
    host = replace(core.graph.host("n1"), traces=NO_TRACES)
    ruling = drain(host, core.graph.configuration, core.now)
    assert ruling.wants == tuple(core.wants("n1", *ACTS))
    assert (ruling is not QUIET) is bool(ruling.wants) is drains


def test_a_node_that_exists_with_another_uid_is_not_gone_S8() -> None:
    core = core_of()
    core.see(deleted("nodes", node()))
    core.answer(node(), "yes", "another")
    assert not core.wants("n1", Drain)


def test_our_drain_stays_while_a_cause_is_unknown_S7_S8() -> None:
    core = core_of(slurm="IDLE+DRAIN", reason="k8s: node cordoned")
    core.see(deleted("slurmd_pods", slurmd_pod()))
    assert not core.wants("n1", *ACTS)
    assert core.verdict().because.startswith("drain kept (k8s: node cordoned): ")


@pytest.mark.parametrize(
    ("comment", "reads", "reason"),
    [
        (marked(), ("no", "yes"), "k8s: pod terminated"),
        (marked(), ("no", "no"), "k8s: node gone"),
        (marked(), ("yes", "yes"), None),
        (marked(), ("unknown", "unknown"), None),
        (marked(), (), None),
        (marked(cluster="another"), ("no", "no"), None),
        ("bought in 2019", ("no", "no"), None),
        ("", ("no", "no"), None),
    ],
    ids=[
        "Pod gone", "both gone", "both exist", "403", "no answer",
        "mark of another cluster", "foreign comment", "no comment",
    ],
)  # fmt: skip
def test_after_a_restart_only_our_mark_tells_what_is_gone_S7_S8_S18(
    comment: str, reads: tuple[Any, ...], reason: str | None
) -> None:
    """A new process sees neither Pod nor Node."""
    core = Core(slurm_node("n1", comment=comment))
    objects: list[Node | SlurmdPod] = [slurmd_pod(), node()]
    for row, found in zip(objects, reads, strict=False):
        core.answer(row, found)
    assert reasons(core) == [reason] * bool(reason)


def test_after_an_empty_listing_each_object_is_read_by_name_first_S20() -> None:
    core = core_of()
    core.see(*listing("nodes"), *listing("slurmd_pods"))
    assert not core.wants("n1", *ACTS)
    assert {want.kind for want in core.wants("n1", GetObject)} == {"Node", "Pod"}


def test_our_drain_is_written_again_only_after_an_undrain_by_hand_S10_S14() -> None:
    core = core_of(node=node(unschedulable=True), slurm="MIXED+DRAIN", reason="k8s: node cordoned")
    assert not core.wants("n1", *ACTS)
    assert core.verdict().because.startswith("drained: Node kn1 is cordoned")
    for reason in ("", "k8s: node cordoned", "lifted by hand"):
        core.see(slurm_node("n1", "IDLE", reason=reason))
        assert core.wants("n1", *ACTS) == [Drain("n1", "k8s: node cordoned")]


@pytest.mark.parametrize("reason", ["bad disk", "", "K8S: shouting", " k8s: spaced", "not k8s:"])
@pytest.mark.parametrize("row", REASONS)
def test_a_foreign_drain_is_never_touched_S11_S15(row: str, reason: str) -> None:
    core = core_of(slurm="IDLE+DRAIN", reason=reason)
    left_alone = f"left alone: drained in Slurm ({reason or 'no reason'})"
    assert not core.wants("n1", *ACTS)
    assert f"{left_alone};" in core.verdict().because
    begin(core, row)
    assert not core.wants("n1", *ACTS)
    assert f"{left_alone}, though " in core.verdict().because
    end(core)
    assert not core.wants("n1", *ACTS)
    assert f"{left_alone};" in core.verdict().because


def test_a_foreign_reason_on_a_node_without_drain_is_not_mentioned() -> None:
    core = core_of(reason="bought in 2019")
    assert "left alone" not in core.verdict().because


def test_a_drain_whose_reason_a_human_changed_is_not_lifted_S12() -> None:
    core = core_of(node=node(unschedulable=True), slurm="IDLE+DRAIN", reason="k8s: node cordoned")
    core.see(slurm_node("n1", "IDLE+DRAIN", reason="keep it: fan"))
    core.see(node())
    assert not core.wants("n1", *ACTS)
    assert "left alone: drained in Slurm (keep it: fan)" in core.verdict().because


DRAINABLE = {"POWERED_DOWN", "POWERING_DOWN", "REBOOT_REQUESTED"}


@pytest.mark.parametrize("drained", ["", "+DRAIN"], ids=["undrained", "drained"])
@pytest.mark.parametrize("state", sorted(FROZEN - DRAINABLE))
def test_a_node_in_a_frozen_state_is_not_written_S13(state: str, drained: str) -> None:
    core = core_of(slurm=state + drained, reason="k8s: node cordoned")
    assert not core.wants("n1", *ACTS)
    core.see(node(unschedulable=True))
    assert not core.wants("n1", *ACTS)
    flags = "+".join(sorted((state + drained).split("+")))
    assert f"left alone: Slurm node is {flags};" in core.verdict().because
    core.see(slurm_node("n1", "IDLE"))
    assert core.wants("n1", *ACTS) == [Drain("n1", "k8s: node cordoned")]


def test_a_node_whose_reboot_is_requested_is_drained_and_not_lifted_S13() -> None:
    """Jobs start there until it begins; the drain of a reboot ASAP is slurmctld's own wish."""
    core = core_of(slurm="MIXED+REBOOT_REQUESTED", node=node(unschedulable=True))
    assert core.wants("n1", *ACTS) == [Drain("n1", CORDONED)]
    core.see(slurm_node("n1", "MIXED+REBOOT_REQUESTED+DRAIN", reason=CORDONED))
    assert not core.wants("n1", *ACTS)
    core.see(node())
    assert not core.wants("n1", *ACTS)
    core.see(slurm_node("n1", "IDLE+DRAIN", reason=f"{CORDONED} : reboot issued"))
    assert core.wants("n1", *ACTS) == [
        Undrain("n1", f"lifted, was {CORDONED} : reboot issued"),
    ]


POWERED = ["POWERED_DOWN", "POWERING_DOWN", "POWERING_UP", "POWER_UP", "POWER_DOWN", "POWER_DRAIN"]


@pytest.mark.parametrize("state", POWERED)
def test_what_power_saving_removes_drains_nothing_S8(state: str) -> None:
    core = core_of(slurm=f"IDLE+{state}")
    core.see(slurmd_pod(terminating=True))
    assert not core.wants("n1", *ACTS)
    lose_pod(core)
    lose_node(core)
    assert not core.wants("n1", *ACTS, GetObject)
    core.see(slurm_node("n1", "IDLE"))
    assert reasons(core) == ["k8s: node gone"]


@pytest.mark.parametrize("state", POWERED)
def test_a_drain_for_what_is_gone_is_lifted_so_that_jobs_wake_the_node_S8(state: str) -> None:
    core = core_of(slurm=f"IDLE+DRAIN+{state}", reason="k8s: node gone")
    lose_pod(core)
    lose_node(core)
    assert core.wants("n1", *ACTS) == [Undrain("n1", "lifted, was k8s: node gone")]


@pytest.mark.parametrize("state", POWERED)
def test_a_cordon_drains_a_node_without_power_S1(state: str) -> None:
    core = core_of(slurm=f"IDLE+{state}", node=node(unschedulable=True))
    assert core.wants("n1", *ACTS) == [Drain("n1", CORDONED)]


@pytest.mark.parametrize("state", ["MIXED+POWERED_DOWN", "ALLOCATED+POWERING_UP", "MIXED+POWER_UP"])
def test_a_node_that_wakes_for_a_job_is_drained_once_it_is_up_S1(state: str) -> None:
    """slurmctld would end the job that waits for the node."""
    core = core_of(slurm=state, node=node(unschedulable=True))
    assert not core.wants("n1", *ACTS)
    flags = "+".join(sorted(state.split("+")))
    assert f"cordoned, but Slurm wakes it for a job ({flags})" in core.verdict().because
    core.see(slurm_node("n1", state, reason=CORDONED))
    assert core.wants("n1", *ACTS) == [RewriteReason("n1", f"lifted, was {CORDONED}")]
    core.see(slurm_node("n1", "MIXED"))
    assert core.wants("n1", *ACTS) == [Drain("n1", CORDONED)]


SIGNS = [
    (Sign("taint", "karpenter.sh/disrupted", ""), {}, "node tainted: karpenter.sh/disrupted"),
    (Sign("taint", "karpenter.sh/disruption", "disrupting"), {},
     "node tainted: karpenter.sh/disruption=disrupting"),
    (Sign("taint", "a/b", "soon"), {"drain_taints": (("a/b", ""),)}, "node tainted: a/b=soon"),
    (Sign("taint", "a/b", "soon"), {"drain_taints": (("a/b", "soon"),)}, "node tainted: a/b=soon"),
    (Sign("condition", "KernelDeadlock", "True", "DockerHung"),
     {"drain_conditions": (("KernelDeadlock", "True"),)},
     "node condition: KernelDeadlock=True (DockerHung)"),
]  # fmt: skip


@pytest.mark.parametrize(("sign", "settings", "reason"), SIGNS)
def test_a_node_of_which_others_say_that_it_goes_is_drained_until_they_do_not_S21(
    sign: Sign, settings: dict[str, Any], reason: str
) -> None:
    core = core_of(node=node(signs=(sign,)), **settings)
    assert reasons(core) == [f"k8s: {reason}"]
    core.see(slurm_node("n1", "IDLE+DRAIN", reason=f"k8s: {reason}"))
    core.see(node())
    assert core.wants("n1", *ACTS) == [Undrain("n1", f"lifted, was k8s: {reason}")]


@pytest.mark.parametrize(
    ("sign", "settings"),
    [
        (Sign("taint", "nvidia.com/gpu", "present"), {}),
        (Sign("taint", "karpenter.sh/disrupted", ""), {"drain_taints": ()}),
        (Sign("taint", "a/b", "later"), {"drain_taints": (("a/b", "soon"),)}),
        (Sign("condition", "KernelDeadlock", "True"), {}),
        (Sign("condition", "a/b", "True"), {"drain_taints": (("a/b", ""),)}),
        (Sign("condition", "K", "False"), {"drain_conditions": (("K", "True"),)}),
    ],
)
def test_no_other_taint_or_condition_drains_S21(sign: Sign, settings: dict[str, Any]) -> None:
    assert not reasons(core_of(node=node(signs=(sign,)), **settings))


def test_a_cordon_names_itself_before_a_taint_S9_S21() -> None:
    sign = Sign("taint", "karpenter.sh/disrupted", "")
    assert reasons(core_of(node=node(signs=(sign,), unschedulable=True))) == [CORDONED]


def test_a_node_that_does_not_respond_is_drained_S13() -> None:
    core = core_of(slurm="IDLE+NOT_RESPONDING", node=node(unschedulable=True))
    assert core.wants("n1", Drain)


def test_the_reason_is_cleaned_and_cut_and_not_written_again_S17() -> None:
    core = core_of(node=node(unschedulable=True, cordon_reason='a"b\n#c\\ ' + "ü" * 300))
    (want,) = core.wants("n1", Drain)
    assert len(want.reason) <= 256
    assert want.reason.startswith("k8s: node cordoned: a'b c/ ü")
    core.see(slurm_node("n1", "IDLE+DRAIN", reason=want.reason))
    assert not core.wants("n1", *ACTS)


def test_the_text_of_a_lifted_drain_is_cut_too_S17() -> None:
    core = core_of(slurm="IDLE+DRAIN", reason="k8s: " + "x" * 251)
    (want,) = core.wants("n1", Undrain)
    assert len(want.reason) == 256


@pytest.mark.parametrize("state", ["IDLE", "IDLE+DRAIN"])
def test_a_node_that_kubernetes_does_not_know_is_never_touched_S18(state: str) -> None:
    core = Core(slurm_node("n1", state, reason="k8s: old"))
    assert not core.wants("n1")
    assert core.verdict().because == "in sync"


def test_a_pod_that_claims_an_unknown_slurm_node_drains_nothing() -> None:
    core = Core(node(unschedulable=True), slurmd_pod())
    assert not core.wants("n1", *ACTS)


@pytest.mark.parametrize(
    ("name", "annotated"), [("n1", ""), ("kn1", "n1")], ids=["equal name", "annotation"]
)
def test_a_node_without_slurmd_pod_claims_a_slurm_node_S1(name: str, annotated: str) -> None:
    core = Core(node(name, slurm_node=annotated, unschedulable=True), slurm_node())
    assert core.wants("n1", Drain) == [Drain("n1", "k8s: node cordoned")]


def test_the_claim_of_a_pod_ranks_before_the_annotation_of_its_node() -> None:
    core = Core(
        node(slurm_node="n2", unschedulable=True), slurmd_pod(), slurm_node(), slurm_node("n2")
    )
    assert core.wants("n1", Drain)
    assert not core.wants("n2", *ACTS)


def test_a_terminating_pod_yields_to_its_replacement_S16() -> None:
    core = core_of()
    core.see(slurmd_pod(terminating=True), slurmd_pod(name="next", uid="next"))
    assert not core.wants("n1", *ACTS)
    core.see(slurmd_pod(name="next", uid="next", cordon="yes"))
    assert core.wants("n1", Drain) == [Drain("n1", "k8s: pod cordoned")]


def test_a_finished_pod_beside_a_living_one_claims_nothing_S16() -> None:
    """Evicted Pods stay in the API for days."""
    core = core_of()
    core.see(slurmd_pod(name="evicted", uid="evicted", finished=True, terminating=True))
    core.wait(60)
    assert not core.wants("n1", *ACTS)
