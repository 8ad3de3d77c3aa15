"""NodeSets from `compute.nodes`: what each definition becomes, and that the API server takes it."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from sunk_sync.cli.convert_nodeset import convert_nodeset
from tests.chart.helm import NAMESPACE, Helm, Object, Values, of_kind, the
from tests.docs.pages import blocks
from tests.real import node_sets
from tests.real.testbed import KubeServer
from tools.chart import CHART

real = pytest.mark.real

SUNK = Path(__file__).parents[1] / "cli" / "node_sets" / "sunk.yaml"
IMAGE = "r.example/slurmd:26.05"
ARGS = ["-D", "--conf-server", "slurmctld:6817"]
RACK = {"topology.kubernetes.io/rack": {"prefix": "rack-"}}
MUNGE = {"name": "munge", "emptyDir": {}}
MOUNT = {"name": "munge", "mountPath": "/run/munge"}
STANDARD = {
    "image": {"repository": "r.example/slurmd", "tag": "26.05"},
    "args": ARGS,
    "replicas": 3,
    "tolerations": [{"key": "gpu", "operator": "Exists"}],
    "labels": {"team": "hpc"},
    "resources": {"limits": {"cpu": 16, "memory": "64Gi"}, "requests": {"cpu": 16}},
    "spec": {"weight": 7, "reserved": {"cores": 2}},
}
LOW = {"resources": {"requests": {"cpu": 1, "memory": "10Gi"}}}
H100 = {"gresGpu": "h100:8", "resources": {"limits": {"nvidia.com/gpu": 8}}}


def spec(*, slurmd: Object | None = None, pod: Object | None = None, **fields: Any) -> Object:
    containers = [{"name": "slurmd", "image": IMAGE, **(slurmd or {})}]
    template = {"spec": {"containers": containers, **(pod or {})}, **fields.pop("metadata", {})}
    return {"scalingMode": "DaemonSet", "template": template, **fields}


MADE: dict[str, tuple[Values, Object]] = {
    "one definition, a Pod for each Node": (
        {"set": {"image": IMAGE, "args": ARGS, "nodeSelector": {"pool": "cpu"}}},
        spec(slurmd={"args": ARGS}, pod={"nodeSelector": {"pool": "cpu"}}),
    ),
    "numbered Pods": (
        {"set": {"image": IMAGE, "scalingMode": "StatefulSet", "replicas": 2}},
        spec(scalingMode="StatefulSet", replicas=2),
    ),
    "GPUs with a type": (
        {"set": {"image": IMAGE, **H100}},
        spec(
            slurmd={"resources": {"limits": {"nvidia.com/gpu": 8}}},
            gres=[{"name": "gpu", "type": "h100", "count": 8}],
        ),
    ),
    "GPUs without a type": (
        {"set": {"image": IMAGE, "gresGpu": 4}},
        spec(gres=[{"name": "gpu", "count": 4}]),
    ),
    "two definitions": (
        {
            "standard": STANDARD,
            "low-requests": LOW,
            "set": {"definitions": ["standard", "low-requests"], **H100},
        },
        spec(
            slurmd={
                "args": ARGS,
                "resources": {
                    "limits": {"cpu": 16, "memory": "64Gi", "nvidia.com/gpu": 8},
                    "requests": {"cpu": 1, "memory": "10Gi"},
                },
            },
            pod={"tolerations": STANDARD["tolerations"]},
            metadata={"metadata": {"labels": {"team": "hpc"}}},
            gres=[{"name": "gpu", "type": "h100", "count": 8}],
            replicas=3,
            weight=7,
            reserved={"cores": 2},
        ),
    ),
    "a definition of a definition; 0, false and null count": (
        {
            "standard": {**STANDARD, "spec": {"lock": True}},
            "middle": {"definitions": ["standard"], "resources": None, "labels": None},
            "set": {
                "definitions": ["middle"],
                "replicas": 0,
                "tolerations": None,
                "spec": {"lock": False},
            },
        },
        spec(slurmd={"args": ARGS}, replicas=0, lock=False),
    ),
    "an image by its digest": (
        {
            "standard": {"image": {"repository": "r.example/slurmd", "tag": "26.05"}},
            "set": {
                "definitions": ["standard"],
                "image": {"digest": f"sha256:{'0f' * 32}", "pullPolicy": "Always"},
            },
        },
        spec(
            slurmd={
                "image": f"r.example/slurmd@sha256:{'0f' * 32}",
                "imagePullPolicy": "Always",
            }
        ),
    ),
    "all of a Pod": (
        {
            "set": {
                "image": IMAGE,
                "command": ["slurmd"],
                "env": [{"name": "TZ", "value": "UTC"}],
                "volumes": [MUNGE],
                "volumeMounts": [MOUNT],
                "containers": [{"name": "munge", "image": "r.example/munge:1"}],
                "initContainers": [{"name": "sysctl", "image": "r.example/tools:1"}],
                "dnsPolicy": "None",
                "dnsConfig": {"searches": ["slurm-nodes.slurm.svc.cluster.local"]},
                "imagePullSecrets": [{"name": "registry"}],
                "priorityClassName": "high",
                "serviceAccountName": "slurmd",
                "terminationGracePeriodSeconds": 60,
                "annotations": {"a": "b"},
            }
        },
        {
            "scalingMode": "DaemonSet",
            "template": {
                "metadata": {"annotations": {"a": "b"}},
                "spec": {
                    "containers": [
                        {
                            "name": "slurmd",
                            "image": IMAGE,
                            "command": ["slurmd"],
                            "env": [{"name": "TZ", "value": "UTC"}],
                            "volumeMounts": [MOUNT],
                        },
                        {"name": "munge", "image": "r.example/munge:1"},
                    ],
                    "initContainers": [{"name": "sysctl", "image": "r.example/tools:1"}],
                    "dnsPolicy": "None",
                    "dnsConfig": {"searches": ["slurm-nodes.slurm.svc.cluster.local"]},
                    "imagePullSecrets": [{"name": "registry"}],
                    "priorityClassName": "high",
                    "serviceAccountName": "slurmd",
                    "terminationGracePeriodSeconds": 60,
                    "volumes": [MUNGE],
                },
            },
        },
    ),
    "features, and any other field": (
        {
            "set": {
                "image": IMAGE,
                "podNamePrefix": "g",
                "minReadySeconds": 30,
                "staticFeatures": ["h100"],
                "dynamicFeatures": RACK,
                "updateStrategy": {"type": "OnDelete"},
                "spec": {
                    "weight": 4294967279,
                    "topology": {"tree": ["topology.kubernetes.io/rack"]},
                    "gres": [],
                    "template": {"spec": {"hostNetwork": True}},
                },
            }
        },
        spec(
            pod={"hostNetwork": True},
            podNamePrefix="g",
            minReadySeconds=30,
            features={"static": ["h100"], "dynamic": RACK},
            updateStrategy={"type": "OnDelete"},
            weight=4294967279,
            topology={"tree": ["topology.kubernetes.io/rack"]},
            gres=[],
        ),
    ),
}
"""Name → the definitions, of which `set` is enabled, and the spec of its NodeSet."""
EXAMPLES = [
    (block.place, made)
    for block in blocks()
    if block.language == "yaml"
    for made in yaml.safe_load_all(block.text)
    if isinstance(made, dict) and "compute" in made
]


def enabled(nodes: Values) -> Values:
    """Return values with these definitions."""
    nodes = {**nodes, "set": {"enabled": True, **nodes["set"]}}
    return {"nodesets": {"enabled": True}, "compute": {"nodes": nodes}}


@pytest.fixture(scope="module")
def with_kind(kube: KubeServer) -> Iterator[KubeServer]:
    """An API server with the kind NodeSet."""
    with node_sets.installed(kube):
        yield kube


def accepted(kube: KubeServer, found: list[Object], folder: Path) -> list[str]:
    """Let the API server look at the objects without storing them; return what it says."""
    file = folder / "objects.yaml"
    file.write_text(yaml.safe_dump_all(found))
    flags = ("--dry-run=server", "--validate=strict")
    return kube.kubectl("apply", *flags, "-f", file).splitlines()


@real
@pytest.mark.parametrize("name", MADE)
def test_a_definition_becomes_a_node_set_that_the_server_takes(
    helm: Helm, with_kind: KubeServer, tmp_path: Path, name: str
) -> None:
    """Field by field; the schema and the rules of the kind are the server's."""
    nodes, expected = MADE[name]
    found = the(helm.objects(enabled(nodes)), "NodeSet")
    assert found["spec"] == expected
    said = accepted(with_kind, [found], tmp_path)
    assert said == ["nodeset.sunk-sync.dev/set created (server dry run)"]


@real
def test_what_the_kind_refuses_is_refused_by_the_server(
    helm: Helm, with_kind: KubeServer, tmp_path: Path
) -> None:
    """`spec` is not checked by the schema of the values."""
    values = enabled({"set": {"image": IMAGE, "spec": {"weigth": 3}}})
    found = of_kind(helm.objects(values), "NodeSet")
    with pytest.raises(Exception, match=r'unknown field "spec.weigth"'):
        accepted(with_kind, found, tmp_path)


def as_values(source: Object) -> Values:
    """Write a NodeSet of SUNK as a definition: the fields of its container slurmd stand outside."""
    given = {name: value for name, value in source["spec"].items() if name != "template"}
    (slurmd,) = source["spec"]["template"]["spec"]["containers"]
    slurmd.pop("name")
    return {"set": {**given, **slurmd}}


@real
@pytest.mark.parametrize("name", ["h100", "all"])
def test_a_definition_and_the_converter_make_the_same_node_set(
    helm: Helm, tmp_path: Path, name: str
) -> None:
    """Of one NodeSet of SUNK."""
    every = yaml.safe_load_all(SUNK.read_text())
    (source,) = [one for one in every if one["metadata"]["name"] == name]
    file, out = tmp_path / "sunk.yaml", io.StringIO()
    file.write_text(yaml.safe_dump(source))
    convert_nodeset(str(file), out=out, errors=io.StringIO())
    converted = yaml.safe_load(out.getvalue())
    made = the(helm.objects(enabled(as_values(source))), "NodeSet")
    assert made["spec"] == converted["spec"]
    assert made["apiVersion"] == converted["apiVersion"]
    assert made["metadata"]["namespace"] == converted["metadata"]["namespace"]


@real
def test_nothing_is_made_of_a_definition_that_is_not_enabled(helm: Helm) -> None:
    """One that others name, or one that is switched off."""
    nodes = {"base": {"image": IMAGE}, "off": {"enabled": False}, "set": {"definitions": ["base"]}}
    found = of_kind(helm.objects(enabled(nodes)), "NodeSet")
    assert [one["metadata"]["name"] for one in found] == ["set"]


@real
@pytest.mark.parametrize("namespace", [None, "team-a"])
def test_a_node_set_is_where_sunk_sync_reads_it(helm: Helm, namespace: str | None) -> None:
    """In the first namespace of slurmd Pods, or in that of the definition."""
    values = enabled({"set": {"image": IMAGE, "namespace": namespace}})
    found = the(helm.objects({**values, "slurmd": {"namespaces": "workers, team-a"}}), "NodeSet")
    assert found["metadata"]["namespace"] == (namespace or "workers")
    assert "namespace" not in found["spec"]


@real
@pytest.mark.parametrize("keep", [True, False])
def test_helm_leaves_node_sets_unless_it_is_told_otherwise(helm: Helm, *, keep: bool) -> None:
    values = enabled({"set": {"image": IMAGE}})
    values = {**values, "compute": {**values["compute"], "keep": keep}}
    found = the(helm.objects(values), "NodeSet")["metadata"]
    assert found.get("annotations", {}) == ({"helm.sh/resource-policy": "keep"} if keep else {})


@real
@pytest.mark.parametrize(("place", "values"), EXAMPLES)
def test_each_example_of_the_documentation_is_taken_by_the_server(
    helm: Helm, with_kind: KubeServer, tmp_path: Path, place: str, values: Values
) -> None:
    found = of_kind(helm.objects({**values, "nodesets": {"enabled": True}}), "NodeSet")
    assert found, place
    assert len(accepted(with_kind, found, tmp_path)) == len(found)
    assert all(one["metadata"]["namespace"] == NAMESPACE for one in found)


@real
def test_there_is_an_example_for_each_mode(helm: Helm) -> None:
    found = [one for _, values in EXAMPLES for one in of_kind(helm.objects(values), "NodeSet")]
    assert {one["spec"]["scalingMode"] for one in found} == {"DaemonSet", "StatefulSet"}


def test_each_field_that_is_refused_has_a_sentence() -> None:
    """The schema lets them through, so that helm can say what to use instead."""
    text = (CHART / "values.schema.json").read_text(encoding="utf-8")
    fields = yaml.safe_load(text)["definitions"]["computeNode"]["properties"]
    helpers = (CHART / "templates" / "_compute.tpl").read_text(encoding="utf-8")
    for name in (name for name, field in fields.items() if field is True):
        assert f"\n{name}: " in helpers or f'"{name}"' in helpers, name
