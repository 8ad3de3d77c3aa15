"""Each problem that explain finds leads to an entry of docs/troubleshooting.md."""

import ast
import re

import pytest

from sunk_sync.core.explain import problems
from sunk_sync.core.explain.account import Account, Kind
from sunk_sync.core.explain.explain import explain
from sunk_sync.core.model.condition import Condition
from sunk_sync.core.model.facts import Lost, Row
from tests.docs.pages import DOCS, ROOT, text_of
from tests.kit.build import POD, Core, job, node, pod, room, running, slurm_node, slurmd_pod
from tests.kit.node_sets import node_set

ANCHORS = {*re.findall(r'<a id="([^"]+)">', text_of(DOCS / "troubleshooting.md"))}


def found(core: Core, kind: Kind, name: str) -> tuple[str, ...]:
    answer = explain(core.reconciler, kind=kind, name=name, now=core.now)
    assert isinstance(answer, Account)
    assert {one.lower() for one in answer.problems} <= ANCHORS
    return answer.problems


def host_with(state: str, reason: str = "") -> list[Row]:
    return [*room()[:2], slurm_node("n1", state, reason=reason)]


@pytest.mark.parametrize(
    ("rows", "names"),
    [
        (room(), ()),
        (host_with("IDLE+DRAIN", "k8s: node cordoned"), ("Drained",)),
        (host_with("IDLE+DRAIN", "fan broken"), ("DrainedInSlurm",)),
        (host_with("DOWN+NOT_RESPONDING"), ("NotResponding", "SlurmNodeState")),
        (
            [*room(), slurmd_pod("n1", name="other", uid="u2", node_name="kn2"), node("kn2")],
            ("SlurmNodeConflict",),
        ),
    ],
    ids=["in order", "drained by sunk-sync", "drained in Slurm", "down", "claimed twice"],
)
def test_a_host_names_its_problems(rows: list[Row], names: tuple[str, ...]) -> None:
    assert found(Core(*rows), "host", "n1") == names


@pytest.mark.parametrize(
    ("rows", "names"),
    [
        ([job(POD, reason="Resources")], ("Unschedulable",)),
        ([running(POD)], ()),
    ],
    ids=["waits", "runs"],
)
def test_a_waiting_pod_names_the_reason_of_its_condition(
    rows: list[Row], names: tuple[str, ...]
) -> None:
    core = Core(*room(), POD, *rows)
    core.wait(5)
    assert found(core, "pod", f"{POD.namespace}/{POD.name}")[: len(names)] == names


def test_a_pod_with_mistakes_leads_to_the_entry_of_its_event_once_the_condition_is_shown() -> None:
    core = Core(*room(), pod(settings=(("timeout", "soon"),)))
    assert found(core, "pod", "p1") == ("InvalidPod",)


def test_a_source_that_cannot_be_read_is_a_problem_of_each_object() -> None:
    core = Core(*room())
    core.see(Lost("slurm_nodes", "no answer"))
    assert "SunkSyncSourceUnreadable" in found(core, "host", "n1")


def test_a_node_set_names_the_reasons_of_its_conditions_that_are_false() -> None:
    shown = (Condition("Available", "False", "TooFew", "0 of 3"), Condition("A", "True", "B", ""))
    core = Core(*room(), node_set(conditions=shown), node_sets=True)
    assert found(core, "nodeset", "slurm/cpu") == ("TooFew",)


def test_each_name_that_explain_can_give_has_an_entry() -> None:
    path = ROOT / "sunk_sync" / "core" / "explain" / "problems.py"
    tree = ast.parse(path.read_text())
    names = {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and re.fullmatch(r"(?:[A-Z][a-z]+){2,}|Drained", node.value)
    }
    assert len(names) > 5
    assert {name.lower() for name in names} - {"true", "false"} <= ANCHORS
    assert {problems.DEFECT, problems.UNREADABLE} <= names
