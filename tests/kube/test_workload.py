"""Workload Pods and what Nodes offer: wire objects in, facts out."""

import json
from typing import Any

import pytest

from sunk_sync.core.model import names
from sunk_sync.core.model.facts import Condition, Node, Observed, Pod
from sunk_sync.core.model.job_description import SETTINGS
from sunk_sync.core.model.pod_spec import Gang, Offer, PodSpec, Requirement, Taint, Term, Toleration
from sunk_sync.core.translate.job_annotations import NODES_BYTES_MAX
from sunk_sync.kube.decode.gangs import SIZE_MAX
from sunk_sync.kube.decode.source_decoder import (
    NODES,
    OFFERING_NODES,
    PODS,
    SourceDecoder,
    Unreadable,
)
from sunk_sync.kube.decode.strings import VALUE_LENGTH_MAX
from sunk_sync.kube.decode.wire_pods import WirePodAnnotations
from sunk_sync.kube.read.selection import COLLECTIONS, Scope
from tests.kit.selections import nodes
from tests.kube.recorded.server import node, pod, recorded

Json = dict[str, Any]
GIB = 2**30


def seen(decoder: SourceDecoder[Any], an_object: Json) -> Any:
    one = decoder.object(json.dumps(an_object).encode())
    assert isinstance(one, Observed), one
    return one.row


def row(spec: Json | None = None, status: Json | None = None, **metadata: Any) -> Pod:
    made = pod("p", 1)
    made["metadata"] |= metadata
    made["spec"] = spec or {}
    made["status"] = status or {"phase": "Pending"}
    found = seen(PODS, made)
    assert isinstance(found, Pod)
    return found


def asks(restart_policy: str = "", **requests: str) -> Json:
    container: Json = {"name": "c", "resources": {"requests": requests}}
    return container | ({"restartPolicy": restart_policy} if restart_policy else {})


def spec_of(**spec: Any) -> PodSpec:
    return row(spec).spec


def settings(**given: str) -> Json:
    return {names.PREFIX + name.replace("_", "-"): value for name, value in given.items()}


# What it asks for, P6


@pytest.mark.parametrize(
    ("spec", "requests"),
    [
        pytest.param({"containers": [{"name": "c"}]}, {}, id="nothing asked"),
        pytest.param(
            {"containers": [asks(cpu="100m", memory="1Gi"), asks(cpu="1.5", memory="1k")]},
            {"cpu": 1600, "memory": GIB + 1000},
            id="containers are added",
        ),
        pytest.param(
            {"containers": [asks(cpu="0.5m"), asks(cpu="0.5m")]},
            {"cpu": 1},
            id="rounded once, after the sum",
        ),
        pytest.param({"containers": [asks(cpu="0.0001", memory="0")]}, {"cpu": 1}, id="rounded up"),
        pytest.param(
            {"containers": [asks(cpu="1")], "initContainers": [asks(cpu="3"), asks(cpu="2")]},
            {"cpu": 3000},
            id="the greatest init container",
        ),
        pytest.param(
            {"containers": [asks(cpu="4")], "initContainers": [asks(cpu="3")]},
            {"cpu": 4000},
            id="init containers are over when the others run",
        ),
        pytest.param(
            {"containers": [asks(cpu="1")], "initContainers": [asks("Always", cpu="2")]},
            {"cpu": 3000},
            id="a sidecar stays",
        ),
        pytest.param(
            {
                "containers": [asks(cpu="1")],
                "initContainers": [asks("Always", cpu="2"), asks(cpu="5"), asks("Always", cpu="1")],
            },
            {"cpu": 7000},
            id="an init container beside the sidecars before it",
        ),
        pytest.param(
            {
                "containers": [asks(cpu="1")],
                "initContainers": [asks(cpu="5"), asks("Always", cpu="2")],
            },
            {"cpu": 5000},
            id="but not beside those after it",
        ),
        pytest.param(
            {"containers": [asks(cpu="1")], "overhead": {"cpu": "250m", "memory": "10Mi"}},
            {"cpu": 1250, "memory": 10 * 2**20},
            id="overhead",
        ),
        pytest.param(
            {
                "containers": [asks(cpu="1", memory="1Gi", **{"nvidia.com/gpu": "2"})],
                "resources": {"requests": {"cpu": "3", "hugepages-2Mi": "4Mi", "x/y": "9"}},
                "overhead": {"cpu": "1"},
            },
            {"cpu": 4000, "hugepages-2Mi": 4 * 2**20, "memory": GIB, "nvidia.com/gpu": 2},
            id="pod-level resources instead of the sum, for what Kubernetes lets them",
        ),
        pytest.param(
            {"containers": [asks(memory="100Ei", cpu="100Ei")]},
            {"cpu": 2**63 - 1, "memory": 2**63 - 1},
            id="no more than Kubernetes can count",
        ),
    ],
)
def test_requests_are_counted_as_kubernetes_counts_them_P6(spec: Json, requests: Json) -> None:
    """P6: as PodRequests does; zero is as good as missing."""
    assert dict(row(spec).spec.requests) == requests
    assert list(row(spec).spec.requests) == sorted(row(spec).spec.requests)


@pytest.mark.parametrize("odd", ["nonsense", "1Zi"])
def test_a_pod_with_a_request_that_is_none_is_unreadable(odd: str) -> None:
    """The API server would not take it; nothing is guessed."""
    made = pod("p", 7) | {"spec": {"containers": [asks(cpu=odd)]}}
    found = PODS.object(json.dumps(made).encode())
    assert isinstance(found, Unreadable)
    assert (found.name, found.order) == ("slurm/p", 7.0)
    assert "quantity" in found.why


@pytest.mark.parametrize(
    ("qos", "containers", "static"),
    [
        ("Guaranteed", [asks(cpu="2")], True),
        ("Guaranteed", [asks(cpu="500m"), asks(cpu="1000m")], True),
        ("Guaranteed", [asks(cpu="1500m"), asks(cpu="0")], False),
        ("Burstable", [asks(cpu="2")], False),
        ("", [asks(cpu="2")], False),
        ("BestEffort", [{"name": "c"}], False),
    ],
)
def test_whole_cpus_of_a_guaranteed_pod_P27(qos: str, containers: list[Json], static: bool) -> None:
    """P27: of one container, not of the sum."""
    assert row({"containers": containers}, {"qosClass": qos}).spec.static_cpu is static


# Where it may run (P7, P8)


def test_selector_affinity_and_tolerations_P7() -> None:
    """P7: required terms only, with matchFields."""
    required = {
        "nodeSelectorTerms": [
            {
                "matchExpressions": [
                    {"key": "gpu", "operator": "In", "values": ["a", "b"]},
                    {"key": "old", "operator": "DoesNotExist"},
                ],
                "matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}],
            },
            {},
        ]
    }
    preferred = [{"weight": 1, "preference": {"matchExpressions": []}}]
    node_affinity = {
        "requiredDuringSchedulingIgnoredDuringExecution": required,
        "preferredDuringSchedulingIgnoredDuringExecution": preferred,
    }
    spec = spec_of(
        nodeSelector={"b": "2", "a": "1"},
        affinity={"nodeAffinity": node_affinity},
        tolerations=[
            {"key": "k", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 3},
            {"key": "l", "value": "v"},
            {"operator": "Exists"},
        ],
    )
    assert spec.node_selector == (("a", "1"), ("b", "2"))
    assert spec.terms == (
        Term(
            (Requirement("gpu", "In", ("a", "b")), Requirement("old", "DoesNotExist")),
            (Requirement("metadata.name", "NotIn", ("n1",)),),
        ),
        Term(),
    )
    assert spec.tolerations == (
        Toleration("k", "Exists", "", "NoSchedule"),
        Toleration("l", "Equal", "v", ""),
        Toleration("", "Exists", "", ""),
    )


@pytest.mark.parametrize(
    "affinity",
    [{}, None, {"nodeAffinity": None}, {"nodeAffinity": {"preferred": []}}],
)
def test_no_required_affinity_is_none_at_all_P7(affinity: Json | None) -> None:
    """P7: None, not an empty list of terms, which nothing could meet."""
    assert spec_of(affinity=affinity).terms is None


REQUIRED = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "x"}]}
PREFERRED = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}


@pytest.mark.parametrize(
    ("spec", "hard"),
    [
        ({"affinity": {"podAffinity": REQUIRED}}, ("podAffinity",)),
        ({"affinity": {"podAntiAffinity": REQUIRED}}, ("podAntiAffinity",)),
        ({"affinity": {"podAffinity": PREFERRED, "podAntiAffinity": PREFERRED}}, ()),
        ({"topologySpreadConstraints": [{"whenUnsatisfiable": "ScheduleAnyway"}]}, ()),
        (
            {
                "affinity": {"podAffinity": REQUIRED | PREFERRED, "podAntiAffinity": REQUIRED},
                "topologySpreadConstraints": [
                    {"whenUnsatisfiable": "ScheduleAnyway"},
                    {"whenUnsatisfiable": "DoNotSchedule"},
                ],
            },
            ("podAffinity", "podAntiAffinity", "topologySpread"),
        ),
    ],
)
def test_hard_rules_about_other_pods_are_named_P8(spec: Json, hard: tuple[str, ...]) -> None:
    """P8: soft ones are ignored silently."""
    assert row(spec).spec.hard == hard


def test_the_rest_of_the_spec_P3_P8_P9() -> None:
    """Grace, PriorityClass, resourceClaims, gates; Kubernetes' own defaults where missing."""
    given = row(
        {
            "terminationGracePeriodSeconds": 7,
            "priorityClassName": "high",
            "resourceClaims": [{"name": "gpu"}],
            "schedulingGates": [{"name": "example.com/wait"}],
        }
    )
    assert (given.spec.grace_s, given.spec.priority_class, given.spec.claims) == (7, "high", True)
    assert given.gated
    plain = row({"schedulingGates": [], "resourceClaims": None})
    assert plain.spec == PodSpec()
    assert not plain.gated


# One object for all Pods of a template


def test_pods_of_one_template_share_spec_and_settings() -> None:
    """20,000 waiting Pods cost one PodSpec, though no two specs are equal on the wire."""

    def made(number: int) -> Pod:
        token = {"name": f"kube-api-access-{number}", "projected": {}}
        container = asks(cpu="1") | {"volumeMounts": [{"name": token["name"]}]}
        return row(
            {"containers": [container], "volumes": [token], "hostname": f"h{number}"},
            name=f"p{number}",
            annotations=settings(partition="gpu") | {"other": str(number)},
        )

    one, two = made(1), made(2)
    assert one.spec is two.spec
    assert one.settings is two.settings
    assert one.name != two.name


def test_equal_specs_of_other_bytes_are_one_object() -> None:
    """1000m and 1 are the same wish."""
    one = spec_of(containers=[asks(cpu="1000m")])
    two = spec_of(containers=[asks(cpu="1")], nodeSelector={})
    assert one is two


def test_every_part_of_a_spec_tells_it_from_others() -> None:
    """No two of these may be taken for one another by their bytes."""
    one, two = asks(cpu="1"), asks(cpu="2")
    specs = [
        spec_of(containers=[one, two]),
        spec_of(containers=[one], initContainers=[two]),
        spec_of(containers=[one], initContainers=[asks("Always", cpu="2")]),
        spec_of(containers=[one], overhead={"cpu": "7"}),
        spec_of(containers=[one], resources={"requests": {"cpu": "7"}}),
        spec_of(containers=[one], nodeSelector={"a": "b"}),
        spec_of(containers=[one], tolerations=[{"key": "a"}]),
        spec_of(containers=[one], affinity={"podAffinity": REQUIRED}),
        spec_of(
            containers=[one], topologySpreadConstraints=[{"whenUnsatisfiable": "DoNotSchedule"}]
        ),
        spec_of(containers=[one], resourceClaims=[{"name": "a"}]),
        spec_of(containers=[one], priorityClassName="a"),
        spec_of(containers=[one], terminationGracePeriodSeconds=1),
        row({"containers": [one]}, {"qosClass": "Guaranteed"}).spec,
    ]
    amounts = [dict(spec.requests).get("cpu") for spec in specs[:5]]
    assert amounts == [3000, 2000, 3000, 8000, 7000]
    assert specs[0] is specs[2]  # both come to the same sum
    assert len(set(specs)) == len(specs) - 1


# Settings (P4), marks of ours


def test_every_annotation_of_a_setting_is_read_P4() -> None:
    """P4: without prefix, sorted, bounded; an empty one is there."""
    given = {name: f"value of {name}" for name in SETTINGS}
    annotated = row(annotations={names.PREFIX + name: value for name, value in given.items()})
    assert annotated.settings == tuple(sorted(given.items()))
    fields = {name.replace("-", "_") for name in SETTINGS}
    assert fields <= set(WirePodAnnotations.__struct_fields__)
    assert row(annotations={"partition": "not ours"}).settings == ()
    long = row(annotations=settings(comment="é" * 80_000, partition=""))
    assert long.settings == (("comment", "é" * (NODES_BYTES_MAX + 1)), ("partition", ""))


def test_our_own_annotations_are_hints_P17_P23() -> None:
    """Job id, bound-for, cancelled and resubmit as they stand there."""
    marks = {names.JOB_ID: "17", names.BOUND_FOR: "16", names.CANCELLED: "17/"}
    marked = row(annotations=marks | {names.RESUBMIT: "x" * 5000})
    assert (marked.job_id, marked.bound_for, marked.cancelled) == ("17", "16", "17/")
    assert marked.resubmit == "x" * VALUE_LENGTH_MAX
    bare = row()
    assert (bare.job_id, bare.bound_for, bare.cancelled, bare.resubmit) == ("", "", "", "")


def test_two_conditions_are_read_and_sorted_P1_P16() -> None:
    """PodScheduled and DisruptionTarget; kubelet's own are left out."""
    conditions = [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "m"},
        {"type": "Ready", "status": "True"},
        {"type": "DisruptionTarget", "status": "True", "reason": "r"},
    ]
    assert row(status={"conditions": conditions}).conditions == (
        Condition("DisruptionTarget", "True", "r", ""),
        Condition("PodScheduled", "False", "Unschedulable", "m"),
    )


@pytest.mark.parametrize(("created", "seconds"), [("2026-11-21T10:00:00Z", 1795255200), (None, 0)])
def test_the_time_of_creation_P26(created: str | None, seconds: int) -> None:
    """P26: for the order of those that wait."""
    assert row(creationTimestamp=created).created_s == seconds


# Whether it has ended, P14 and P15

OVER = {"state": {"terminated": {"exitCode": 0}}}
RUNS: Json = {"state": {"running": {}}}
NEVER = {"restartPolicy": "Never", "containers": [{"name": "a"}, {"name": "b"}]}


@pytest.mark.parametrize(
    ("spec", "status", "ended"),
    [
        ({}, {"phase": "Succeeded"}, True),
        ({}, {"phase": "Failed"}, True),
        ({}, {"phase": "Unknown"}, False),
        (NEVER, {"phase": "Running", "containerStatuses": [OVER, OVER]}, True),
        (NEVER, {"phase": "Running", "containerStatuses": [OVER, RUNS]}, False),
        (NEVER, {"phase": "Running", "containerStatuses": [OVER]}, False),
        (NEVER, {"phase": "Pending"}, False),
        (NEVER, {"containerStatuses": [OVER, {"state": {"terminated": None}}]}, False),
        (NEVER | {"restartPolicy": "Always"}, {"containerStatuses": [OVER, OVER]}, False),
        (NEVER | {"restartPolicy": "OnFailure"}, {"containerStatuses": [OVER, OVER]}, False),
        (NEVER | {"initContainers": [asks("Always")]}, {"containerStatuses": [OVER, OVER]}, False),
        (
            {"restartPolicy": "Never", "containers": [asks("Always")]},
            {"containerStatuses": [OVER]},
            False,
        ),
    ],
)
def test_ended_means_that_nothing_runs_again_P14(spec: Json, status: Json, ended: bool) -> None:
    """P14, P15: a container that will be started again has not ended; else the phase tells."""
    assert row(spec, status).ended is ended


# Which gang, G1

JOB_OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "controller": True}


@pytest.mark.parametrize(
    ("metadata", "gang"),
    [
        pytest.param({}, None, id="none"),
        pytest.param({"labels": {"app": "x"}}, None, id="other labels"),
        pytest.param(
            {"labels": {names.POD_GROUP_LABELS[0]: "g"}}, Gang("group", "g"), id="PodGroup"
        ),
        pytest.param(
            {"labels": {names.POD_GROUP_LABELS[1]: "g"}}, Gang("group", "g"), id="older PodGroup"
        ),
        pytest.param(
            {"labels": {names.POD_GROUP_LABELS[0]: "g"}, "annotations": settings(gang_size="3")},
            Gang("group", "g", 3),
            id="gang-size spares the question",
        ),
        pytest.param(
            {"labels": {names.LWS_GROUP: "k"}, "annotations": {names.LWS_SIZE: "4"}},
            Gang("leaderworkerset", "k", 4),
            id="LeaderWorkerSet",
        ),
        pytest.param(
            {
                "labels": {names.LWS_GROUP: "k"},
                "annotations": {names.LWS_SIZE: "4"} | settings(gang_size="3"),
            },
            Gang("leaderworkerset", "k", 3),
            id="gang-size before the size of others",
        ),
        pytest.param(
            {"labels": {names.LWS_GROUP: "k"}},
            Gang("leaderworkerset", "k", 0, f"annotation {names.LWS_SIZE} is missing"),
            id="LeaderWorkerSet without size",
        ),
        pytest.param(
            {"annotations": settings(gang="a", gang_size="2")},
            Gang("annotation", "a", 2),
            id="annotations",
        ),
        pytest.param(
            {"annotations": settings(gang="a")},
            Gang("annotation", "a", 0, f"annotation {names.GANG_SIZE} is missing"),
            id="annotation without size",
        ),
        pytest.param(
            {"annotations": settings(gang="job"), "ownerReferences": [JOB_OWNER]},
            Gang("job", "train"),
            id="Indexed Job",
        ),
        pytest.param(
            {
                "annotations": settings(gang="job", gang_size="5"),
                "ownerReferences": [JOB_OWNER | {"controller": False, "name": "other"}, JOB_OWNER],
            },
            Gang("job", "train", 5),
            id="Indexed Job of a size",
        ),
        pytest.param(
            {"annotations": settings(gang="job"), "ownerReferences": [JOB_OWNER | {"kind": "X"}]},
            Gang("job", "", 0, "annotation gang=job, but no Job controls this Pod"),
            id="no Job",
        ),
        pytest.param(
            {
                "annotations": settings(gang="a", gang_size="2"),
                "labels": {names.POD_GROUP_LABELS[0]: "g"},
            },
            Gang("annotation", "a", 2),
            id="our annotation speaks first",
        ),
    ],
)
def test_where_a_gang_is_read_G1(metadata: Json, gang: Gang | None) -> None:
    """G1: four ways to say it, each with its size or where to ask."""
    assert row(**metadata).gang == gang


@pytest.mark.parametrize("size", ["", "0", "-1", "x", "1.5", "٣", str(SIZE_MAX + 1), "9" * 5000])
def test_a_wrong_size_is_told_G1(size: str) -> None:
    """G1: the Pod waits and says so; the text is bounded."""
    gang = row(annotations=settings(gang="a", gang_size=size)).gang
    assert gang is not None
    assert (gang.name, gang.size) == ("a", 0)
    assert names.GANG_SIZE in gang.problem
    assert len(gang.problem) < 200


# Offers of Nodes


def offering(**parts: Any) -> Node:
    made = node("n1", 1)
    made["metadata"] |= {"labels": parts.get("labels")}
    made["spec"] = made.get("spec", {}) | {"taints": parts.get("taints")}
    made["status"] = made.get("status", {}) | {"allocatable": parts.get("allocatable")}
    found = seen(OFFERING_NODES, made)
    assert isinstance(found, Node)
    return found


def test_a_node_offers_labels_taints_and_allocatable_P7_P28() -> None:
    """P7, P28: all labels, ours among them; amounts as requests are counted."""
    found = offering(
        labels={"b": "2", "a": "1", names.LABEL_POD: "p"},
        taints=[{"key": "k", "effect": "NoExecute", "timeAdded": "x"}, {"key": "l", "value": "v"}],
        allocatable={"memory": "16Gi", "cpu": "3900m", "nvidia.com/gpu": "8"},
    )
    assert found.offer == Offer(
        (("a", "1"), ("b", "2"), (names.LABEL_POD, "p")),
        (Taint("k", "NoExecute"), Taint("l", "", "v")),
        (("cpu", 3900), ("memory", 16 * GIB), ("nvidia.com/gpu", 8)),
    )
    assert found.labels == (None, None, None, "p")
    assert offering().offer == Offer()


def test_equal_offers_are_one_object() -> None:
    """Thousands of Nodes change without changing what they offer."""
    one = offering(labels={"a": "1"}, allocatable={"cpu": "1"})
    two = offering(labels={"a": "1"}, allocatable={"cpu": "1000m"})
    assert one.offer is two.offer
    assert one.offer is not offering(labels={"a": "2"}, allocatable={"cpu": "1"}).offer


def test_a_label_that_is_too_long_to_keep_is_read_all_the_same() -> None:
    """What is remembered is bounded, what is true is not."""
    labels = {f"label-{number}": "x" * 60 for number in range(2000)}
    assert len(offering(labels=labels).offer.labels) == 2000


def test_offers_are_read_only_where_somebody_schedules() -> None:
    """Without the scheduler a Node costs what it always did."""
    assert nodes().decoder is NODES
    assert COLLECTIONS["nodes"].selection(Scope(schedules=True)).decoder is OFFERING_NODES
    assert OFFERING_NODES.source == NODES.source
    plain = NODES.object(recorded("answer-apply-node.json"))
    offered = OFFERING_NODES.object(recorded("answer-apply-node.json"))
    assert isinstance(plain, Observed)
    assert isinstance(offered, Observed)
    assert isinstance(plain.row, Node)
    assert isinstance(offered.row, Node)
    assert plain.row.offer == Offer()
    assert dict(offered.row.offer.labels)["kubernetes.io/hostname"] == "g0"
    assert (plain.order, plain.row.labels) == (offered.order, offered.row.labels)
