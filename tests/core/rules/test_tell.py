"""The Events of a NodeSet: what `kubectl describe nset` shows of it."""

from typing import Any

import pytest
from msgspec.structs import replace

from sunk_sync.core.model.actions import RecordEvent
from sunk_sync.core.model.condition import Condition
from sunk_sync.core.model.condition_kinds import CONDITIONS
from sunk_sync.core.model.facts import Lost
from sunk_sync.core.model.keys import node_set_key
from sunk_sync.core.model.node_set import NodeSet, UpdateStrategy
from sunk_sync.core.model.node_set_answers import CreateRefused
from sunk_sync.core.rules.node_set.tell import TROUBLES
from tests.kit.build import Core, deleted, slurm_node
from tests.kit.node_sets import NEWER, members, node_set, plan, record, set_pod, status

KEY = node_set_key("slurm/cpu")
IN = "scale-in of NodeSet cpu"


def told(core: Core) -> dict[str, str]:
    """Return the message of each wanted Event, by its reason; all are about the NodeSet."""
    wants = [one for one in core.decided(KEY).wants if isinstance(one, RecordEvent)]
    assert {one.reference.kind for one in wants} <= {"NodeSet"}
    return {one.reason: one.message for one in wants}


def shown(core: Core, spec: NodeSet) -> NodeSet:
    """Return the NodeSet with the status that sunk-sync wants to write."""
    found = status(core)
    if found is None:
        return spec
    return replace(
        spec,
        counts=found.counts,
        conditions=found.conditions,
        observed_generation=spec.generation,
        shown_revision=found.revision,
    )


def test_at_rest_a_nodeset_gets_no_event() -> None:
    assert told(Core(node_set(2), *members(0, 1))) == {}


def test_a_scale_out_is_told_with_the_pods_that_it_makes_N1() -> None:
    core = Core(node_set(2), *members(0, 1))
    core.see(node_set(5))
    assert told(core) == {
        "ScaledOut": "from 2 to 5 Pods",
        "CreatingPods": "makes 3 Pods: cpu-2, cpu-3, cpu-4",
    }
    core.see(*members(2, 3, 4))
    assert told(core) == {"ScaledOut": "from 2 to 5 Pods"}


def test_a_scale_in_is_told_with_the_pods_that_must_go_N6() -> None:
    core = Core(node_set(5), *members(0, 1, 2, 3, 4))
    core.see(node_set(3))
    assert told(core) == {"ScaledIn": "from 5 to 3 Pods"}
    core.see(*(set_pod(one, pending_deletion=IN) for one in (3, 4)))
    must_go = "must go, each once its jobs have ended: 2 Pods: cpu-3, cpu-4 (scale-in)"
    assert told(core) == {"ScaledIn": "from 5 to 3 Pods", "EndingPods": must_go}
    core.see(*(deleted("slurmd_pods", set_pod(one)) for one in (3, 4)))
    assert told(core) == {"ScaledIn": "from 5 to 3 Pods"}


def test_a_restart_tells_no_scaling_of_before_and_only_the_last_one_is_told() -> None:
    assert "ScaledOut" not in told(Core(node_set(5), *members(0, 1)))
    core = Core(node_set(2), *members(0, 1))
    for replicas in (4, 3, 9):
        core.see(node_set(replicas))
    assert {one for one in told(core) if one.startswith("Scaled")} == {"ScaledOut"}
    assert told(core)["ScaledOut"] == "from 3 to 9 Pods"


def test_a_name_that_is_taken_or_failed_is_not_told_as_made_N22_N21() -> None:
    core = Core(node_set(3), *members(0), slurm_node("cpu-1"))
    assert told(core)["CreatingPods"] == "makes Pod cpu-2"
    core.see(CreateRefused("slurm", "cpu", "cpu-2", "quota"))
    assert "CreatingPods" not in told(core)


@pytest.mark.parametrize(
    ("strategy", "how"),
    [("RollingUpdate", "one by one"), ("OnDelete", "once somebody deletes them")],
)
def test_an_update_is_told_when_it_begins_and_when_it_ends_N12(strategy: Any, how: str) -> None:
    new = node_set(2, template=NEWER, strategy=UpdateStrategy(strategy))
    revision = plan(new).revision
    core = Core(node_set(2), *members(0, 1))
    core.see(new)
    begun = {"UpdateBegun": f"Pods get revision {revision} of the template, {how}"}
    assert told(core) == begun
    core.see(set_pod(0, new))
    assert told(core) == begun, "one of two has it"
    core.see(set_pod(1, new))
    assert told(core) == {"UpdateEnded": f"all Pods have revision {revision} of the template"}


def test_after_a_restart_within_an_update_its_end_is_told_N12() -> None:
    new = node_set(2, template=NEWER)
    old = Core(new, *members(0, 1))
    before = shown(old, new)
    assert before.counts.updated == 0
    core = Core(before, set_pod(0, new), record(0), set_pod(1, new), record(1))
    assert "UpdateEnded" in told(core)
    core.see(shown(core, before))
    assert told(core) == {}


def test_an_update_has_not_ended_while_a_new_pod_is_not_ready_N13() -> None:
    new = node_set(2, template=NEWER)
    core = Core(node_set(2), *members(0, 1))
    core.see(new, set_pod(0, new), set_pod(1, new, ready=False))
    assert "UpdateEnded" not in told(core)


def test_a_deleted_nodeset_says_what_it_waits_for_N23() -> None:
    pod = set_pod(0, pending_deletion="deletion of NodeSet cpu")
    core = Core(node_set(1, deleting=True), pod, record(0, "MIXED+DRAIN"))
    assert told(core) == {
        "EndingPods": "must go, each once its jobs have ended: Pod cpu-0 (deletion)",
        "NodeSetDeleted": "it goes once its Pods have ended and their Slurm nodes are gone",
    }
    assert told(Core(node_set(1, deleting=True, orphan=True), set_pod(0), record(0))) == {}


def test_each_condition_that_says_false_is_a_warning_with_its_words_N13_N21_N22() -> None:
    (progressing,) = [kind for kind in CONDITIONS if kind.type == "Progressing"]
    reasons = {one.reason for one in progressing.meanings if one.status == "False"}
    assert reasons | {"RecordsVanished"} == TROUBLES.keys()
    for reason, kind in TROUBLES.items():
        conditions = (Condition("Progressing", "False", reason, f"cpu-0: {reason}"),)
        core = Core(node_set(1, conditions=conditions), *members(0))
        assert told(core)[reason] == f"cpu-0: {reason}"
        assert kind.type == "Warning"


def test_nothing_is_told_before_all_was_listed_and_troubles_stay_while_slurm_is_unreadable() -> (
    None
):
    assert told(Core(node_set(3), listed=False)) == {}
    core = Core(node_set(3), *members(0))
    core.see(Lost("slurm_nodes", "down", blind=True))
    assert told(core) == {"CreatingPods": "makes 2 Pods: cpu-1, cpu-2"}


def test_hundreds_of_pods_are_one_event_of_bounded_length() -> None:
    core = Core(node_set(200))
    assert told(core) == {"CreatingPods": "makes 200 Pods: cpu-0, cpu-1, cpu-2 and 197 more"}
