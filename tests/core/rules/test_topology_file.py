"""Rows T6, T7, T8: the one topology file of all NodeSets, and what the script is told to write."""

from typing import Any

import pytest
from msgspec.structs import replace

from sunk_sync.core.model.actions import SetTopology
from sunk_sync.core.model.calls import CallEnded
from sunk_sync.core.model.facts import Lost, Node, Row
from sunk_sync.core.model.keys import CLUSTER
from sunk_sync.core.model.node_set import Stamp, Topology
from sunk_sync.core.model.node_set_actions import SetStatus
from sunk_sync.core.model.pod_spec import Offer
from sunk_sync.core.model.restraint import Paused
from sunk_sync.core.model.topology_file import AnswerTopology, Format, TopologyReport
from sunk_sync.core.translate.topology_lines import content_digest, tree_lines
from tests.core.checks import check_oracle
from tests.kit.build import Core, deleted, node
from tests.kit.node_sets import node_set, plan, record, set_pod, wants

TREE = Topology(("zone", "rack"), "tree:root")
BLOCKS = Topology(("domain",), "blk", blocks=True)
SPEC = node_set(4, topology=TREE)


def place(number: int, rack: str, zone: str = "z1") -> Node:
    """Make the Node of Pod cpu-N, with these labels."""
    labels = (("rack", rack), ("zone", zone))
    return node(f"kcpu-{number}", offer=Offer(labels=tuple(one for one in labels if one[1])))


def rows(racks: str, *, registered: bool = True) -> list[Row]:
    """Make a Pod on a Node in rack r1, r2, … for each digit, with their records."""
    made: list[Row] = [SPEC]
    for number, digit in enumerate(racks):
        made += [set_pod(number, SPEC), place(number, f"r{digit}")]
        if registered:
            made.append(record(number, "IDLE", SPEC))
    return made


class Script:
    """The script beside slurmctld."""

    def __init__(self, core: Core, form: Format = "conf", *, checked: bool = True) -> None:
        self.core, self.format, self._checked = core, form, checked
        self.call = 0
        self.applied = ""
        self.refused = ("", "")

    def ask(self, *, after_s: float = 5.0) -> AnswerTopology:
        """Call, and return the answer."""
        self.core.now += after_s
        self.call += 1
        refused, why = self.refused
        report = TopologyReport(
            self.call, self.format, self.applied, refused, why, asked_s=self.core.now
        )
        self.core.see(report)
        if self._checked:
            check_oracle(self.core.reconciler, self.core.now)
        (answer,) = [
            one for one in self.core.decided(CLUSTER).wants if isinstance(one, AnswerTopology)
        ]
        self.core.see(CallEnded(self.call))
        assert not self.core.decided(CLUSTER).wants
        return answer

    def apply(self) -> list[str]:
        """Call, do what the answer says, and return the lines of switches or blocks."""
        answer = self.ask()
        self.applied = answer.digest or self.applied
        assert answer.digest == content_digest(answer.content)
        return [one for one in answer.content.splitlines() if not one.startswith("#")]


def script_of(*given: Row, form: Format = "conf") -> Script:
    return Script(Core(*given), form)


def condition(script: Script, after_s: float = 0.0) -> tuple[str, str]:
    """Return reason and message of TopologyInSync."""
    script.core.wait(1.0 + after_s)
    (status,) = wants(script.core, SetStatus)
    (found,) = [one for one in status.conditions if one.type == "TopologyInSync"]
    return found.reason, found.message


FIRST = [
    "SwitchName=root Switches=z1",
    "SwitchName=z1 Switches=z1-r1,z1-r2",
    "SwitchName=z1-r1 Nodes=cpu-[0-1]",
    "SwitchName=z1-r2 Nodes=cpu-2",
]


def test_the_file_has_all_slots_with_a_place_and_is_written_once_T6() -> None:
    script = script_of(*rows("112"))
    assert script.apply() == FIRST
    assert script.ask() == AnswerTopology(script.call)


def test_a_slot_without_a_node_or_a_label_is_in_no_leaf_T6() -> None:
    unbound, unlabelled = set_pod(3, SPEC, node_name=""), set_pod(4, SPEC)
    script = script_of(*rows("112"), unbound, unlabelled, place(4, ""))
    assert script.apply() == FIRST


def test_names_that_slurm_does_not_know_yet_stand_in_the_file_T6() -> None:
    script = script_of(*rows("112", registered=False))
    assert script.apply() == FIRST


def test_each_registration_needs_a_reconfigure_and_no_other_news_does_T6() -> None:
    """Slurm 24.11 refuses jobs of a node that registered after the last reconfigure (2178)."""
    script = script_of(*rows("112", registered=False))
    script.apply()
    script.core.see(record(0, "IDLE", SPEC))
    assert script.apply() == FIRST
    script.core.see(record(0, "ALLOCATED", SPEC), replace(set_pod(0, SPEC), ready=False))
    assert not script.ask().digest


@pytest.mark.parametrize("shape", ["", "0123abcd"], ids=["the same shape", "another shape"])
def test_a_record_that_was_made_again_must_join_again_T6(shape: str) -> None:
    script = script_of(*rows("11"))
    script.apply()
    script.core.see(deleted("slurm_nodes", record(0, "IDLE", SPEC)))
    assert not script.ask().digest
    stamp = plan(SPEC).stamp
    again = record(0, "IDLE", SPEC, stamp=Stamp(stamp.node_set, shape or stamp.shape))
    script.core.see(again)
    assert script.apply()
    assert not script.ask().digest


def test_a_slot_that_restarts_changes_nothing_T6() -> None:
    script = script_of(*rows("112"))
    script.apply()
    script.core.see(deleted("slurmd_pods", set_pod(0, SPEC)))
    assert not script.ask().digest
    script.core.see(set_pod(0, SPEC, uid="new", node_name=""))
    assert not script.ask().digest
    script.core.see(set_pod(0, SPEC, uid="new"))
    assert not script.ask().digest


def test_a_slot_that_is_gone_leaves_the_file_at_the_next_change_T6_T7() -> None:
    script = script_of(*rows("112"))
    script.apply()
    script.core.see(replace(SPEC, replicas=2, generation=2))
    script.core.see(deleted("slurmd_pods", set_pod(2, SPEC)))
    script.core.see(deleted("slurm_nodes", record(2, "IDLE", SPEC)))
    assert not script.ask().digest
    script.core.see(place(1, "r3"))
    assert script.apply() == [
        "SwitchName=root Switches=z1",
        "SwitchName=z1 Switches=z1-r1,z1-r3",
        "SwitchName=z1-r1 Nodes=cpu-0",
        "SwitchName=z1-r3 Nodes=cpu-1",
    ]


def test_a_switch_stays_as_long_as_a_record_stands_there_T7() -> None:
    script = script_of(*rows("112"))
    script.apply()
    script.core.see(deleted("slurmd_pods", set_pod(2, SPEC)), place(1, "r3"))
    assert "SwitchName=z1-r2 Nodes=cpu-2" in script.apply()


def test_a_record_that_nobody_wants_any_more_keeps_its_place_T7() -> None:
    script = script_of(*rows("112"))
    script.apply()
    script.core.see(replace(SPEC, replicas=2, generation=2))
    script.core.see(deleted("slurmd_pods", set_pod(2, SPEC)), place(1, "r3"))
    assert "SwitchName=z1-r2 Nodes=cpu-2" in script.apply()


def test_a_slot_that_waits_for_a_node_keeps_its_place_T6() -> None:
    script = script_of(*rows("112"))
    script.apply()
    script.core.see(deleted("slurmd_pods", set_pod(2, SPEC)))
    script.core.see(deleted("slurm_nodes", record(2, "IDLE", SPEC)))
    script.core.see(set_pod(2, SPEC, uid="new", node_name=""), place(1, "r3"))
    assert "SwitchName=z1-r2 Nodes=cpu-2" in script.apply()


def test_a_pod_that_is_bound_and_another_label_change_the_file_T6() -> None:
    script = script_of(*rows("112"), set_pod(3, SPEC, node_name=""), place(3, "r2"))
    script.apply()
    script.core.see(set_pod(3, SPEC))
    assert script.apply()[-1] == "SwitchName=z1-r2 Nodes=cpu-[2-3]"
    script.core.see(replace(SPEC, topology=Topology(("rack",), "tree:root"), generation=2))
    assert script.apply()[-1] == "SwitchName=root Switches=r1,r2"


def test_a_moved_label_moves_the_node_T6() -> None:
    script = script_of(*rows("112"))
    script.apply()
    script.core.see(place(2, "r1"))
    assert script.apply()[-1] == "SwitchName=z1-r1 Nodes=cpu-[0-2]"


def test_an_empty_file_is_never_wanted_T7() -> None:
    assert not script_of(SPEC).ask().digest
    script = script_of(*rows("1"))
    script.apply()
    script.core.see(deleted("node_sets", SPEC))
    script.core.see(deleted("slurmd_pods", set_pod(0, SPEC)))
    script.core.see(deleted("slurm_nodes", record(0, "IDLE", SPEC)))
    assert not script.ask().digest


@pytest.mark.parametrize("source", ["nodes", "slurmd_pods", "node_sets", "slurm_nodes"])
def test_nothing_is_written_from_an_incomplete_picture_T7(source: Any) -> None:
    script = script_of(*rows("112"))
    script.core.see(Lost(source, "gone"))
    answer = script.ask()
    assert (answer.digest, answer.why) == ("", f"cannot be read now: {source}")


def test_a_file_planned_before_an_outage_is_not_written_in_it_T7() -> None:
    script = script_of(*rows("112"))
    assert script.ask().digest
    script.core.see(Lost("slurm_nodes", "gone"))
    assert not script.ask().digest


def test_nothing_is_written_during_a_pause_T6() -> None:
    script = script_of(*rows("112"))
    script.core.see(Paused("paused until noon"))
    script.call += 1
    script.core.see(TopologyReport(script.call, "conf", "", asked_s=script.core.now))
    wants = script.core.decided(CLUSTER).wants
    assert AnswerTopology(script.call, why="paused until noon") in wants
    script.core.see(CallEnded(script.call), Paused(""))
    assert script.apply() == FIRST


def test_the_same_facts_give_the_same_content_after_a_restart_T6() -> None:
    script = script_of(*rows("112"))
    script.apply()
    after = script_of(*reversed(rows("112")))
    after.applied = script.applied
    assert not after.ask().digest


def test_a_switch_with_switches_and_nodes_gets_a_leaf_of_its_own_T8() -> None:
    lines = tree_lines({"a": "tree:root:z1", "b": "tree:root:z1:z1-r1", "c": "tree:top:z1"}, {})
    assert lines.splitlines()[:-1] == [
        "SwitchName=root Switches=z1",
        "SwitchName=z1 Switches=z1-nodes,z1-r1",
        "SwitchName=z1-nodes Nodes=a,c",
        "SwitchName=z1-r1 Nodes=b",
    ]


def test_the_condition_follows_the_script_T6() -> None:
    spec = replace(SPEC, replicas=1)
    script = script_of(spec, set_pod(0, spec), place(0, "r1"), record(0, "IDLE", spec))
    assert condition(script)[0] == "NoScript"
    script.apply()
    assert condition(script) == ("Pending", "cpu-0: slurmctld does not use their place yet")
    digest, script.applied = script.applied, ""
    script.refused = (digest, "fatal: no such thing")
    script.ask()
    said = "slurmctld refuses the topology file: fatal: no such thing"
    assert condition(script) == ("Refused", said)
    script.applied, script.refused = digest, ("", "")
    script.ask()
    assert condition(script) == ("InSync", "1 Slurm node has its place in topology.conf")
    assert condition(script, after_s=70.0)[0] == "ScriptSilent"
    script.ask()
    assert condition(script)[0] == "InSync"
    script.core.see(place(0, ""))
    script.apply()
    script.ask()
    assert condition(script)[0] == "NoPlace"


def block_rows(*domains: str, shown: str = "") -> list[Row]:
    spec = node_set(len(domains), topology=BLOCKS)
    made: list[Row] = [spec]
    for number, domain in enumerate(domains):
        offer = Offer(labels=(("domain", domain),))
        made += [set_pod(number, spec), node(f"kcpu-{number}", offer=offer)]
        made.append(record(number, "IDLE", spec, topology=shown))
    return made


def test_a_node_is_told_its_block_only_after_slurmctld_has_read_it_T6() -> None:
    script = script_of(*block_rows("b1", "b2"), form="yaml")
    assert condition(script)[0] == "NoScript"
    assert script.apply() == ["blk b1", "blk b2"]
    assert not script.core.wants("cpu-0", SetTopology)
    assert condition(script)[0] == "Pending"
    script.ask()
    assert script.core.wants("cpu-0", SetTopology) == [SetTopology("cpu-0", "blk:b1")]
    assert script.core.wants("cpu-1", SetTopology) == [SetTopology("cpu-1", "blk:b2")]


def test_a_block_that_a_node_names_never_leaves_the_file_T7() -> None:
    """slurmctld 26.05 would end at the reconfigure."""
    given = block_rows("b2", shown="blk:b1")
    script = script_of(*given, form="yaml")
    assert script.apply() == ["blk b1", "blk b2"]
    script.core.see(record(0, "IDLE", given[0], topology="blk:b2"))  # type: ignore[arg-type]
    assert not script.ask().digest
    offer = Offer(labels=(("domain", "b3"),))
    script.core.see(node("kcpu-0", offer=offer))
    assert script.apply() == ["blk b2", "blk b3"]


def test_blocks_in_slurm_24_are_not_supported_T6() -> None:
    spec = node_set(1, topology=BLOCKS)
    row = record(0, "IDLE", spec, topology=None)
    script = script_of(spec, set_pod(0, spec), node("kcpu-0"), row)
    script.ask()
    assert condition(script) == ("NotSupported", "blocks need Slurm 25.05 or later")


@pytest.mark.parametrize(("over_s", "most"), [(20, 2), (60, 4)])
def test_a_hundred_nodes_that_arrive_among_500_cost_few_reconfigures_T6(
    over_s: int, most: int
) -> None:
    """Each registers 8 s after it was bound. The script calls every 5 s."""
    spec = node_set(600, topology=TREE)
    given: list[Row] = [spec]
    for number in range(500):
        given += [set_pod(number, spec), place(number, f"r{number // 20}")]
        given.append(record(number, "IDLE", spec))
    script = Script(Core(*given), checked=False)
    assert script.apply()
    reconfigured, last_s = 0, script.core.now
    begun_s = script.core.now
    events = [(over_s * number // 100, number) for number in range(100)]
    for second in range(over_s + 60):
        script.core.now = begun_s + second
        for at, number in events:
            if at == second:
                script.core.see(set_pod(500 + number, spec), place(500 + number, "new"))
            if at + 8 == second:
                script.core.see(record(500 + number, "IDLE", spec))
        if second % 5 == 0 and script.core.now >= last_s + 30 and script.apply():
            reconfigured, last_s = reconfigured + 1, begun_s + second
    assert 1 <= reconfigured <= most
    assert not script.ask().digest


def test_an_upgrade_of_slurm_leaves_no_switches_in_the_file_of_blocks_T6() -> None:
    script = script_of(*rows("12"))
    script.apply()
    script.format = "yaml"
    assert script.ask() == AnswerTopology(script.call)
    assert not script.core.graph.node_set_snapshots.topology.state.wanted.content
