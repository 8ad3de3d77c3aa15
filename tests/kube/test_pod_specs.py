"""What a workload Pod asks for and where it may run."""

import json
from typing import Any

import pytest

from sunk_sync.core.model.facts import Pod
from sunk_sync.core.model.pod_spec import PodSpec, Requirement, Term, Toleration
from sunk_sync.kube.decode.source_decoder import PODS, Unreadable
from tests.kit.pod_rows import GIB, Json, asks, row, settings
from tests.kube.recorded.server import pod


def spec_of(**spec: Any) -> PodSpec:
    return row(spec).spec


REQUIRED = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "x"}]}
PREFERRED = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}


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
