"""Rows N6, N9, N12, N13, N15, N23, N24: which Pods must go, and when they stay after all."""

from typing import Any

import pytest

from sunk_sync.core.model.condition import Condition
from sunk_sync.core.model.facts import Lost
from sunk_sync.core.model.node_set import NodeSet, UpdateStrategy
from sunk_sync.core.model.node_set_actions import Condemn, GetJobEnds, SetStatus
from sunk_sync.core.model.node_set_answers import JobEnds
from sunk_sync.core.views.unregistered import LOGS
from tests.kit.build import Core
from tests.kit.node_sets import (
    LARGER,
    NEWER,
    OTHER_STAMP,
    condemned,
    members,
    node_set,
    record,
    set_pod,
    status,
    wants,
)

IN = "scale-in of NodeSet cpu"
UPDATE = "update of NodeSet cpu"
REGISTRATION = "registration of NodeSet cpu"
OURS = "k8s: pending deletion"
DELETION = "deletion of NodeSet cpu"
ONE_BY_ONE = UpdateStrategy("RollingUpdate", 1, percent=False)
OLD = node_set(4)
NEW = node_set(4, template=NEWER, strategy=ONE_BY_ONE)


def a(ordinal: int, state: str = "IDLE", *, reason: str = "", **fields: Any) -> list[Any]:
    """Make the Pod and the record of one slot."""
    return [
        set_pod(ordinal, **fields),
        record(ordinal, state, reason=reason, reason_by="alice" if reason else ""),
    ]


def going(ordinal: int, state: str, cause: str = IN) -> list[Any]:
    """Make a slot that sunk-sync drained for this."""
    return a(ordinal, f"{state}+DRAIN", reason=f"k8s: {cause}", pending_deletion=cause)


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ([*a(0), *a(1), set_pod(2, node_name="", ready=False)], "it has no Node yet"),
        ([*a(0), *a(1), *a(2, ready=False)], "it is not ready"),
        ([*a(0), *a(1), set_pod(2)], "it is not registered"),
        ([*a(0), *a(1), *a(2, "DOWN")], "its node is down"),
        ([*a(0), *a(1), *a(2, pending_deletion=UPDATE)], "it must go in any case"),
        ([*a(0), *a(1), *a(2, "IDLE+DRAIN")], "it is drained"),
        ([*a(0, "ALLOCATED"), *a(1, "MIXED"), *a(2)], "it is idle"),
        ([*a(0), *a(1), *a(2)], "it has the highest ordinal"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_the_pod_that_costs_least_goes_first_N6(rows: list[Any], why: str, place: int) -> None:
    """Whatever its ordinal is, except in the last case."""
    if why != "it has the highest ordinal":
        rows = [_moved(row, place) for row in rows]
        expected = f"cpu-{place}"
    else:
        expected = "cpu-2"
    assert condemned(Core(node_set(2), *rows)) == {expected: IN}


def _moved(row: Any, place: int) -> Any:
    """Let slot 2 and slot `place` change their names."""
    number = {"cpu-2": place, f"cpu-{place}": 2}.get(row.name)
    if number is None:
        return row
    fresh = set_pod(number) if hasattr(row, "uid") else record(number)
    keep = ("name", "uid", "node_name", "slurm_node", "comment")
    fields = {name: getattr(row, name) for name in row.__struct_fields__}
    fields.update({name: getattr(fresh, name) for name in keep if hasattr(fresh, name)})
    if getattr(row, "node_name", "x") == "":
        fields["node_name"] = ""
    return type(row)(**fields)


def test_who_is_condemned_stays_so_while_the_others_are_busy_too_N6() -> None:
    others = [*a(1, "MIXED"), *a(2, "ALLOCATED")]
    assert condemned(Core(node_set(2), *going(0, "ALLOCATED"), *others)) == {}


def test_a_busy_pod_stays_once_an_idle_one_is_drained_in_its_place_N6() -> None:
    """It had waited for its job, perhaps for days, beside an idle node."""
    core = Core(node_set(1), *going(0, "MIXED"), *a(1, "MIXED"))
    assert condemned(core) == {}
    core.see(record(1))
    assert condemned(core) == {"cpu-1": IN}, "both are condemned until one of them is drained"
    core.see(*going(1, "IDLE"))
    assert condemned(core) == {"cpu-0": ""}


@pytest.mark.parametrize(
    ("other", "taken"),
    [
        (a(1), True),
        (a(1, "MIXED"), False),
        (a(1, "UNKNOWN"), False),
        ([set_pod(1), record(1, assumed=True)], False),
        ([set_pod(1, node_name="", ready=False)], True),
        (a(1, ready=False), False),
        (a(1, "DOWN"), False),
        (a(1, pending_deletion="mine"), False),
        (a(1, deletion_cost=-1), True),
        (a(1, deletion_cost=1), False),
    ],
    ids=[
        "idle", "busy", "perhaps busy", "not read yet", "on no Node", "restarts", "down for now",
        "a person's wish", "of a lower cost", "of a higher cost",
    ],
)  # fmt: skip
def test_which_pods_can_go_in_the_place_of_a_busy_one_N6(other: list[Any], taken: bool) -> None:
    found = condemned(Core(node_set(1), *going(0, "MIXED"), *other))
    assert found == ({"cpu-1": IN} if taken else {})


def test_a_pod_that_gets_a_job_before_its_drain_is_not_tried_again_N6() -> None:
    """So each Pod is taken back at most once, until somebody changes the NodeSet."""
    core = Core(node_set(1), *going(0, "MIXED"), *a(1))
    core.see(*going(1, "MIXED"))
    assert condemned(core) == {}, "which job ends first is asked for"
    core.see(JobEnds(KEY, core.now, (("cpu-0", 5_000),)))
    assert condemned(core) == {"cpu-1": ""}
    core.see(*a(1))
    assert condemned(core) == {}
    core.see(node_set(0), node_set(1, generation=3))
    assert condemned(core) == {"cpu-1": IN}


def test_each_busy_pod_gets_one_in_its_place_and_idle_ones_of_the_scale_in_count_N6() -> None:
    rows = [*going(0, "MIXED"), *going(1, "MIXED"), *going(2, "IDLE"), *a(3), *a(4), *a(5)]
    core = Core(node_set(3), *rows)
    assert condemned(core) == {"cpu-5": IN, "cpu-4": IN}
    core.see(*going(4, "IDLE"), *going(5, "IDLE"))
    assert condemned(core) == {"cpu-0": "", "cpu-1": ""}


KEY = "slurm/cpu"


def asked(core: Core) -> list[tuple[str, ...]]:
    return [one.slurm_nodes for one in wants(core, GetJobEnds)]


BUSY = [*a(0, "MIXED"), *a(1, "MIXED"), *a(2, "MIXED")]


@pytest.mark.parametrize(
    ("spec", "cause"),
    [(node_set(2), IN), (node_set(3, template=NEWER, strategy=ONE_BY_ONE), UPDATE)],
    ids=["scale-in", "update"],
)
@pytest.mark.parametrize(
    ("ends", "first"),
    [
        ((("cpu-0", 900), ("cpu-1", 800), ("cpu-2", 1_000)), "cpu-1"),
        ((("cpu-0", 900),), "cpu-0"),
        ((), "cpu-2"),
    ],
    ids=["all known", "an unknown end comes last", "Slurm does not tell"],
)
def test_of_busy_pods_the_one_goes_first_whose_jobs_end_first_N6_N12(
    spec: NodeSet, cause: str, ends: tuple[tuple[str, int], ...], first: str
) -> None:
    core = Core(spec, *BUSY)
    assert (condemned(core), asked(core)) == ({}, [("cpu-0", "cpu-1", "cpu-2")])
    core.see(JobEnds(KEY, core.now, ends))
    assert (condemned(core), asked(core)) == ({first: cause}, [])


@pytest.mark.parametrize(
    ("replicas", "rows", "asks"),
    [
        (2, BUSY, True),
        (0, BUSY, False),
        (3, BUSY, False),
        (1, [*a(0, "MIXED"), *a(1)], False),
        (1, [*a(0, "MIXED"), *a(1, "MIXED"), *a(2)], True),
        (1, [*going(0, "MIXED"), *a(1, "MIXED")], False),
        (1, [*going(0, "MIXED"), *going(1, "MIXED")], True),
    ],
    ids=["a choice", "all go", "none goes", "one is idle", "one of two", "chosen", "one stays"],
)
def test_the_ends_of_jobs_are_asked_for_only_to_choose_among_busy_pods_N6(
    replicas: int, rows: list[Any], asks: bool
) -> None:
    """Each look lists all jobs of Slurm: at most one a minute."""
    core = Core(node_set(replicas), *rows)
    assert bool(asked(core)) == asks
    core.see(JobEnds(KEY, core.now))
    assert not asked(core)
    core.wait(61.0)
    core.see(node_set(replicas, generation=2))
    assert bool(asked(core)) == asks


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([*a(0, deletion_cost=-5), *a(1), *a(2)], "cpu-0"),
        ([*a(0), *a(1), *a(2, deletion_cost=1)], "cpu-1"),
        ([*a(0, "MIXED", deletion_cost=-5), *a(1), *a(2)], "cpu-0"),
        ([*a(0, deletion_cost=-5), *a(1), *a(2, ready=False, deletion_cost=9)], "cpu-2"),
    ],
    ids=["a lower cost", "a higher one", "also a busy one", "but what serves nobody goes first"],
)
def test_the_pod_of_the_lowest_deletion_cost_goes_first_N6(rows: list[Any], expected: str) -> None:
    """As in a ReplicaSet: whoever sets it knows why."""
    assert condemned(Core(node_set(2), *rows)) == {expected: IN}


@pytest.mark.parametrize("template", [NEWER, None], ids=["another image", "another shape"])
def test_nodes_that_a_person_drained_come_last_and_cost_an_update_nothing_N12_N11(
    template: bytes | None,
) -> None:
    """Two of eight were taken first, and with another shape their names waited for the person."""
    change: dict[str, Any] = {"template": template} if template else {"registration": LARGER}
    spec = node_set(8, **change)
    theirs = [*a(6, "IDLE+DRAIN", reason="fan"), *a(7, "MIXED+DRAIN", reason="fan")]
    free = [one for ordinal in range(6) for one in a(ordinal)]
    assert set(condemned(Core(spec, *free, *theirs))) == {"cpu-5", "cpu-4"}
    fresh = [one for number in range(6) for one in members(number, spec=spec)]
    last = {"cpu-6": UPDATE, "cpu-7": UPDATE} if template else {}
    core = Core(spec, *fresh, *theirs)
    assert condemned(core) == last
    if not template:
        shown = progressing(core)
        assert (shown.status, shown.reason) == ("False", "DrainedByOthers")
        assert shown.message.startswith("cpu-6, cpu-7: drained by alice (fan): ")


def test_a_name_whose_older_record_a_person_drained_costs_an_update_nothing_N12_N11() -> None:
    spec = node_set(4, registration=LARGER, strategy=ONE_BY_ONE)
    rest = [one for ordinal in range(3) for one in a(ordinal)]
    left = record(3, "DOWN+DRAIN", reason="fan", reason_by="alice")
    core = Core(spec, *rest, left)
    assert condemned(core) == {"cpu-2": UPDATE}


def test_if_replicas_rise_again_the_condemnation_is_taken_back_N9() -> None:
    rows = [*a(0), *a(1, "IDLE+DRAIN", pending_deletion=IN), *a(2, "MIXED", pending_deletion=IN)]
    assert condemned(Core(node_set(3), *rows)) == {"cpu-1": "", "cpu-2": ""}
    assert condemned(Core(node_set(2), *rows)) == {"cpu-2": ""}, "the drained one goes on"


def test_a_deletion_that_a_user_asked_for_is_not_taken_back_N9() -> None:
    assert condemned(Core(node_set(3), *a(0), *a(1, pending_deletion="mine"), *a(2))) == {}


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([*a(0), *a(1), *a(2), *a(3)], {"cpu-3"}),
        ([*a(0), *a(1), *a(2), *a(3, "MIXED")], {"cpu-2"}),
        ([*a(0), *a(1), *a(2), *a(3, ready=False)], {"cpu-3"}),
        ([*a(0, ready=False), *a(1), *a(2), *a(3, ready=False)], {"cpu-0", "cpu-3"}),
        ([*a(0), *a(1, "DOWN"), *a(2), *a(3, "IDLE+INVALID_REG")], {"cpu-1", "cpu-3"}),
        ([set_pod(0), set_pod(1), set_pod(2), set_pod(3)], set()),
        ([*a(0), *a(1), *a(2), *a(3, terminating=True)], set()),
        ([*a(0), *a(1), *a(2, pending_deletion=UPDATE), *a(3)], set()),
        ([*a(0), *a(1), *a(2)], set()),
        ([*a(0), *a(1), *a(2), set_pod(3, NEW), record(3, assumed=True)], set()),
    ],
    ids=[
        "one at a time",
        "an idle one first",
        "a broken one costs nothing",
        "two broken ones cost nothing",
        "one that Slurm does not accept costs nothing",
        "ready ones may register at any moment",
        "a terminating one takes the budget",
        "one that is condemned takes the budget before it is drained",
        "one that is missing takes the budget",
        "one that is undrained takes the budget until Slurm is read",
    ],
)
def test_an_update_replaces_within_its_budget_N12(rows: list[Any], expected: set[str]) -> None:
    found = condemned(Core(NEW, *rows))
    assert found == dict.fromkeys(expected, UPDATE)


def test_new_pods_that_do_not_become_ready_stop_the_update_N13() -> None:
    """maxUnavailable 1: the one that is made already is the only one that suffers."""
    made_new = set_pod(3, NEW, ready=False, waiting="ImagePullBackOff: no such image")
    core = Core(NEW, *a(0), *a(1), *a(2), made_new)
    assert condemned(core) == {}
    core.wait(600.0)
    assert condemned(core) == {}
    condition = wants(core)[0].conditions[-1]
    assert (condition.status, condition.reason) == ("False", "PodsNotReady")
    assert condition.message == "cpu-3: ImagePullBackOff: no such image"


@pytest.mark.parametrize(
    ("rows", "shown"),
    [
        ([record(3, "DOWN+NOT_RESPONDING", NEW)], "DOWN+DYNAMIC_NORM+NOT_RESPONDING"),
        ([], f"no node of this name. {LOGS}"),
    ],
    ids=["it does not answer", "it has no record"],
)
def test_a_ready_pod_whose_slurmd_does_not_answer_stops_the_update_and_is_named_N13(
    rows: list[Any], shown: str
) -> None:
    core = Core(NEW, *a(0), *a(1), *a(2), set_pod(3, NEW), *rows)
    core.wait(30.0)
    assert progressing(core).status == "True"
    core.wait(31.0)
    condition = progressing(core)
    assert (condition.status, condition.reason) == ("False", "NotRegistered")
    assert condition.message == f"cpu-3: ready, but Slurm shows {shown}"


def test_a_pod_whose_older_record_has_jobs_is_no_trouble_N13() -> None:
    spec = node_set(1, registration=LARGER)
    core = Core(spec, set_pod(0, spec), record(0, "MIXED+DRAIN", node_set(1), reason=OURS))
    core.wait(600.0)
    assert progressing(core).status == "True"


def progressing(core: Core) -> Condition:
    (status,) = wants(core, SetStatus)
    shown: tuple[Condition, ...] = status.conditions
    return next(one for one in shown if one.type == "Progressing")


def test_the_pods_of_a_scale_in_do_not_widen_the_budget_of_an_update_N12_N6() -> None:
    spec = node_set(3, template=NEWER, strategy=ONE_BY_ONE)
    staying = [one for ordinal in range(3) for one in a(ordinal)]
    leaving = [one for ordinal in (3, 4, 5) for one in a(ordinal, pending_deletion=IN)]
    assert condemned(Core(spec, *staying, *leaving)) == {"cpu-2": UPDATE}


def test_an_update_begins_after_all_pods_of_a_scale_in_are_condemned_N12_N6() -> None:
    """In seed 1279 the one that was condemned for the update became one of the scale-in, while
    another one was being condemned for it: none was left.
    """
    spec = node_set(3, template=NEWER, strategy=ONE_BY_ONE)
    staying = [one for ordinal in range(3) for one in a(ordinal)]
    some = [*a(3), *a(4, pending_deletion=IN), *a(5)]
    assert condemned(Core(spec, *staying, *some)) == {"cpu-3": IN, "cpu-5": IN}
    mine = [*a(3, pending_deletion="mine"), *a(4, pending_deletion=IN), *a(5, pending_deletion=IN)]
    assert condemned(Core(spec, *staying, *mine)) == {"cpu-2": UPDATE}


def test_pods_that_stay_after_all_are_replaced_within_the_budget_N9_N12() -> None:
    """They are drained for a scale-in, and outdated: the budget was not spent on them."""
    both = [*going(2, "IDLE"), *going(3, "IDLE")]
    assert condemned(Core(NEW, *a(0), *a(1), *both)) == {"cpu-2": "", "cpu-3": ""}
    assert condemned(Core(NEW, *a(0), *a(1), *a(2), *going(3, "IDLE"))) == {"cpu-3": ""}


@pytest.mark.parametrize(
    ("replicas", "unavailable", "percent", "number"),
    [(4, 1, False, 1), (4, 3, False, 3), (4, 25, True, 1), (8, 25, True, 2), (2, 10, True, 1)],
)
def test_the_budget_is_a_number_or_a_share_but_at_least_one_N12(
    replicas: int, unavailable: int, percent: bool, number: int
) -> None:
    strategy = UpdateStrategy("RollingUpdate", unavailable, percent=percent)
    spec = node_set(replicas, template=NEWER, strategy=strategy)
    rows = [one for ordinal in range(replicas) for one in a(ordinal)]
    assert len(condemned(Core(spec, *rows))) == number


def test_with_on_delete_no_pod_is_replaced_N15() -> None:
    spec = node_set(2, template=NEWER, strategy=UpdateStrategy("OnDelete"))
    assert condemned(Core(spec, *a(0), *a(1))) == {}


def test_a_template_that_is_put_back_stops_the_update_N12() -> None:
    rows = [*a(0), *a(1, "MIXED+DRAIN", pending_deletion=UPDATE)]
    assert condemned(Core(node_set(2), *rows)) == {"cpu-1": ""}


def test_a_change_of_the_number_alone_restarts_no_pod_N14() -> None:
    assert condemned(Core(node_set(9), *members(0, 1, 2))) == {}


def test_min_ready_seconds_delay_the_next_replacement_N12() -> None:
    spec = node_set(2, template=NEWER, strategy=ONE_BY_ONE, min_ready_s=30.0)
    core = Core(spec, set_pod(0, spec), record(0, spec=spec), *a(1))
    assert condemned(core) == {}
    core.wait(30.0)
    assert condemned(core) == {"cpu-1": UPDATE}


def test_a_record_of_another_shape_is_made_anew_N4() -> None:
    """Its Pod has the new options, but slurmd could not change the record."""
    spec = node_set(2, registration=LARGER, strategy=ONE_BY_ONE)
    rows: list[Any] = [set_pod(0, spec), record(0), set_pod(1, spec), record(1, spec=spec)]
    assert condemned(Core(spec, *rows)) == {"cpu-0": REGISTRATION}


def test_a_node_of_somebody_else_is_not_made_anew_N22() -> None:
    foreign = record(0, stamp=OTHER_STAMP)
    core = Core(node_set(1), set_pod(0), foreign)
    assert condemned(core) == {}
    shown = status(core)
    assert shown is not None
    assert shown.conditions[-1].reason == "NameTaken"


@pytest.mark.parametrize("orphan", [False, True])
def test_a_deleted_nodeset_drains_its_pods_or_leaves_them_N23(orphan: bool) -> None:
    core = Core(node_set(2, deleting=True, orphan=orphan), *a(0), *a(1, "MIXED"))
    assert condemned(core) == ({} if orphan else {"cpu-0": DELETION, "cpu-1": DELETION})


def test_nobody_is_condemned_while_slurm_cannot_be_read_N24() -> None:
    core = Core(node_set(3), *members(0, 1, 2))
    core.see(Lost("slurm_nodes", "down"))
    core.see(node_set(1))
    kept = core.kept(("nodeset", "slurm/cpu"))
    assert len([one for one in kept if isinstance(one, Condemn)]) == 2, "held back"
    core.see(Lost("slurm_nodes", "down for a minute", blind=True))
    assert condemned(core) == {}
