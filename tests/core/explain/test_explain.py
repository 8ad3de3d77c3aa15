"""Explain: facts in, account out."""

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from sunk_sync.core.explain.account import Account, Kind, Unknown
from sunk_sync.core.explain.explain import explain
from sunk_sync.core.model.facts import Lost, Row
from sunk_sync.core.model.pod_spec import PodSpec
from tests.kit.build import (
    BOUND,
    OFFER,
    POD,
    Core,
    deleted,
    gang_pod,
    job,
    node,
    room,
    running,
    slurm_node,
    slurmd_pod,
)
from tests.kit.node_sets import node_set, record, set_pod

CORDONED = node("kn1", unschedulable=True, cordon_reason="kernel update", offer=OFFER)
OURS = slurm_node("n1", "IDLE+DRAIN", reason="k8s: node cordoned: kernel update")
THEIRS = slurm_node("n1", "IDLE+DRAIN", reason="fan broken")


def told(core: Core, kind: Kind, name: str) -> Account:
    answer = explain(core.reconciler, kind=kind, name=name, now=core.now)
    assert isinstance(answer, Account), answer
    return answer


def missed(core: Core, kind: Kind, name: str) -> Unknown:
    answer = explain(core.reconciler, kind=kind, name=name, now=core.now)
    assert isinstance(answer, Unknown), answer
    return answer


def says(account: Account, what: str) -> str:
    return " / ".join(fact.says for fact in account.facts if fact.what == what)


@pytest.mark.parametrize(
    ("rows", "decision", "cure"),
    [
        (room(), "shown in Kubernetes: IDLE", ""),
        ([CORDONED, slurmd_pod(), OURS], "drained: Node kn1 is cordoned", "kubectl uncordon kn1"),
        ([*room()[:2], THEIRS], "left alone: drained in Slurm (fan broken)", "state=undrain"),
        ([*room()[:2], slurm_node("n1", "DOWN")], "shown in Kubernetes: DOWN", "state=resume"),
        (
            [*room(), slurmd_pod("n1", name="other", uid="u2", node_name="kn2"), node("kn2")],
            "claim",
            "Let only one of them claim",
        ),
        (
            [node("n1"), slurmd_pod("n1-gpu", name="slurmd-n1", node_name="n1"), slurm_node()],
            "",
            "name its Slurm node by spec.hostname, or by annotation",
        ),
        ([node("n1")], "", "kubectl annotate node n1 sunk.coreweave.com/slurm-node=NAME"),
        (
            [node("kn1"), slurmd_pod()],
            "",
            "See why slurmd does not register: kubectl -n slurm logs",
        ),
        (
            [node("kn1"), slurmd_pod(ready=False), slurm_node()],
            "is not ready",
            "kubectl -n slurm describe pod slurmd-n1",
        ),
        (
            [node("kn1"), slurmd_pod(cordon="true"), OURS],
            "is cordoned",
            "sunk.coreweave.com/cordon-",
        ),
    ],
)
def test_a_host_has_a_decision_and_what_would_change_it(
    rows: Sequence[Row], decision: str, cure: str
) -> None:
    account = told(Core(*rows), "host", "n1")
    assert decision in account.decision
    assert cure in " / ".join(account.cures)
    assert bool(account.cures) == bool(cure)


@pytest.mark.parametrize(
    ("rows", "told_so"),
    [
        ([node_set(1), set_pod(0), record(0), node("kcpu-0", ready="Unknown")], True),
        ([node_set(1), set_pod(0), record(0), node("kcpu-0")], False),
        ([slurmd_pod("cpu-0", node_name="kcpu-0"), node("kcpu-0", ready="Unknown")], False),
    ],
    ids=["a silent Node", "a ready Node", "a slurmd Pod that somebody else makes"],
)
def test_of_a_silent_node_explain_says_how_a_person_frees_the_slot_N19(
    rows: Sequence[Row], told_so: bool
) -> None:
    cures = " / ".join(told(Core(*rows), "host", "cpu-0").cures)
    way_out = "kubectl taint node kcpu-0 node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"
    assert (way_out in cures) is told_so


def test_a_host_shows_both_sides_with_their_ages() -> None:
    core = Core(CORDONED, slurmd_pod(), OURS)
    core.now += 2.5
    account = told(core, "host", "n1")
    assert says(account, "Node kn1") == "ready, cordoned (kernel update)"
    assert says(account, "Pod slurm/slurmd-n1") == "slurmd, ready"
    assert says(account, "Slurm node n1") == f"DRAIN+IDLE, reason {OURS.reason!r}"
    ages = {fact.what: (fact.read_s, fact.unchanged_s) for fact in account.facts}
    assert ages["Node kn1"] == (0.0, 2.5)
    assert (ages["Slurm node n1"][0] or 0) > 100


@pytest.mark.parametrize(
    ("weight", "fill", "shown"),
    [
        (10_000_127, 2, "weight 10000127: packed, its own is 1, at most half used"),
        (10_000_127, None, "weight 10000127: packed, its own is 1"),
        (70_000, 2, "weight 70000: not packed, as it is above 67771"),
        (70_000, None, ""),
        (1, 2, ""),
    ],
)
def test_a_packed_weight_of_a_host_is_explained_W1(
    weight: int, fill: int | None, shown: str
) -> None:
    core = Core(node("n1"), slurm_node("n1", weight=weight, fill=fill))
    assert says(told(core, "host", "n1"), "Slurm node n1") == ", ".join(
        filter(None, ["IDLE", shown])
    )


def test_the_node_and_the_slurmd_pod_of_a_host_are_names_for_it() -> None:
    core = Core(*room())
    asked: list[tuple[Kind, str]] = [
        ("host", "kn1"),
        ("pod", "slurm/slurmd-n1"),
        ("pod", "slurmd-n1"),
    ]
    assert {(told(core, *one).kind, told(core, *one).name) for one in asked} == {("host", "n1")}


def test_a_source_that_cannot_be_read_is_the_first_fact() -> None:
    core = Core(*room())
    core.see(Lost("slurm_nodes", "slurmrestd is down"))
    account = told(core, "host", "n1")
    first = account.facts[0]
    assert account.cures == ("Slurm must be readable again: sunk-sync doctor names the cause",)
    assert (first.what, first.says) == (
        "source slurm_nodes",
        "cannot be read now: slurmrestd is down",
    )


def test_nothing_is_decided_before_the_sources_were_listed() -> None:
    core = Core(*room(), listed=False)
    assert told(core, "host", "n1").decision.startswith("nothing yet: nodes, slurmd_pods")


def test_a_pod_on_a_host_is_a_fact_of_the_host_and_worth_a_question() -> None:
    account = told(Core(*room(), BOUND, running(BOUND)), "host", "n1")
    assert says(account, "Pod ns/p1") == "a workload Pod bound here, job 7, which runs here"
    assert account.see == ("pod ns/p1",)


@pytest.mark.parametrize(
    ("rows", "fact", "cure"),
    [
        ([POD, job(POD)], "PENDING, Slurm: the resources are in use", ""),
        ([replace(POD, gated=True)], "held by a scheduling gate", "Remove the scheduling gates"),
        (
            [replace(POD, spec=PodSpec(requests=(("cpu", 64_000),)))],
            "1 cannot: Insufficient cpu: n1",
            "Ask for less, or make a host fit: 0/1 nodes are available",
        ),
        ([gang_pod("p1", size=3)], "1 of the 3 Pods of its gang exist", "Complete the gang"),
        (
            [replace(POD, settings=(("user-id", "five"),))],
            "",
            "Correct the Pod and create it again",
        ),
    ],
)
def test_a_waiting_pod_has_facts_and_what_would_change_them(
    rows: Sequence[Row], fact: str, cure: str
) -> None:
    account = told(Core(*room(), *rows), "pod", "ns/p1")
    facts = " / ".join(one.says for one in account.facts)
    if fact.startswith("PENDING"):
        assert "PENDING, " in facts
    else:
        assert fact in facts
    assert cure in " / ".join(account.cures)


def test_hosts_that_cannot_take_a_pod_are_grouped_by_the_reason() -> None:
    hosts: list[Any] = [row for name in ("n1", "n2", "n3") for row in room(name)]
    hosts += [slurm_node("x1"), slurm_node("x2")]
    account = told(Core(*hosts, POD, job(POD)), "pod", "p1")
    assert says(account, "hosts").split(" / ") == [
        "3 of 5 can take it: n1, n2, n3",
        "2 cannot: Slurm node(s) without a Node in Kubernetes: x1, x2",
    ]


def test_rules_that_only_prefer_nodes_are_said_to_be_ignored_P8() -> None:
    soft = PodSpec(requests=POD.spec.requests, preferences=("preferred podAntiAffinity",))
    account = told(Core(*room(), replace(POD, spec=soft)), "pod", "p1")
    assert says(account, "ignored").endswith("can take the Pod: preferred podAntiAffinity")
    assert not says(told(Core(*room(), POD), "pod", "p1"), "ignored")


def test_a_job_and_a_gang_are_names_of_their_workload() -> None:
    pods = [gang_pod("p1"), gang_pod("p2")]
    core = Core(*room("n1"), *room("n2"), *pods, running(*pods, at=("n1", "n2")))
    by_job, by_gang = told(core, "job", "7"), told(core, "gang", "ns/g")
    assert by_job.facts == by_gang.facts == told(core, "pod", "ns/p2").facts
    assert by_gang.see == ("host n1", "host n2")


@pytest.mark.parametrize(
    ("kind", "name", "why", "similar"),
    [
        ("host", "n2", "neither Slurm nor Kubernetes has a node n2", ("n1",)),
        ("pod", "ns/p2", "no Pod ns/p2 with schedulerName slurm-scheduler", ("ns/p1",)),
        ("pod", "twin", "several namespaces have a Pod twin", ("a/twin", "b/twin")),
        ("job", "8", "no placeholder of this cluster", ()),
        ("gang", "g", "no Pod belongs to a gang g", ()),
        ("nodeset", "cpu", "component nodesets is off", ()),
    ],
)
def test_an_unknown_name_is_a_sentence_and_similar_names(
    kind: Kind, name: str, why: str, similar: tuple[str, ...]
) -> None:
    twins = [replace(POD, namespace=one, name="twin", uid=one) for one in ("a", "b")]
    answer = missed(Core(*room(), POD, node("n1"), node("kn9"), *twins), kind, name)
    assert why in answer.why
    assert set(similar) <= set(answer.similar)
    assert len(answer.similar) == len({*answer.similar}), "each is named once"


def test_a_node_set_shows_its_pods_and_what_keeps_them() -> None:
    sets = node_set(replicas=2)
    core = Core(*room(), sets, node_sets=True)
    account = told(core, "nodeset", sets.key)
    assert "0 of 2 Pods" in says(account, sets.path)
    assert account.wants
    assert missed(core, "nodeset", "nope").why == "there is no NodeSet nope"


@pytest.mark.parametrize(
    ("asked", "namespaces", "why"),
    [
        ("nope", ("*",), "there is no NodeSet nope"),
        ("nope", ("slurm",), "there is no NodeSet nope in namespace slurm, and sunk-sync watches"),
        ("slurm/nope", ("slurm",), "there is no NodeSet slurm/nope in namespace slurm"),
        ("team/cpu", ("slurm", "b"), "sunk-sync watches namespaces slurm, b, not team: if there"),
        ("team/cpu", ("*",), "there is no NodeSet team/cpu"),
    ],
)
def test_a_nodeset_in_a_namespace_that_is_not_watched_is_not_denied(
    asked: str, namespaces: tuple[str, ...], why: str
) -> None:
    core = Core(*room(), node_set(), node_sets=True, slurmd_namespaces=namespaces)
    answer = missed(core, "nodeset", asked)
    assert answer.why.startswith(why)
    elsewhere = "*" not in namespaces and not asked.startswith("slurm/")
    assert ("to watch more, set slurmd.namespaces" in answer.why) is elsewhere


def test_a_slurmd_pod_that_is_not_found_is_not_denied_in_other_namespaces() -> None:
    core = Core(*room(), slurmd_namespaces=("slurm",), watch_namespaces=("a", "b"))
    assert missed(core, "pod", "x/y").why == (
        "no Pod x/y with schedulerName slurm-scheduler in namespaces a, b,"
        " and no slurmd Pod x/y in namespace slurm"
    )


STUCK = "no Node takes the Pod: 0/3 nodes are available: 3 Insufficient cpu."


@pytest.mark.parametrize(
    ("rows", "decision", "fact", "cure"),
    [
        (
            [set_pod(0, ready=False, node_name="", waiting=STUCK.partition(": ")[2])],
            STUCK,
            "waits: 0/3 nodes are available",
            "describe pod cpu-0",
        ),
        (
            [slurm_node("cpu-0")],
            "Slurm has a node of this name of somebody else",
            "Slurm has a node of this name of somebody else",
            "scontrol delete nodename=cpu-0",
        ),
        (
            [set_pod(0), slurm_node("cpu-0")],
            "Slurm has a node of this name of somebody else",
            "made by somebody else",
            "scontrol delete nodename=cpu-0",
        ),
        (
            [set_pod(0), record(0, "IDLE+DRAIN", reason="fan broken")],
            "somebody else drained cpu-0: fan broken",
            "reason 'fan broken'",
            "scontrol update nodename=cpu-0 state=undrain",
        ),
    ],
    ids=["no Node takes it", "a foreign record", "a Pod with a foreign record", "drained"],
)
def test_a_stuck_nodeset_says_what_it_waits_for_and_what_a_person_can_do(
    rows: Sequence[Row], decision: str, fact: str, cure: str
) -> None:
    core = Core(*room(), node_set(1), *rows, node_sets=True)
    core.wait(61.0)
    account = told(core, "nodeset", "cpu")
    assert decision in account.decision
    assert fact in " / ".join(one.says for one in account.facts)
    assert cure in " / ".join(account.cures)


def test_a_gone_object_is_unknown_again() -> None:
    core = Core(*room(), POD)
    core.see(deleted("pods", POD))
    assert missed(core, "pod", "ns/p1").similar == ()
