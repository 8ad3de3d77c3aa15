"""Rows M8 and F11: the mark of sunk-sync in the comment of a Slurm node."""

import pytest
from msgspec.structs import replace

from sunk_sync.core.model.actions import SetComment
from sunk_sync.core.model.facts import Row
from sunk_sync.core.model.node_mark import Mark, mark_text, parse_mark
from sunk_sync.core.model.verdict import QUIET
from sunk_sync.core.rules.host.mark import mark
from tests.kit.build import CLUSTER_UID, Core, deleted, marked, node, slurm_node, slurmd_pod

OURS = marked()
WANT = SetComment("n1", OURS)
COMMENTS: dict[str, tuple[str, list[SetComment]]] = {
    "empty: marked": ("", [WANT]),
    "ours: left": (OURS, []),
    "ours of an old Pod: renewed": (marked(uid="old"), [WANT]),
    "ours of the Node alone: the Pod is added": (mark_text(Mark(CLUSTER_UID, "kn1")), [WANT]),
    "foreign text: left": ("bought in 2019", []),
    "another cluster's: left": (marked(cluster="other"), []),
    "JSON of others: left": ('{"owner": "x"}', []),
    "broken JSON: left": ('{"sunk-sync":', []),
}


@pytest.mark.parametrize("case", COMMENTS)
def test_the_mark_is_written_only_where_the_comment_is_empty_or_ours_M8(case: str) -> None:
    comment, wants = COMMENTS[case]
    core = Core(node(), slurmd_pod(), slurm_node("n1", comment=comment))
    assert core.wants("n1", SetComment) == wants
    because = core.verdict().because
    assert ("marked with its Node and slurmd Pod" in because.split("; ")) is bool(wants)
    if not wants and comment != OURS:
        assert "not marked: the Slurm node has a comment of somebody else" in because


def test_a_mark_that_a_reconfigure_removed_is_written_again_M8_F11() -> None:
    """slurm.conf's comment comes back with every reconfigure."""
    core = Core(node(), slurmd_pod(), slurm_node("n1", comment=OURS))
    assert not core.wants("n1", SetComment)
    core.see(slurm_node("n1"))
    assert core.wants("n1", SetComment) == [WANT]


NOT_YET: dict[str, tuple[Row, ...]] = {
    "a Pod that is ending": (slurmd_pod(terminating=True), slurm_node()),
    "a Pod without a Node": (slurmd_pod(node_name=""), slurm_node()),
    "a finished Pod": (node("n1"), slurmd_pod(finished=True), slurm_node()),
    "a frozen Slurm node": (slurmd_pod(), slurm_node("n1", "DOWN")),
    "no Slurm node": (slurmd_pod(),),
    "nothing in Kubernetes": (slurm_node(),),
}


@pytest.mark.parametrize("case", NOT_YET)
def test_a_host_that_is_not_complete_is_not_marked_M8(case: str) -> None:
    """The old mark stays: it names what may be missing (S7)."""
    assert not Core(*NOT_YET[case]).wants("n1", SetComment)


def test_a_node_without_slurmd_pod_is_marked_as_itself_M8() -> None:
    """So S8 works for it after a restart."""
    core = Core(node("n1"), slurm_node())
    assert core.wants("n1", SetComment) == [SetComment("n1", mark_text(Mark(CLUSTER_UID, "n1")))]


def test_the_mark_of_a_pod_stays_on_a_node_of_the_same_name_after_the_pod_is_gone_M8() -> None:
    """A mark of the Node alone would lose the Pod that S7 asks about."""
    pod = slurmd_pod(node_name="n1")
    core = Core(node("n1"), pod, slurm_node("n1", comment=marked(node="n1")))
    core.see(deleted("slurmd_pods", pod))
    assert not core.wants("n1", SetComment)


def test_a_node_that_is_annotated_for_another_slurm_node_does_not_mark_its_namesake() -> None:
    core = Core(node("n1", slurm_node="n2"), slurm_node(), slurm_node("n2"))
    assert not core.wants("n1", SetComment)
    assert core.wants("n2", SetComment)


def test_the_rule_marks_nothing_for_a_node_that_stands_for_another_host_M8() -> None:
    core = Core(node("n1"), slurm_node())
    host = replace(core.graph.host("n1"), owns_node=False)
    assert mark(host, core.graph.configuration) is QUIET


@pytest.mark.parametrize("comment", ["", "x", "{", '{"sunk-sync": 1}', '{"a": {}}', "{\ud800"])
def test_a_comment_without_a_mark_is_parsed_as_none(comment: str) -> None:
    assert parse_mark(comment) is None


def test_a_mark_is_parsed_as_it_was_written_on_one_line() -> None:
    ours = Mark("c", "n", "ns", 'p"', "u\n")
    assert parse_mark(mark_text(ours)) == ours
    assert "\n" not in mark_text(ours)
