"""Rows S1-S18 and S20: which drain is wanted, which is lifted, and what is left alone."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from sunk_sync.core.model.actions import LOOK_AGAIN_S, Drain, GetObject, RewriteReason, Undrain
from sunk_sync.core.model.facts import GetResult, Node, Row, SlurmdPod
from sunk_sync.core.model.verdict import QUIET
from sunk_sync.core.rules.host.drain import EXISTS_AGAIN_S, drain
from sunk_sync.core.translate.node_states import FROZEN
from sunk_sync.core.views.host import NO_TRACES
from tests.kit.build import Core, deleted, listing, marked, node, slurm_node, slurmd_pod

ACTS = (Drain, Undrain, RewriteReason)
PATH = ("slurm", "slurmd-n1")


def core_of(*, slurm: str = "IDLE", reason: str = "", **fields: Any) -> Core:
    """Host n1: Node kn1, its slurmd Pod and a Slurm node in this state."""
    rows: dict[str, Row] = {"node": node(), "pod": slurmd_pod()}
    rows |= {name: row for name, row in fields.items() if isinstance(row, Node | SlurmdPod)}
    chosen = {name: value for name, value in fields.items() if name not in rows}
    return Core(*rows.values(), slurm_node("n1", slurm, reason=reason), **chosen)


def gone(core: Core, kind: str, name: str, found: str = "no", uid: str = "") -> None:
    """A read by name is answered now."""
    namespace = "slurm" if kind == "Pod" else ""
    core.see(GetResult(kind, namespace, name, found, uid, core.now))  # type: ignore[arg-type]


def lose_pod(core: Core) -> None:
    """S7: the Pod left our listings and is not found by name."""
    core.see(deleted("slurmd_pods", slurmd_pod()))
    gone(core, "Pod", "slurmd-n1")


def lose_node(core: Core) -> None:
    """S8: the Node left our listings and is not found by name."""
    core.see(deleted("nodes", node()))
    gone(core, "Node", "kn1")


def cordon(core: Core) -> None:
    core.see(node(unschedulable=True))


Change = Callable[[SlurmdPod], SlurmdPod]

POD_CAUSES: dict[str, tuple[str, Change]] = {
    "S5": ("k8s: pod terminating", lambda pod: replace(pod, terminating=True)),
    "S6": ("k8s: pod pending deletion: roll", lambda pod: replace(pod, pending_deletion="roll")),
    "S3": ("k8s: pod cordoned", lambda pod: replace(pod, cordon="true")),
    "S4": ("k8s: pod not ready", lambda pod: replace(pod, ready=False)),
}
ORDER = ("S8", "S7", "S5", "S6", "S1", "S3", "S4")
REASONS = {
    "S8": "k8s: node gone",
    "S7": "k8s: pod terminated",
    "S1": "k8s: node cordoned",
    **{row: reason for row, (reason, _) in POD_CAUSES.items()},
}
SENTENCES = {
    "S8": "drained: Node kn1 is gone",
    "S7": "drained: Pod slurm/slurmd-n1 is gone",
    "S5": "drained: Pod slurm/slurmd-n1 is terminating",
    "S6": "drained: Pod slurm/slurmd-n1 is to be deleted (roll)",
    "S1": "drained: Node kn1 is cordoned",
    "S3": "drained: Pod slurm/slurmd-n1 is cordoned",
    "S4": "drained: Pod slurm/slurmd-n1 is not ready",
}


def begin(core: Core, rows: tuple[str, ...]) -> None:
    """Make these causes stand, all at once."""
    pod = slurmd_pod()
    for row in rows:
        if row in POD_CAUSES:
            pod = POD_CAUSES[row][1](pod)
    if pod != slurmd_pod():
        core.see(pod)
    if "S1" in rows:
        cordon(core)
    if "S7" in rows:
        lose_pod(core)
    if "S8" in rows:
        lose_node(core)
    core.wait(6)


def end(core: Core) -> None:
    """Make every cause go away."""
    core.see(node(), slurmd_pod())
    core.settle()


@pytest.mark.parametrize("row", ORDER)
def test_S1_to_S8_each_cause_drains_with_its_reason(row: str) -> None:
    """Every cause by itself is a drain with the text of its row."""
    core = core_of()
    begin(core, (row,))
    (want,) = core.wants("n1", *ACTS)
    assert isinstance(want, Drain)
    assert want.reason == REASONS[row]
    assert SENTENCES[row] in core.verdict().because.split("; ")


def possible(pair: tuple[str, str]) -> bool:
    """A Pod that is gone has no state; a Node that is gone is not cordoned."""
    if "S7" in pair and not {"S7", "S8", "S1"} >= set(pair):
        return False
    return set(pair) != {"S8", "S1"} and set(pair) != {"S7", "S1"}


PAIRS = [pair for pair in itertools.combinations(ORDER, 2) if possible(pair)]


@pytest.mark.parametrize("pair", PAIRS, ids=["+".join(pair) for pair in PAIRS])
def test_the_first_cause_gives_the_reason_S9(pair: tuple[str, str]) -> None:
    """Several causes make one drain; S8, S7, S5, S6, S1, S3, S4 is their order."""
    core = core_of()
    begin(core, pair)
    (want,) = core.wants("n1", *ACTS)
    assert isinstance(want, Drain)
    assert want.reason == REASONS[pair[0]]


def test_a_node_not_ready_goes_before_its_cordon_S9() -> None:
    """S8 before S1, also where the Node is there."""
    core = core_of(node=node(ready="False", unschedulable=True))
    core.wait(41)
    assert core.wants("n1", Drain) == [Drain("n1", "k8s: node not ready", absence=True)]


@pytest.mark.parametrize("row", ORDER)
def test_ours_is_rewritten_to_the_first_cause_once_S9(row: str) -> None:
    """A reason of ours that is not the first cause's is rewritten; the right one is left."""
    core = core_of(slurm="IDLE+DRAIN", reason="k8s: something else")
    begin(core, (row,))
    want = Drain("n1", REASONS[row], rewrites=row in ("S4", "S7", "S8"))
    assert core.wants("n1", *ACTS) == [want]
    core.see(slurm_node("n1", "IDLE+DRAIN", reason=REASONS[row]))
    assert not core.wants("n1", *ACTS)


def test_ours_keeps_its_text_while_a_cause_that_ranks_before_is_open_S9() -> None:
    """After a restart a missing Pod is asked for first: no text to and fro meanwhile."""
    core = core_of(slurm="IDLE+DRAIN", reason="k8s: pod terminated", node=node(unschedulable=True))
    core.see(deleted("slurmd_pods", slurmd_pod()))
    assert not core.wants("n1", *ACTS)
    assert core.wants("n1", GetObject)
    assert "drain kept (k8s: pod terminated)" in core.verdict().because
    gone(core, "Pod", "slurmd-n1")
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
    ids=["ours of the open cause", "no drain yet", "ours of the cause that stands"],
)
def test_a_cause_that_stands_and_one_before_it_that_is_open_S9(
    slurm: tuple[str, str], wants: list[Drain], sentence: str
) -> None:
    """A Node that stands for its host without a Pod is cordoned, and the Pod is missing."""
    pod = slurmd_pod(node_name="n1")
    core = Core(node("n1", unschedulable=True), pod, slurm_node("n1", slurm[0], reason=slurm[1]))
    core.see(deleted("slurmd_pods", pod))
    assert core.wants("n1", GetObject)
    assert core.wants("n1", *ACTS) == wants
    assert core.verdict().because.startswith(sentence)


@pytest.mark.parametrize(("kind", "mark"), [("Node", marked(pod="", uid="")), ("Pod", marked())])
def test_what_is_not_listed_yet_lifts_nothing_S7_S8_S20(kind: str, mark: str) -> None:
    """After a restart, before Kubernetes was listed: nobody knows whether the cause stands."""
    ours = slurm_node("n1", "IDLE+DRAIN", reason="k8s: node gone", comment=mark)
    core = Core(ours, listed=False)
    name = "Node kn1" if kind == "Node" else "Pod slurm/slurmd-n1"
    assert not core.wants("n1", *ACTS, GetObject)
    assert core.verdict().because.startswith("drain kept (k8s: node gone): ")
    assert f"{name} is not listed yet" in core.verdict().because


@pytest.mark.parametrize("row", [row for row in ORDER if row != "S7"])
def test_the_last_cause_gone_lifts_ours_with_a_text_S2(row: str) -> None:
    """UNDRAIN carries `lifted, was …` in the same call."""
    core = core_of()
    begin(core, (row,))
    core.see(slurm_node("n1", "IDLE+DRAIN", reason=REASONS[row]))
    end(core)
    assert core.wants("n1", *ACTS) == [Undrain("n1", f"lifted, was {REASONS[row]}")]
    assert "undrained: no cause is left" in core.verdict().because


def test_S2_a_new_pod_ends_S7() -> None:
    """The Pod came back under its name: nothing is missing any more."""
    core = core_of(slurm="IDLE+DRAIN", reason="k8s: pod terminated")
    lose_pod(core)
    assert not core.wants("n1", *ACTS)
    core.see(slurmd_pod(uid="new"))
    assert core.wants("n1", *ACTS) == [Undrain("n1", "lifted, was k8s: pod terminated")]


@pytest.mark.parametrize("state", ["IDLE", "ALLOCATED", "MIXED", "IDLE+NOT_RESPONDING"])
def test_our_text_without_a_drain_is_taken_back_S2(state: str) -> None:
    """No `k8s:` text may stand on a node without DRAIN: slurmctld would keep it for its own."""
    core = core_of(slurm=state, reason="k8s: node cordoned")
    assert core.wants("n1", *ACTS) == [RewriteReason("n1", "lifted, was k8s: node cordoned")]
    assert "a reason of sunk-sync on a node without drain: lifted" in core.verdict().because
    core.see(slurm_node("n1", state, reason="lifted, was k8s: node cordoned"))
    assert not core.wants("n1", *ACTS)


def test_our_text_is_taken_back_while_a_cause_is_open_S2() -> None:
    """A Pod that is not ready yet is no drain; the text must go all the same."""
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
def test_a_cordoned_node_is_drained_S1(fields: dict[str, Any], reason: str | None) -> None:
    """The annotated reason follows; a cordon with the mark of M7 is no cause."""
    core = core_of(node=node(**fields))
    assert core.wants("n1", *ACTS) == ([Drain("n1", reason)] if reason else [])
    why = " (disk)" if "cordon_reason" in fields else ""
    assert (f"drained: Node kn1 is cordoned{why};" in core.verdict().because) is bool(reason)


@pytest.mark.parametrize(
    ("value", "reason"),
    [(None, None), ("", "k8s: pod pending deletion"), ("w", "k8s: pod pending deletion: w")],
)
def test_pending_deletion_drains_S6(value: str | None, reason: str | None) -> None:
    """Any value of the annotation asks, also an empty one."""
    core = core_of(pod=slurmd_pod(pending_deletion=value))
    assert core.wants("n1", *ACTS) == ([Drain("n1", reason)] if reason else [])
    why = f" ({value})" if value else ""
    told = f"drained: Pod slurm/slurmd-n1 is to be deleted{why};" in core.verdict().because
    assert told is bool(reason)


@pytest.mark.parametrize("grace_s", [5.0, 0.0, 20.0])
def test_not_ready_counts_after_its_grace_S4(grace_s: float) -> None:
    """Longer than --not-ready-grace, from the moment that this process saw it turn."""
    core = core_of(not_ready_grace_s=grace_s)
    core.wait(100)
    core.see(slurmd_pod(ready=False))
    core.wait(grace_s - 0.01) if grace_s else None
    assert bool(core.wants("n1", Drain)) is (grace_s == 0)
    core.see(slurmd_pod(ready=False, drain="another fact of the Pod changes nothing"))
    core.wait(0.02)
    assert core.wants("n1", Drain) == [Drain("n1", "k8s: pod not ready", absence=True)]


def test_a_pod_that_was_ready_in_between_begins_anew_S4() -> None:
    """Flapping faster than the grace drains nothing."""
    core = core_of()
    for _ in range(5):
        core.see(slurmd_pod(ready=False))
        core.wait(4)
        core.see(slurmd_pod())
        core.wait(4)
        assert not core.wants("n1", *ACTS)


def test_a_finished_pod_counts_as_not_ready_S4() -> None:
    """A Pod Succeeded or Failed claims nothing, but the host it was on has no slurmd."""
    core = core_of()
    core.see(slurmd_pod(finished=True))
    core.wait(6)
    (want,) = core.wants("n1", Drain)
    assert want == Drain("n1", "k8s: pod not ready", absence=True)


@pytest.mark.parametrize("ready", ["False", "Unknown"])
def test_a_node_not_ready_counts_after_its_grace_S8(ready: str) -> None:
    """NotReady and Unknown alike, for longer than --node-not-ready-grace."""
    core = core_of()
    core.see(node(ready=ready))
    core.wait(39)
    assert not core.wants("n1", *ACTS)
    core.wait(2)
    assert core.wants("n1", Drain) == [Drain("n1", "k8s: node not ready", absence=True)]
    assert core.verdict().because.startswith(f"drained: Node kn1 is not ready ({ready})")


def test_unready_turning_unknown_is_a_new_state_of_the_same_kind_S8() -> None:
    """The sentence follows; the drain stays."""
    core = core_of()
    core.see(node(ready="False"))
    core.wait(41)
    core.see(slurm_node("n1", "IDLE+DRAIN", reason="k8s: node not ready"))
    core.see(node(ready="Unknown"))
    assert not core.wants("n1", *ACTS)


@pytest.mark.parametrize("found", ["unknown", "yes"])
@pytest.mark.parametrize("kind", ["Pod", "Node"])
def test_what_is_missing_is_asked_for_by_name_S7_S8_S20(kind: str, found: str) -> None:
    """Absence needs evidence: 403 and `it exists` are none, and are asked again after a while."""
    core = core_of()
    row = node() if kind == "Node" else slurmd_pod()
    core.see(deleted("nodes" if kind == "Node" else "slurmd_pods", row))
    (look,) = core.wants("n1", GetObject)
    assert look == GetObject(
        kind, row.namespace if isinstance(row, SlurmdPod) else "", row.name, 0.0
    )
    asked_s = core.now
    gone(core, kind, row.name, found, row.uid if found == "yes" else "")
    assert not core.wants("n1", GetObject, *ACTS)
    assert ("from the listing but exists" in core.verdict().because) is (found == "yes")
    core.wait((EXISTS_AGAIN_S if found == "yes" else LOOK_AGAIN_S) - 0.1)
    assert not core.wants("n1", GetObject, *ACTS)
    core.wait(0.1)
    assert core.wants("n1", GetObject, *ACTS) == [replace(look, after_s=asked_s)]


def test_another_uid_under_the_name_means_that_the_pod_is_gone_S7() -> None:
    """A Pod of the same name is not the same Pod."""
    core = core_of()
    core.see(deleted("slurmd_pods", slurmd_pod()))
    gone(core, "Pod", "slurmd-n1", "yes", "another")
    assert core.wants("n1", Drain) == [Drain("n1", "k8s: pod terminated", absence=True)]


def test_a_pod_that_is_ending_counts_as_such_also_when_its_containers_have_ended_S5() -> None:
    """Finished and terminating: S5 goes before S4."""
    core = core_of()
    core.see(slurmd_pod(finished=True, terminating=True))
    assert core.wants("n1", Drain) == [Drain("n1", "k8s: pod terminating")]


def test_a_finished_pod_is_not_asked_for_S7() -> None:
    """It is there, and not ready (S4); only its Node is missing."""
    core = core_of()
    core.see(slurmd_pod(finished=True), deleted("nodes", node()))
    assert core.wants("n1", GetObject) == [GetObject("Node", "", "kn1", 0.0)]


def test_a_host_that_was_never_seen_anywhere_misses_nothing() -> None:
    """The rule itself asks; that the graph remembers every host it saw is not its business."""
    core = Core(node("n1"), slurm_node())
    host = replace(core.graph.host("n1"), traces=NO_TRACES)
    assert drain(host, core.graph.configuration, core.now) is QUIET


@pytest.mark.parametrize(
    "rows",
    [
        (node("n1", unschedulable=True), slurm_node()),
        (slurmd_pod(cordon="true"), slurm_node()),
    ],
    ids=["a Node", "a Pod"],
)
def test_what_stands_in_kubernetes_now_is_known_without_any_memory_S18(
    rows: tuple[Row, ...],
) -> None:
    """The rule itself asks: a Node alone, a Pod alone."""
    core = Core(*rows)
    host = replace(core.graph.host("n1"), traces=NO_TRACES)
    assert drain(host, core.graph.configuration, core.now).wants == tuple(core.wants("n1", *ACTS))
    assert core.wants("n1", Drain)


def test_a_node_that_exists_under_another_uid_is_there_S8() -> None:
    """Only 404 says that a Node is gone."""
    core = core_of()
    core.see(deleted("nodes", node()))
    gone(core, "Node", "kn1", "yes", "another")
    assert not core.wants("n1", Drain)


def test_open_questions_keep_a_drain_of_ours_S7_S8() -> None:
    """What nobody knows neither begins a drain nor lifts one."""
    core = core_of(slurm="IDLE+DRAIN", reason="k8s: node cordoned")
    core.see(deleted("slurmd_pods", slurmd_pod()))
    assert not core.wants("n1", *ACTS)
    assert core.verdict().because.startswith("drain kept (k8s: node cordoned): ")


@pytest.mark.parametrize(
    ("comment", "sights", "reason"),
    [
        (marked(), {"Pod": "no", "Node": "yes"}, "k8s: pod terminated"),
        (marked(), {"Pod": "no", "Node": "no"}, "k8s: node gone"),
        (marked(), {"Pod": "yes", "Node": "yes"}, None),
        (marked(), {"Pod": "unknown", "Node": "unknown"}, None),
        (marked(), {}, None),
        (marked(cluster="another"), {"Pod": "no", "Node": "no"}, None),
        ("bought in 2019", {"Pod": "no", "Node": "no"}, None),
        ("", {"Pod": "no", "Node": "no"}, None),
    ],
    ids=[
        "Pod gone", "both gone", "both there", "403", "unanswered",
        "another cluster's mark", "foreign comment", "no comment",
    ],
)  # fmt: skip
def test_after_a_restart_only_our_mark_names_what_is_gone_S7_S8_S18(
    comment: str, sights: dict[str, str], reason: str | None
) -> None:
    """A fresh process sees neither Pod nor Node; what it may conclude rests on the mark."""
    core = Core(slurm_node("n1", comment=comment))
    for kind, found in sights.items():
        name = "slurmd-n1" if kind == "Pod" else "kn1"
        uid = f"uid-{name}" if found == "yes" else ""
        gone(core, kind, name, found, uid)
    wants = core.wants("n1", *ACTS)
    assert [want.reason for want in wants if isinstance(want, Drain)] == [reason] * bool(reason)


def test_nothing_is_asked_before_kubernetes_was_listed_S20() -> None:
    """A listing that is not complete shows no absence."""
    core = Core(slurm_node("n1", comment=marked()), listed=False)
    assert not core.wants("n1")
    assert "is not listed yet" in core.verdict().because


def test_an_empty_listing_drains_nothing_by_itself_S20() -> None:
    """Every row vanished at once: each is asked for by name first."""
    core = core_of()
    core.see(*listing("nodes"), *listing("slurmd_pods"))
    assert not core.wants("n1", *ACTS)
    assert {want.kind for want in core.wants("n1", GetObject) if isinstance(want, GetObject)} == {
        "Node",
        "Pod",
    }


def test_an_undrain_by_hand_is_drained_again_while_the_cause_stands_S10() -> None:
    """Level-triggered: the cause counts, not who moved last."""
    core = core_of(node=node(unschedulable=True), slurm="IDLE+DRAIN", reason="k8s: node cordoned")
    assert not core.wants("n1", *ACTS)
    for reason in ("", "k8s: node cordoned", "lifted by hand"):
        core.see(slurm_node("n1", "IDLE", reason=reason))
        assert core.wants("n1", *ACTS) == [Drain("n1", "k8s: node cordoned")]


@pytest.mark.parametrize("reason", ["bad disk", "", "K8S: shouting", " k8s: spaced", "not k8s:"])
@pytest.mark.parametrize("row", ORDER)
def test_a_drain_that_is_not_ours_is_never_touched_S11_S15(row: str, reason: str) -> None:
    """From before the cause until after it: another's reason, or none, is left alone."""
    core = core_of(slurm="IDLE+DRAIN", reason=reason)
    left_alone = f"left alone: drained in Slurm ({reason or 'no reason'})"
    assert not core.wants("n1", *ACTS)
    assert f"{left_alone};" in core.verdict().because
    begin(core, (row,))
    assert not core.wants("n1", *ACTS)
    assert f"{left_alone}, though " in core.verdict().because
    end(core)
    assert not core.wants("n1", *ACTS)
    assert f"{left_alone};" in core.verdict().because


def test_a_host_without_drain_and_cause_has_nothing_to_tell_of_drains() -> None:
    """A foreign text on a node that works is nobody's business."""
    core = core_of(reason="bought in 2019")
    assert "left alone" not in core.verdict().because


def test_a_reason_changed_by_a_human_is_theirs_S12() -> None:
    """Ours, then rewritten by hand: never lifted by us."""
    core = core_of(node=node(unschedulable=True), slurm="IDLE+DRAIN", reason="k8s: node cordoned")
    core.see(slurm_node("n1", "IDLE+DRAIN", reason="keep it: fan"))
    core.see(node())
    assert not core.wants("n1", *ACTS)
    assert "left alone: drained in Slurm (keep it: fan)" in core.verdict().because


STATES = sorted(FROZEN)


@pytest.mark.parametrize("drained", ["", "+DRAIN"], ids=["undrained", "drained"])
@pytest.mark.parametrize("state", STATES)
def test_a_frozen_state_is_not_written_to_S13(state: str, drained: str) -> None:
    """Not to drain, not to lift, not to rewrite; looked at again when it changes."""
    core = core_of(slurm=state + drained, reason="k8s: node cordoned")
    assert not core.wants("n1", *ACTS)
    cordon(core)
    assert not core.wants("n1", *ACTS)
    flags = "+".join(sorted((state + drained).split("+")))
    assert f"left alone: Slurm node is {flags};" in core.verdict().because
    core.see(slurm_node("n1", "IDLE"))
    assert core.wants("n1", *ACTS) == [Drain("n1", "k8s: node cordoned")]


def test_not_responding_alone_stops_nothing_S13() -> None:
    """A silent slurmd is drained like any other."""
    core = core_of(slurm="IDLE+NOT_RESPONDING", node=node(unschedulable=True))
    assert core.wants("n1", Drain)


def test_a_drain_that_stands_as_wanted_is_not_asked_for_S14() -> None:
    """Our drain with the right reason: no request."""
    core = core_of(node=node(unschedulable=True), slurm="MIXED+DRAIN", reason="k8s: node cordoned")
    assert not core.wants("n1", *ACTS)
    assert core.verdict().because.startswith("drained: Node kn1 is cordoned")


def test_the_reason_is_cut_and_cleaned_and_compared_so_S17() -> None:
    """What was written is what is read back: the second round does nothing."""
    core = core_of(node=node(unschedulable=True, cordon_reason='a"b\n#c\\ ' + "ü" * 300))
    (want,) = core.wants("n1", Drain)
    assert len(want.reason) <= 256
    assert want.reason.startswith("k8s: node cordoned: a'b c/ ü")
    core.see(slurm_node("n1", "IDLE+DRAIN", reason=want.reason))
    assert not core.wants("n1", *ACTS)


def test_a_lifted_text_of_a_long_reason_is_cut_too_S17() -> None:
    """`lifted, was` and the reason together obey the limit."""
    core = core_of(slurm="IDLE+DRAIN", reason="k8s: " + "x" * 251)
    (want,) = core.wants("n1", Undrain)
    assert len(want.reason) == 256


@pytest.mark.parametrize(("state", "reason"), [("IDLE", "k8s: old"), ("IDLE+DRAIN", "k8s: old")])
def test_what_kubernetes_does_not_know_is_never_touched_S18(state: str, reason: str) -> None:
    """Neither Node nor Pod nor mark: not even a text that looks like ours."""
    core = Core(slurm_node("n1", state, reason=reason))
    assert not core.wants("n1")
    assert core.verdict().because == "in sync"


def test_a_slurm_node_without_any_row_wants_nothing() -> None:
    """A Pod that claims what Slurm does not know drains nothing."""
    core = Core(node(unschedulable=True), slurmd_pod())
    assert not core.wants("n1", *ACTS)


@pytest.mark.parametrize(
    ("name", "annotated"), [("n1", ""), ("kn1", "n1")], ids=["equal name", "annotation"]
)
def test_a_node_without_slurmd_pod_stands_for_what_it_claims_S1(name: str, annotated: str) -> None:
    """Design §6: the Node's annotation, else the equal name."""
    core = Core(node(name, slurm_node=annotated, unschedulable=True), slurm_node())
    assert core.wants("n1", Drain) == [Drain("n1", "k8s: node cordoned")]


def test_a_pods_claim_goes_before_its_nodes_annotation() -> None:
    """slurmd Pod → Slurm node by the Pod; the Node's own annotation is for Nodes without one."""
    core = Core(
        node(slurm_node="n2", unschedulable=True), slurmd_pod(), slurm_node(), slurm_node("n2")
    )
    assert core.wants("n1", Drain)
    assert not core.wants("n2", *ACTS)


def test_a_terminating_pod_yields_to_the_one_that_replaces_it_S16() -> None:
    """Two Pods claim one host, one of them is ending: the other counts alone."""
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
