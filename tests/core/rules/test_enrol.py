"""Rows N3, N5: Pods whose records vanished from Slurm are made anew, and not too many at once."""

from typing import Any

import pytest
from msgspec.structs import replace

from sunk_sync.core.model.actions import RecordEvent
from sunk_sync.core.model.condition import Condition
from sunk_sync.core.model.facts import Confirmed, SlurmdPod
from sunk_sync.core.model.node_set_actions import RemakePod, SetStatus
from sunk_sync.core.model.node_set_answers import ControllerAge, NodeLimit
from sunk_sync.core.views.unregistered import LOGS
from tests.kit.build import BOUND, Core, deleted, node
from tests.kit.node_sets import members, node_set, record, set_pod, status, wants

OLD_S = 1000.0


def polled(core: Core, *, started_s: float | None = None) -> None:
    """Let a second pass, then read Slurm, which shows no change, and since when slurmctld runs."""
    core.now += 1.0
    since_s = core.now - OLD_S if started_s is None else started_s
    core.see(ControllerAge(core.now, core.now - since_s), Confirmed("slurm_nodes", core.now))


def vanished(seconds: float, **fields: Any) -> Core:
    core = Core(node_set(1), node("kcpu-0"), set_pod(0, **fields), record(0))
    core.see(deleted("slurm_nodes", record(0)))
    for _ in range(int(seconds)):
        polled(core)
    return core


@pytest.mark.parametrize(
    ("seconds", "fields", "goes"),
    [(14, {}, False), (17, {}, True), (60, {"ready": False}, False), (60, {"owner": ""}, False)],
    ids=["too early", "after two listings", "not ready", "not of a NodeSet"],
)
def test_a_pod_whose_record_vanished_is_made_anew_N3(
    seconds: float, fields: dict[str, Any], goes: bool
) -> None:
    core = vanished(seconds, **fields)
    assert len(core.wants("cpu-0", RemakePod)) == goes


def test_a_pod_on_whose_node_a_workload_pod_stands_is_not_made_anew_N3() -> None:
    """Its job may still run there, although Slurm shows no node."""
    core = vanished(10)
    core.see(replace(BOUND, node_name="kcpu-0"))
    for _ in range(30):
        polled(core)
    assert not core.wants("cpu-0", RemakePod)


def remade_after_s(core: Core, started_s: float) -> float:
    """Poll slurmctld, which started then; return when the Pod is to be made anew, from now."""
    begun_s = core.now
    while not core.wants("cpu-0", RemakePod):
        polled(core, started_s=started_s)
        assert core.now < begun_s + 400
    return core.now - begun_s


@pytest.mark.parametrize(
    ("started_ago_s", "goes_after_s"),
    [(0.0, 60.0), (20.0, 40.0), (44.0, 16.0), (50.0, 15.0), (5000.0, 15.0)],
)
def test_no_pod_is_made_anew_in_the_first_minute_of_slurmctld_N3(
    started_ago_s: float, goes_after_s: float
) -> None:
    core = vanished(0)
    assert remade_after_s(core, core.now - started_ago_s) == pytest.approx(goes_after_s, abs=1)


def vain(core: Core) -> float:
    """Let the kubelet start a Pod, and wait until it is to be made anew; return how long it had."""
    pod = set_pod(0, uid=f"uid-{core.now:g}")
    core.see(pod)
    had_s = remade_after_s(core, core.now - OLD_S)
    core.see(replace(pod, terminating=True), deleted("slurmd_pods", pod))
    return had_s


def test_a_slurmd_that_never_registers_is_made_anew_ever_more_rarely_N3() -> None:
    """Such as `sleep 600` as its command, or one node more than MaxNodeCount."""
    core = Core(node_set(1), node("kcpu-0"))
    assert [round(vain(core) / 15) for _ in range(7)] == [1, 2, 4, 8, 16, 20, 20]


@pytest.mark.parametrize(("stood_s", "had_s"), [(299, 240), (301, 30)], ids=["failed", "stood"])
def test_a_record_that_stood_for_a_while_ends_the_long_waits_N3(
    stood_s: float, had_s: float
) -> None:
    """Somebody may delete it again and again. The Pod that went without a record counts, too."""
    core = Core(node_set(1), node("kcpu-0"))
    for _ in range(3):
        vain(core)
    core.see(set_pod(0), record(0))
    core.wait(stood_s)
    core.see(deleted("slurm_nodes", record(0)))
    core.see(deleted("slurmd_pods", set_pod(0)))
    assert vain(core) == pytest.approx(had_s, abs=2)


def test_the_nodeset_says_that_slurmd_does_not_register_and_goes_on_saying_so_N3() -> None:
    core = Core(node_set(1), node("kcpu-0"))
    vain(core)
    assert progressing(core).status == "True", "it may have been a mishap"
    vain(core)
    starting = set_pod(0, ready=False)
    for row in (None, starting, replace(starting, ready=True)):
        core.see(*([row] if row is not None else []))
        shown = progressing(core)
        assert (shown.status, shown.reason) == ("False", "NotRegistered")
        assert shown.message.startswith("cpu-0: Slurm shows no node of this name. ")
        assert "2 times in a row, and the next one has 60 s" in shown.message
        assert shown.message.endswith(LOGS)
    core.see(set_pod(0), record(0))
    assert progressing(core).reason == "Complete"


@pytest.mark.parametrize(("most", "named"), [(2, True), (3, False)])
def test_the_nodeset_names_max_node_count_when_it_is_reached_N3(most: int, named: bool) -> None:
    core = Core(node_set(3), node("kcpu-0"), *members(0, 1), set_pod(2))
    core.see(NodeLimit(most))
    for _ in range(62):
        polled(core)
    shown = progressing(core)
    assert shown.message.startswith("cpu-2: ready, but Slurm shows no node of this name. ")
    why = "Slurm has 2 nodes, and MaxNodeCount in slurm.conf allows 2"
    assert shown.message.endswith(why if named else LOGS)


def progressing(core: Core) -> Condition:
    shown = status(core)
    assert shown is not None
    return next(one for one in shown.conditions if one.type == "Progressing")


def test_a_start_of_slurmctld_withdraws_what_the_breaker_held_N3_N5(many_vanished: Core) -> None:
    assert held(many_vanished)
    names = [pod.name for pod in FIFTY_PODS]
    polled(many_vanished, started_s=many_vanished.now)
    assert not held(many_vanished)
    assert not any(many_vanished.wants(name, RemakePod) for name in names)
    assert "started less than a minute ago" in many_vanished.verdict("cpu-0").because


@pytest.mark.parametrize("age_s", [None, 5000.0], ids=["never read", "read before the listing"])
def test_no_pod_is_made_anew_while_the_age_of_slurmctld_is_unknown_N3(
    age_s: float | None,
) -> None:
    """Another slurmctld may have answered the listing, or GET /diag fails."""
    core = Core(node_set(1), node("kcpu-0"), set_pod(0))
    if age_s is not None:
        core.see(ControllerAge(core.now, age_s))
    for _ in range(100):
        core.now += 1.0
        core.confirm("slurm_nodes")
    assert not core.wants("cpu-0", RemakePod)
    assert "GET /diag" in core.verdict("cpu-0").because


@pytest.mark.parametrize(
    ("rows", "asks"),
    [
        ([set_pod(0)], True),
        ([set_pod(0), record(0)], False),
        ([set_pod(0, ready=False)], False),
        ([set_pod(0, owner="")], False),
        ([set_pod(0, ready=False), set_pod(1), record(1)], False),
        ([set_pod(0, ready=False), set_pod(1)], True),
    ],
    ids=[
        "no record",
        "it has its record",
        "it starts",
        "not of a NodeSet",
        "one starts, one is registered",
        "one starts, one is ready",
    ],
)
def test_the_age_of_slurmctld_is_asked_for_only_while_a_ready_pod_has_no_record_N3(
    rows: list[Any], asks: bool
) -> None:
    core = Core(node_set(2), *rows)
    of = core.graph.node_sets.registrations
    assert of.is_ready_pod_without_record() == asks
    for row in [one for one in rows if isinstance(one, SlurmdPod)]:
        core.see(replace(row, ready=not row.ready))
        core.see(row)
        assert of.is_ready_pod_without_record() == asks
        core.see(deleted("slurmd_pods", row))
    assert not of.is_ready_pod_without_record()


FIFTY = node_set(50)
FIFTY_PODS = [set_pod(ordinal, FIFTY) for ordinal in range(50)]


@pytest.fixture
def many_vanished() -> Core:
    """Fifty Pods have no record, and five may go in a minute."""
    core = Core(FIFTY, *FIFTY_PODS, max_drains_per_minute=5)
    for _ in range(20):
        polled(core)
    return core


def held(core: Core) -> list[Condition]:
    """Return the condition Held of the NodeSet, if it is to be shown."""
    shown = status(core)
    assert shown is not None
    return [one for one in shown.conditions if one.type == "Held"]


def test_pods_that_lost_their_records_are_limited_by_the_breaker_N5(many_vanished: Core) -> None:
    names = [pod.name for pod in FIFTY_PODS]
    assert all(many_vanished.wants(name, RemakePod) for name in names)
    gone = [name for name in names if many_vanished.allowed(name, RemakePod)]
    told = [name for name in names if many_vanished.allowed(name, RecordEvent)]
    assert len(gone) == 5
    assert told == gone, "the Event comes with the deletion"


def test_the_nodeset_shows_how_many_deletions_are_held_and_what_to_do_N5(
    many_vanished: Core,
) -> None:
    (shown,) = held(many_vanished)
    assert (shown.status, shown.reason) == ("True", "RecordsVanished")
    assert shown.message.startswith("45 Pods wait to be made anew (cpu-")
    for told in (" and 42 more)", "--max-drains-per-minute", "sunk-sync pause"):
        assert told in shown.message


BACK = [record(ordinal, spec=FIFTY) for ordinal in range(50)]


@pytest.mark.parametrize(
    ("rows", "gone", "left"),
    [
        (BACK, [], 0),
        (BACK[20:], [], 15),
        ([], FIFTY_PODS[20:], 15),
        ([replace(pod, terminating=True) for pod in FIFTY_PODS[20:]], [], 15),
        ([replace(pod, terminating=True) for pod in FIFTY_PODS], [], 0),
    ],
    ids=[
        "all records are back",
        "some records are back",
        "somebody deleted some of the Pods",
        "some are being deleted",
        "all are being deleted",
    ],
)
def test_the_condition_held_goes_with_what_is_held_N5(
    many_vanished: Core, rows: list[Any], gone: list[SlurmdPod], left: int
) -> None:
    many_vanished.see(*rows, *(deleted("slurmd_pods", pod) for pod in gone))
    conditions = held(many_vanished)
    assert [one.message.split(" ")[0] for one in conditions] == ([str(left)] if left else [])


def test_held_deletions_go_slowly_after_a_second_listing_and_the_number_falls_N5(
    many_vanished: Core,
) -> None:
    many_vanished.now += 61.0
    many_vanished.see(ControllerAge(many_vanished.now, OLD_S))
    many_vanished.see_listing("slurm_nodes")
    many_vanished.wait(2.0)
    (shown,) = held(many_vanished)
    assert shown.message.startswith("40 Pods")


def test_another_nodeset_shows_no_held_deletion_N5(many_vanished: Core) -> None:
    many_vanished.see(node_set(1, name="gpu", uid="uid-gpu", prefix="gpu"))
    (shown,) = wants(many_vanished, SetStatus, key="slurm/gpu")
    assert [one.type for one in shown.conditions] == ["Available", "Progressing"]
