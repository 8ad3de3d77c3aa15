"""The rows of one source: the newest fact counts, and only a complete listing proves absence."""

import pytest
from msgspec.structs import replace

from sunk_sync.core.model.facts import Deleted, Node, SlurmNode, WriteEcho
from sunk_sync.core.tables.table import GONE_KEPT_S, Table
from tests.kit.build import Core, deleted, node, pod, slurm_node, slurmd_pod

A, B = node("a"), node("a", unschedulable=True)


def table(*rows: Node, order: float = 10, now: float = 0) -> Table[Node]:
    made: Table[Node] = Table()
    for row in rows:
        made.put(row.name, row, order=order, now=now)
    return made


@pytest.mark.parametrize(("order", "row"), [(9, A), (10, B), (11, B)])
def test_an_older_answer_does_not_replace_a_newer_one_F3(order: float, row: Node) -> None:
    known = table(A)
    known.put("a", B, order=order, now=1)
    assert known.get("a") == row


def test_an_equal_row_is_no_change_but_newer() -> None:
    known = table(A)
    assert known.put("a", A, order=20, now=1) == (A, False)
    assert known.put("a", B, order=15, now=2) == (A, False)


@pytest.mark.parametrize(("order", "known"), [(5, False), (29, False), (31, True)])
def test_an_old_answer_does_not_restore_a_deleted_row(order: float, known: bool) -> None:
    rows = table(A)
    assert rows.remove("a", uid=A.uid, order=30, now=1) == A
    rows.put("a", A, order=order, now=2)
    assert (rows.get("a") is not None) is known


def test_a_deletion_of_another_uid_or_an_older_one_removes_nothing() -> None:
    rows = table(A, order=10)
    assert rows.remove("a", uid="another", order=30, now=1) is None
    assert rows.remove("a", uid=A.uid, order=9, now=1) is None
    assert rows.get("a") == A


def test_a_deletion_of_an_unknown_row_is_remembered_once() -> None:
    """Its creation may still be under way."""
    rows = table()
    assert rows.remove("a", uid="u", order=30, now=1) is None
    assert rows.remove("a", uid="u", order=30, now=50) is None
    assert rows.last_news_s("a") == 1
    assert rows.put("a", A, order=29, now=2) == (None, False)


def test_deletions_are_forgotten_after_a_while() -> None:
    rows = table()
    for number in range(50):
        rows.remove(f"n{number}", uid="u", order=number, now=number)
    late = GONE_KEPT_S + 100
    for number in range(50, 120):
        rows.remove(f"n{number}", uid="u", order=number, now=late)
    assert len(rows._gone) == 70


def test_a_complete_listing_removes_older_rows_that_it_does_not_name() -> None:
    rows = table(node("a"), node("b"), node("c"))
    rows.start_listing(begun_s=5, order=20)
    rows.put("a", node("a"), order=10, now=6)
    rows.put("new", node("new"), order=21, now=6)
    assert rows.end_listing() == [("b", 20), ("c", 20)]
    assert (rows.listed, rows.live, rows.blind, rows.listed_s) == (True, True, False, 5)


def test_a_row_written_during_a_listing_survives_it() -> None:
    """A Slurm listing that was asked for before the write does not contain it."""
    rows: Table[SlurmNode] = Table()
    rows.put("n1", slurm_node(), order=1, now=1)
    rows.start_listing(begun_s=2, order=2)
    rows.put("n1", slurm_node("n1", "IDLE+DRAIN"), order=3, now=3)
    rows.put("n1", slurm_node(), order=2, now=4)
    assert rows.end_listing() == []
    assert rows.get("n1") == slurm_node("n1", "IDLE+DRAIN")


def test_lower_orders_are_accepted_from_a_listing() -> None:
    """The API server was restored from a backup."""
    rows = table(node("a"), node("b"), order=1000)
    rows.remove("c", uid="uid-c", order=1001, now=1)
    rows.start_listing(begun_s=5, order=50)
    rows.put("a", B, order=40, now=6)
    rows.put("c", node("c"), order=45, now=6)
    assert rows.end_listing() == [("b", 50)]
    assert rows.get("a") == B
    assert rows.get("c") is not None
    rows.remove("b", uid="uid-b", order=50, now=6)
    rows.put("b", node("b"), order=51, now=7)
    assert rows.get("b") is not None, "the backup did not know it, then it was made again"


def test_a_listing_that_broke_off_removes_nothing_F3_F4() -> None:
    rows = table(A)
    rows.start_listing(begun_s=5, order=20)
    rows.lose("cut", blind=False)
    assert rows.end_listing() == []
    assert (rows.listed, rows.live, rows.why) == (False, False, "cut")
    rows.start_listing(begun_s=6, order=21)
    rows.end_listing()
    rows.lose("down", blind=True)
    assert (rows.listed, rows.live, rows.blind) == (True, False, True)
    rows.confirm(7)
    assert (rows.live, rows.blind, rows.why) == (True, False, "")
    assert (rows.agreed_s, rows.listed_s) == (7, 6)


def test_a_confirmation_without_a_listing_proves_nothing() -> None:
    rows = table()
    rows.lose("x", blind=True)
    rows.confirm(5)
    assert (rows.listed, rows.live, rows.blind, rows.why) == (False, False, True, "x")


@pytest.mark.parametrize(
    ("after", "since"),
    [
        (node("a", ready="False"), 5),
        (node("a", uid="new"), 5),
        (node("a", unschedulable=True), 1),
        (node("a", labels=("b", None, None, None)), 1),
    ],
    ids=["readiness", "another object", "a cordon", "labels"],
)
def test_the_time_of_readiness_changes_only_with_readiness_S4_S8(after: Node, since: float) -> None:
    rows = table(A, now=1)
    rows.put("a", after, order=20, now=5)
    assert rows.entries["a"].since_s == since


def test_the_time_of_the_last_news_of_a_row_is_known() -> None:
    rows = table(A, now=3)
    assert rows.last_news_s("a") == 3
    rows.remove("a", uid=A.uid, order=20, now=4)
    assert rows.last_news_s("a") == 4
    assert rows.last_news_s("never") == float("-inf")
    assert list(rows.rows()) == []


def test_an_answer_to_a_write_is_not_part_of_the_listing_under_way_F3() -> None:
    rows = table(A, order=10)
    rows.start_listing(begun_s=5, order=30)
    rows.put("a", B, order=20, now=6, named=False)
    assert rows.end_listing() == [("a", 30)]


def test_an_answer_to_a_write_does_not_hide_that_its_pod_left_the_selector_F3() -> None:
    pod = slurmd_pod()
    core = Core(node(), pod, slurm_node())
    left = core.graph.slurmd_pods.entries["slurm/" + pod.name].order + 1
    core.see(WriteEcho(replace(pod, drain="x"), left + 5, core.now))
    core.see(Deleted("slurmd_pods", pod.namespace, pod.name, pod.uid, left))
    assert core.graph.host("n1").pod is None


@pytest.mark.parametrize("kube", [True, False])
def test_an_answer_to_a_write_outlives_only_a_listing_without_selector_F3(kube: bool) -> None:
    """A Pod may have left the selector; a Slurm node that was just written exists."""
    rows: Table[Node | SlurmNode] = Table()
    row = A if kube else slurm_node("a")
    rows.put("a", row, order=10, now=0)
    rows.start_listing(begun_s=-1, order=20)
    rows.put("a", row, order=30, now=1, named=False)
    assert rows.end_listing() == ([("a", 30)] if kube else [])


def test_an_answer_to_a_write_never_adds_a_row_F3() -> None:
    core = Core(slurm_node())
    core.see(WriteEcho(slurmd_pod(), 99.0, core.now), WriteEcho(pod(), 99.0, core.now))
    assert not core.graph.slurmd_pods.entries
    assert not core.graph.pods.entries


def test_the_answer_to_a_creation_adds_its_row_N1() -> None:
    """Else the same Pod would be made again until the watch shows it."""
    core = Core()
    core.see(WriteEcho(slurmd_pod(), 99.0, core.now, made=True))
    assert list(core.graph.slurmd_pods.rows()) == [slurmd_pod()]


def test_a_creation_adds_no_row_whose_deletion_is_known_N1_F3() -> None:
    core = Core(slurmd_pod())
    gone = deleted("slurmd_pods", slurmd_pod())
    core.see(gone, WriteEcho(slurmd_pod(), gone.order - 0.5, core.now, made=True))
    assert not core.graph.slurmd_pods.entries


def test_a_creation_from_before_a_listing_adds_no_row_N1_F3() -> None:
    """A restore of etcd between both may have undone it."""
    core = Core()
    asked_s = core.now
    core.see_listing("slurmd_pods", after_s=1.0)
    core.see(WriteEcho(slurmd_pod(), 1e6, asked_s, made=True))
    assert not core.graph.slurmd_pods.entries


def test_an_answer_to_a_write_updates_its_row_of_every_kind() -> None:
    core = Core(node(), slurmd_pod(), slurm_node())
    core.see(pod())
    rows = (node(drain="x"), slurmd_pod(drain="x"), slurm_node(reason="x"), pod(phase="Running"))
    for row in rows:
        core.see(WriteEcho(row, float("inf"), core.now))
    graph = core.graph
    assert rows == (
        graph.nodes.get("kn1"),
        graph.slurmd_pods.get("slurm/slurmd-n1"),
        graph.slurm_nodes.get("n1"),
        graph.pods.get("ns/p1"),
    )


def test_an_earlier_listing_that_ends_later_changes_no_time_S19() -> None:
    """Simulator, seed 30914: the breaker asked for a listing beside a watch that listed again."""
    table: Table[Node] = Table()
    for begun_s in (10.0, 9.0):
        table.start_listing(begun_s=begun_s, order=begun_s)
        table.end_listing()
    assert (table.listed_s, table.agreed_s) == (10.0, 10.0)
