"""Requests of a workload Pod, and its rules about Nodes."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from sunk_sync.core.model.facts import Pod
from sunk_sync.core.model.pod_spec import (
    NO_RULES,
    HostPort,
    PodRules,
    PodSpec,
    PodTerm,
    Requirement,
    Spread,
    Term,
    Toleration,
)
from sunk_sync.kube.decode.source_decoder import PODS, Unreadable
from tests.kit.pod_rows import GIB, Json, asks, row, settings
from tests.kube.recorded.server import pod


def spec_of(**spec: Any) -> PodSpec:
    return row(spec).spec


PREFERRED = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}


def spec(*containers: Json, init: Sequence[Json] = (), **more: Any) -> Json:
    return {"containers": list(containers), "initContainers": list(init)} | more


def cpu(amount: str, restart_policy: str = "") -> Json:
    return asks(restart_policy, cpu=amount)


MIXED = asks(cpu="1", memory="1Gi", **{"nvidia.com/gpu": "2"})
POD_LEVEL = {"requests": {"cpu": "3", "hugepages-2Mi": "4Mi", "x/y": "9"}}
SIDECAR = cpu("2", "Always")
REQUESTS: dict[str, tuple[Json, Json]] = {
    "nothing requested": (spec({"name": "c"}), {}),
    "containers are added": (
        spec(asks(cpu="100m", memory="1Gi"), asks(cpu="1.5", memory="1k")),
        {"cpu": 1600, "memory": GIB + 1000},
    ),
    "rounded once, after the sum": (spec(cpu("0.5m"), cpu("0.5m")), {"cpu": 1}),
    "rounded up": (spec(asks(cpu="0.0001", memory="0")), {"cpu": 1}),
    "the largest init container": (spec(cpu("1"), init=[cpu("3"), cpu("2")]), {"cpu": 3000}),
    "init containers end before containers": (spec(cpu("4"), init=[cpu("3")]), {"cpu": 4000}),
    "a sidecar stays": (spec(cpu("1"), init=[SIDECAR]), {"cpu": 3000}),
    "an init container beside earlier sidecars": (
        spec(cpu("1"), init=[SIDECAR, cpu("5"), cpu("1", "Always")]),
        {"cpu": 7000},
    ),
    "but not beside later ones": (spec(cpu("1"), init=[cpu("5"), SIDECAR]), {"cpu": 5000}),
    "overhead": (
        spec(cpu("1"), overhead={"cpu": "250m", "memory": "10Mi"}),
        {"cpu": 1250, "memory": 10 * 2**20},
    ),
    "pod-level resources replace the sum, for the resources that Kubernetes allows": (
        spec(MIXED, resources=POD_LEVEL, overhead={"cpu": "1"}),
        {"cpu": 4000, "hugepages-2Mi": 4 * 2**20, "memory": GIB, "nvidia.com/gpu": 2},
    ),
    "at most what Kubernetes can count": (
        spec(asks(memory="100Ei", cpu="100Ei")),
        {"cpu": 2**63 - 1, "memory": 2**63 - 1},
    ),
}


@pytest.mark.parametrize(("spec", "requests"), REQUESTS.values(), ids=REQUESTS)
def test_requests_are_summed_as_by_PodRequests_P6(spec: Json, requests: Json) -> None:
    """Zero counts as missing."""
    assert dict(row(spec).spec.requests) == requests
    assert list(row(spec).spec.requests) == sorted(row(spec).spec.requests)


@pytest.mark.parametrize("odd", ["nonsense", "1Zi"])
def test_a_pod_with_an_invalid_quantity_is_unreadable(odd: str) -> None:
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
def test_a_guaranteed_pod_has_static_cpus_if_one_container_requests_whole_cpus_P27(
    qos: str, containers: list[Json], static: bool
) -> None:
    assert row({"containers": containers}, {"qosClass": qos}).spec.static_cpu is static


def test_selector_required_affinity_and_tolerations_are_read_P7() -> None:
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
    "affinity", [{}, None, {"nodeAffinity": None}, {"nodeAffinity": {"preferred": []}}]
)
def test_without_required_affinity_the_terms_are_None_P7(affinity: Json | None) -> None:
    """No Node meets an empty list of terms."""
    assert spec_of(affinity=affinity).terms is None


PREFERENCES: dict[str, tuple[Json, tuple[str, ...]]] = {
    "none": ({"affinity": {"nodeAffinity": {}, "podAffinity": None}}, ()),
    "empty": (
        {"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}},
        (),
    ),
    "of Nodes": ({"affinity": {"nodeAffinity": PREFERRED}}, ("preferred nodeAffinity",)),
    "of Pods": (
        {"affinity": {"podAffinity": PREFERRED, "podAntiAffinity": PREFERRED}},
        ("preferred podAffinity", "preferred podAntiAffinity"),
    ),
    "of spread": (
        {"topologySpreadConstraints": [{"whenUnsatisfiable": "ScheduleAnyway"}]},
        ("topologySpreadConstraints with ScheduleAnyway",),
    ),
    "not of hard spread": (
        {"topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule"}]},
        (),
    ),
}


@pytest.mark.parametrize(("spec", "named"), PREFERENCES.values(), ids=PREFERENCES)
def test_rules_that_only_prefer_nodes_are_named_P8(spec: Json, named: tuple[str, ...]) -> None:
    assert spec_of(**spec).preferences == named


LABELS: Json = {"labelSelector": {"matchLabels": {"b": "2", "a": "1"}}}
EXPRESSIONS: Json = {"matchExpressions": [{"key": "c", "operator": "Exists"}]}
SELECTED = (Requirement("a", "In", ("1",)), Requirement("b", "In", ("2",)))
EACH_NAMESPACE: Json = {"namespaceSelector": {}}
LABELLED_NAMESPACES: Json = {"namespaceSelector": {"matchLabels": {"team": "x"}}}
TEAM = (Requirement("team", "In", ("x",)),)
SOFT_SPREAD, HARD_SPREAD = (
    {"whenUnsatisfiable": action, "topologyKey": "z", "maxSkew": 2, **LABELS}
    for action in ("ScheduleAnyway", "DoNotSchedule")
)


def required(**term: Any) -> Json:
    return {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "x", **term}]}


@pytest.mark.parametrize(
    ("spec", "rules"),
    [
        ({"affinity": {"podAffinity": required()}}, PodRules(beside=(PodTerm("x"),))),
        (
            {"affinity": {"podAntiAffinity": required(**LABELS)}},
            PodRules(apart=(PodTerm("x", SELECTED),)),
        ),
        (
            {"affinity": {"podAntiAffinity": required(labelSelector=EXPRESSIONS)}},
            PodRules(apart=(PodTerm("x", (Requirement("c", "Exists"),)),)),
        ),
        (
            {"affinity": {"podAntiAffinity": required(labelSelector={}, namespaces=["t", "s"])}},
            PodRules(apart=(PodTerm("x", (), ("s", "t")),)),
        ),
        (
            {"affinity": {"podAntiAffinity": required(**LABELS, **EACH_NAMESPACE)}},
            PodRules(apart=(PodTerm("x", SELECTED, ("*",)),)),
        ),
        (
            {"affinity": {"podAntiAffinity": required(**LABELS, **LABELLED_NAMESPACES)}},
            PodRules(apart=(PodTerm("x", SELECTED, (), TEAM),)),
        ),
        (
            {"affinity": {"podAffinity": required(namespaces=["t"], **LABELLED_NAMESPACES)}},
            PodRules(beside=(PodTerm("x", None, ("t",), TEAM),)),
        ),
        (
            {"topologySpreadConstraints": [SOFT_SPREAD, HARD_SPREAD]},
            PodRules(spread=(Spread("z", SELECTED, 2),)),
        ),
        (
            {
                "topologySpreadConstraints": [
                    HARD_SPREAD | {"minDomains": 3, "nodeAffinityPolicy": "Ignore"}
                ]
            },
            PodRules(spread=(Spread("z", SELECTED, 2, 3, honors_affinity=False),)),
        ),
        ({"affinity": {"podAffinity": PREFERRED, "podAntiAffinity": PREFERRED}}, NO_RULES),
        (
            spec(
                {"ports": [{"containerPort": 1}, {"containerPort": 1, "hostPort": 80}]},
                init=[
                    {"ports": [{"hostPort": 81}]},
                    {"restartPolicy": "Always", "ports": [{"hostPort": 82, "protocol": "UDP"}]},
                ],
            ),
            PodRules(ports=(HostPort(80), HostPort(82, "UDP"))),
        ),
        (
            spec({"ports": [{"hostPort": 1, "hostIP": ip} for ip in ("0.0.0.0", "10.0.0.1")]}),
            PodRules(ports=(HostPort(1), HostPort(1, "TCP", "10.0.0.1"))),
        ),
    ],
)  # fmt: skip
def test_rules_about_other_pods_are_read_P8(spec: Json, rules: PodRules) -> None:
    assert row(spec).spec.rules == rules


def test_a_spread_with_its_revision_and_taints_is_read_P8() -> None:
    more = {"matchLabelKeys": ["pod-template-hash"], "nodeTaintsPolicy": "Honor"}
    given = row({"topologySpreadConstraints": [HARD_SPREAD | more]}).spec
    (spread,) = given.rules.spread
    assert (spread.match_keys, spread.honors_taints) == (("pod-template-hash",), True)


def test_labels_are_read_sorted_P8() -> None:
    assert row({}, labels={"b": "2", "a": "1"}).labels == (("a", "1"), ("b", "2"))


def test_grace_priority_class_claims_and_gates_are_read_P3_P8_P9() -> None:
    given = row(
        {
            "terminationGracePeriodSeconds": 7,
            "priorityClassName": "high",
            "resourceClaims": [{"name": "gpu"}],
            "schedulingGates": [{"name": "example.com/wait"}],
        }
    )
    assert (given.spec.grace_s, given.spec.priority_class, given.spec.device_claims) == (
        7,
        "high",
        True,
    )
    assert given.gated
    plain = row({"schedulingGates": [], "resourceClaims": None})
    assert plain.spec == PodSpec()
    assert not plain.gated


@pytest.mark.parametrize(("kind", "daemon"), [("DaemonSet", True), ("ReplicaSet", False)])
def test_a_pod_of_a_daemon_set_is_recognized_by_its_owner_P8(kind: str, daemon: bool) -> None:
    owners = [{"apiVersion": "apps/v1", "kind": kind, "name": "x", "controller": True}]
    assert row({}, ownerReferences=owners).spec.daemon == daemon


def test_pods_of_one_template_share_spec_and_settings() -> None:
    """20,000 waiting Pods cost one PodSpec, though no two specs have equal bytes."""

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
    one = spec_of(containers=[asks(cpu="1000m")])
    two = spec_of(containers=[asks(cpu="1")], nodeSelector={})
    assert one is two


def test_specs_that_differ_in_one_part_are_different() -> None:
    one, two = asks(cpu="1"), asks(cpu="2")
    specs = [
        spec_of(containers=[one, two]),
        spec_of(containers=[one], initContainers=[two]),
        spec_of(containers=[one], initContainers=[asks("Always", cpu="2")]),
        spec_of(containers=[one], overhead={"cpu": "7"}),
        spec_of(containers=[one], resources={"requests": {"cpu": "7"}}),
        spec_of(containers=[one], nodeSelector={"a": "b"}),
        spec_of(containers=[one], tolerations=[{"key": "a"}]),
        spec_of(containers=[one], affinity={"podAffinity": required()}),
        spec_of(containers=[one], topologySpreadConstraints=[HARD_SPREAD]),
        spec_of(containers=[one], resourceClaims=[{"name": "a"}]),
        spec_of(containers=[one], priorityClassName="a"),
        spec_of(containers=[one], terminationGracePeriodSeconds=1),
        row({"containers": [one]}, {"qosClass": "Guaranteed"}).spec,
    ]
    amounts = [dict(spec.requests).get("cpu") for spec in specs[:5]]
    assert amounts == [3000, 2000, 3000, 8000, 7000]
    assert specs[0] is specs[2], "both have the same sum"
    assert len(set(specs)) == len(specs) - 1
