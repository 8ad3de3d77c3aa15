"""Rows P7 and P28: whether a Node can take a Pod, and the sentence that says why not."""

import pytest
from msgspec.structs import replace

from sunk_sync.core.model.pod_spec import Offer, PodSpec, Requirement, Taint, Term, Toleration
from sunk_sync.core.translate.node_fit import SUMMARY_REASONS_MAX, Reasons, why_none, why_unfit
from tests.kit.build import node

CORDONED = "node(s) were unschedulable"
MISMATCH = "node(s) didn't match Pod's node affinity/selector"
CORDON_KEY = "node.kubernetes.io/unschedulable"
GIB = 2**30


def labelled(**labels: str) -> Offer:
    return Offer(labels=tuple(sorted(labels.items())))


# --- unschedulable

CORDON_TOLERATIONS: dict[str, tuple[Toleration, bool]] = {
    "by key": (Toleration(CORDON_KEY, "Exists"), True),
    "by key and empty value": (Toleration(CORDON_KEY), True),
    "all taints": (Toleration("", "Exists"), True),
    "its effect": (Toleration(CORDON_KEY, "Exists", "", "NoSchedule"), True),
    "another effect": (Toleration(CORDON_KEY, "Exists", "", "NoExecute"), False),
    "another value": (Toleration(CORDON_KEY, "Equal", "x"), False),
    "another key": (Toleration("x", "Exists"), False),
}


def test_an_unschedulable_node_takes_no_pod_P7() -> None:
    assert why_unfit(PodSpec(), node(unschedulable=True)) == CORDONED
    assert why_unfit(PodSpec(), node()) == ""


@pytest.mark.parametrize("case", CORDON_TOLERATIONS)
def test_a_pod_may_tolerate_the_cordon_P7(case: str) -> None:
    """As it tolerates the taint of a cordon, also where the Node does not have that taint."""
    toleration, fits = CORDON_TOLERATIONS[case]
    spec = PodSpec(tolerations=(toleration,))
    assert why_unfit(spec, node(unschedulable=True)) == ("" if fits else CORDONED)


# --- taints

TAINTED: dict[str, tuple[Taint, Toleration, bool]] = {
    "same": (Taint("k", "NoSchedule", "v"), Toleration("k", "Equal", "v", "NoSchedule"), True),
    "empty operator is Equal": (Taint("k", "NoSchedule", "v"), Toleration("k", "", "v"), True),
    "Equal to another value": (Taint("k", "NoSchedule", "v"), Toleration("k", "Equal", "w"), False),
    "Equal to no value": (Taint("k", "NoSchedule"), Toleration("k"), True),
    "Exists": (Taint("k", "NoSchedule", "v"), Toleration("k", "Exists"), True),
    "Exists for another key": (Taint("k", "NoSchedule"), Toleration("l", "Exists"), False),
    "empty key is every key": (Taint("k", "NoExecute", "v"), Toleration("", "Exists"), True),
    "empty effect is every effect": (Taint("k", "NoExecute"), Toleration("k", "Exists"), True),
    "another effect": (
        Taint("k", "NoExecute"),
        Toleration("k", "Exists", "", "NoSchedule"),
        False,
    ),
    "Gt, of later versions": (Taint("k", "NoSchedule", "5"), Toleration("k", "Gt", "3"), False),
    "PreferNoSchedule is no obstacle": (Taint("k", "PreferNoSchedule"), Toleration("l"), True),
}  # fmt: skip


@pytest.mark.parametrize("case", TAINTED)
def test_a_taint_needs_a_toleration_P7(case: str) -> None:
    taint, toleration, fits = TAINTED[case]
    untolerated = f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}"
    tainted = node(offer=Offer(taints=(taint,)))
    assert why_unfit(PodSpec(tolerations=(toleration,)), tainted) == ("" if fits else untolerated)


def test_each_taint_needs_a_toleration_and_the_first_without_is_named_P7() -> None:
    taints = (Taint("a", "PreferNoSchedule"), Taint("b", "NoSchedule"), Taint("c", "NoSchedule"))
    tainted = node(offer=Offer(taints=taints))
    spec = PodSpec(tolerations=(Toleration("b", "Exists"),))
    assert why_unfit(spec, tainted) == "node(s) had untolerated taint {c: }"
    assert "{b: }" in why_unfit(PodSpec(), tainted)


# --- node selector

SELECTED: dict[str, tuple[dict[str, str], dict[str, str], bool]] = {
    "nothing asked": ({}, {}, True),
    "there": ({"b": "1"}, {"a": "1", "b": "1", "c": "1"}, True),
    "another value": ({"b": "1"}, {"a": "1", "b": "2", "c": "1"}, False),
    "greater value": ({"b": "2"}, {"a": "1", "b": "1"}, False),
    "not there, in the middle": ({"b": "1"}, {"a": "1", "c": "1"}, False),
    "not there, at the end": ({"z": "1"}, {"a": "1"}, False),
    "one of two": ({"a": "1", "b": "1"}, {"a": "1"}, False),
    "empty value": ({"a": ""}, {"a": ""}, True),
    "empty value, no label": ({"a": ""}, {}, False),
}


@pytest.mark.parametrize("case", SELECTED)
def test_every_label_of_the_node_selector_must_be_there_P7(case: str) -> None:
    selector, labels, fits = SELECTED[case]
    spec = PodSpec(node_selector=tuple(sorted(selector.items())))
    assert why_unfit(spec, node(offer=labelled(**labels))) == ("" if fits else MISMATCH)


# --- node affinity

INT_MAX = str(2**63 - 1)
LINES: dict[str, tuple[Requirement, str | None, bool]] = {
    "In": (Requirement("k", "In", ("a", "b")), "b", True),
    "In, another": (Requirement("k", "In", ("a",)), "b", False),
    "In, no label": (Requirement("k", "In", ("a",)), None, False),
    "In, the empty value is not no label": (Requirement("k", "In", ("",)), None, False),
    "In, empty": (Requirement("k", "In", ("",)), "", True),
    "In nothing": (Requirement("k", "In"), "a", False),
    "NotIn": (Requirement("k", "NotIn", ("a",)), "b", True),
    "NotIn, in": (Requirement("k", "NotIn", ("a", "b")), "b", False),
    "NotIn, no label": (Requirement("k", "NotIn", ("a",)), None, True),
    "NotIn nothing": (Requirement("k", "NotIn"), "a", False),
    "Exists": (Requirement("k", "Exists"), "", True),
    "Exists, no label": (Requirement("k", "Exists"), None, False),
    "Exists with values": (Requirement("k", "Exists", ("a",)), "a", False),
    "DoesNotExist": (Requirement("k", "DoesNotExist"), None, True),
    "DoesNotExist, there": (Requirement("k", "DoesNotExist"), "", False),
    "Gt": (Requirement("k", "Gt", ("9",)), "10", True),
    "Gt, equal": (Requirement("k", "Gt", ("9",)), "9", False),
    "Gt, no label": (Requirement("k", "Gt", ("9",)), None, False),
    "Gt, label no integer": (Requirement("k", "Gt", ("9",)), "a10", False),
    "Gt, label empty": (Requirement("k", "Gt", ("9",)), "", False),
    "Gt, label 1_0": (Requirement("k", "Gt", ("9",)), "1_0", False),
    "Gt, label 1.5": (Requirement("k", "Gt", ("0",)), "1.5", False),
    "Gt, leading zeros": (Requirement("k", "Gt", ("007",)), "08", True),
    "Gt, label beyond int64": (Requirement("k", "Gt", ("9",)), str(2**63), False),
    "Gt, label is int64's last": (Requirement("k", "Gt", ("9",)), INT_MAX, True),
    "Gt, limit no integer": (Requirement("k", "Gt", ("a",)), "10", False),
    "Gt, limit beyond int64": (Requirement("k", "Gt", (str(2**63),)), INT_MAX, False),
    "Gt, negative limit is no label value": (Requirement("k", "Gt", ("-5",)), "10", False),
    "Gt, two limits": (Requirement("k", "Gt", ("1", "2")), "10", False),
    "Lt": (Requirement("k", "Lt", ("10",)), "9", True),
    "Lt, equal": (Requirement("k", "Lt", ("9",)), "9", False),
    "Lt, label no integer": (Requirement("k", "Lt", ("9",)), "a", False),
    "Lt, limit beyond int64": (Requirement("k", "Lt", (str(2**63),)), "1", False),
    "unknown operator": (Requirement("k", "Near", ("1",)), "1", False),
    "a value that no label can have spoils the term": (
        Requirement("k", "NotIn", ("not a label",)), "a", False,
    ),
    "as does one too long": (Requirement("k", "NotIn", ("x" * 64,)), "a", False),
    "63 are not too long": (Requirement("k", "In", ("x" * 63,)), "x" * 63, True),
    "and one of one letter": (Requirement("k", "In", ("x",)), "x", True),
}  # fmt: skip


@pytest.mark.parametrize("case", LINES)
def test_a_requirement_of_node_affinity_holds_as_in_kube_scheduler_P7(case: str) -> None:
    line, label, fits = LINES[case]
    labels = {"a": "1", "z": "1"} | ({} if label is None else {"k": label})
    spec = PodSpec(terms=(Term((line,)),))
    assert why_unfit(spec, node(offer=labelled(**labels))) == ("" if fits else MISMATCH)


HERE, THERE = Requirement("k", "Exists"), Requirement("l", "Exists")
NAMED = Requirement("metadata.name", "In", ("kn1",))
TERMS: dict[str, tuple[tuple[Term, ...] | None, bool]] = {
    "none required": (None, True),
    "no term holds for nothing": ((), False),
    "an empty term holds for nothing": ((Term(),), False),
    "an empty one beside one that holds": ((Term(), Term((HERE,))), True),
    "the last of two terms": ((Term((THERE,)), Term((HERE,))), True),
    "the first of two terms": ((Term((HERE,)), Term((THERE,))), True),
    "neither of two terms": ((Term((THERE,)), Term((THERE,))), False),
    "all lines of a term": ((Term((HERE, THERE)),), False),
    "lines and fields": ((Term((HERE,), (NAMED,)),), True),
    "fields alone": ((Term((), (NAMED,)),), True),
    "line that does not hold, field that does": ((Term((THERE,), (NAMED,)),), False),
    "another name": ((Term((), (Requirement("metadata.name", "In", ("kn2",)),)),), False),
    "not another name": ((Term((), (Requirement("metadata.name", "NotIn", ("kn2",)),)),), True),
    "not this name": ((Term((), (Requirement("metadata.name", "NotIn", ("kn1",)),)),), False),
    "two names": ((Term((), (Requirement("metadata.name", "In", ("kn1", "kn2")),)),), False),
    "another field": ((Term((), (Requirement("metadata.uid", "NotIn", ("x",)),)),), False),
    "a field that only exists": ((Term((), (Requirement("metadata.name", "Exists"),)),), False),
    "two fields": ((Term((), (NAMED, Requirement("metadata.name", "NotIn", ("kn1",)))),), False),
    "an ill-formed one beside one that holds": (
        (Term((Requirement("k", "Gt", ("a",)),)), Term((HERE,))), True,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", TERMS)
def test_one_term_must_hold_with_all_its_requirements_P7(case: str) -> None:
    terms, fits = TERMS[case]
    spec = PodSpec(terms=terms)
    assert why_unfit(spec, node(offer=labelled(k="1"))) == ("" if fits else MISMATCH)


def test_node_selector_and_affinity_must_both_hold_P7() -> None:
    both = PodSpec(node_selector=(("k", "1"),), terms=(Term((THERE,)),))
    assert why_unfit(both, node(offer=labelled(k="1"))) == MISMATCH
    assert why_unfit(both, node(offer=labelled(l="1"))) == MISMATCH
    assert why_unfit(both, node(offer=labelled(k="1", l="1"))) == ""


# --- resources

Amounts = dict[str, int]
ROOM = {"cpu": 8000, "memory": 16 * GIB, "nvidia.com/gpu": 8, "pods": 3}
SIZES: dict[str, tuple[Amounts, Amounts, str]] = {
    "nothing asked": ({}, {}, ""),
    "all of it": ({"cpu": 8000, "memory": 16 * GIB, "nvidia.com/gpu": 8}, {}, ""),
    "a thousandth too much": ({"cpu": 8001}, {}, "Insufficient cpu"),
    "a byte too much": ({"memory": 16 * GIB + 1}, {}, "Insufficient memory"),
    "beside the slurmd Pod": ({"cpu": 7000}, {"cpu": 1000}, ""),
    "not beside the slurmd Pod": ({"cpu": 7001}, {"cpu": 1000}, "Insufficient cpu"),
    "a GPU taken": ({"nvidia.com/gpu": 8}, {"nvidia.com/gpu": 1}, "Insufficient nvidia.com/gpu"),
    "a resource unheard of": ({"rdma/ib": 1}, {}, "Insufficient rdma/ib"),
    "taken of what is not offered": ({"rdma/ib": 1}, {"rdma/ib": 1}, "Insufficient rdma/ib"),
    "overdrawn, but not asked for": ({"memory": GIB}, {"cpu": 9000}, ""),
    "all that is short is named": (
        {"cpu": 9000, "memory": 17 * GIB}, {}, "Insufficient cpu, Insufficient memory",
    ),
    "the last place": ({"cpu": 1}, {"pods": 2}, ""),
    "no place": ({}, {"pods": 3}, "Too many pods"),
    "neither place nor cpu": (
        {"cpu": 1}, {"cpu": 8000, "pods": 3}, "Too many pods, Insufficient cpu",
    ),
}  # fmt: skip


def amounts(given: Amounts) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(given.items()))


@pytest.mark.parametrize("case", SIZES)
def test_requests_must_be_free_beside_what_is_taken_P28(case: str) -> None:
    asked, taken, why = SIZES[case]
    roomy = node(offer=Offer(allocatable=amounts(ROOM)))
    assert why_unfit(PodSpec(requests=amounts(asked)), roomy, taken=amounts(taken)) == why


def test_a_node_without_a_number_of_pods_is_not_limited_by_it_P28() -> None:
    """For kube-scheduler such a Node has no place at all, but a kubelet always reports one."""
    unnumbered = node(offer=Offer(allocatable=(("cpu", 1000),)))
    assert why_unfit(PodSpec(requests=(("cpu", 1),)), unnumbered, taken=(("pods", 500),)) == ""


def test_a_node_that_offers_nothing_takes_only_pods_without_requests_P28() -> None:
    assert why_unfit(PodSpec(), node()) == ""
    assert why_unfit(PodSpec(requests=(("cpu", 1),)), node()) == "Insufficient cpu"


def test_reasons_come_in_kube_scheduler_s_order_P7_P28() -> None:
    """Only the first reason is given."""
    bad = node(unschedulable=True, offer=Offer(taints=(Taint("k", "NoSchedule"),)))
    spec = PodSpec(requests=(("cpu", 1),), node_selector=(("a", "1"),))
    assert why_unfit(spec, bad) == CORDONED
    tainted = replace(bad, unschedulable=False)
    assert "untolerated" in why_unfit(spec, tainted)
    assert why_unfit(replace(spec, tolerations=(Toleration("k", "Exists"),)), tainted) == MISMATCH


# --- all Nodes at once

MANY: list[Reasons] = [(f"R{number:02}",) for number in range(20)]
NONE: dict[str, tuple[list[Reasons], int, str]] = {
    "no nodes": ([], 0, "0/0 nodes are available"),
    "by count": ([("A", "B"), ("A",), ("C",)], 3, "0/3 nodes are available: 1 B, 1 C, 2 A"),
    "more than one line can hold": (
        [*MANY, ("R19",), ("R19",)],
        22,
        "0/22 nodes are available: "
        + ", ".join([*(f"1 R{number:02}" for number in range(SUMMARY_REASONS_MAX - 1)), "3 R19"])
        + ", and 4 more reasons",
    ),
}


@pytest.mark.parametrize("case", NONE)
def test_why_none_counts_reasons_as_kube_scheduler_does_P7(case: str) -> None:
    unfit, nodes, text = NONE[case]
    assert why_none(unfit, nodes=nodes) == text
