"""The kind NodeSet on a real API server: what it accepts, what it refuses, in which words."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sunk_sync.cli.convert_nodeset import convert_nodeset
from sunk_sync.kube.decode import wire_node_sets as wires
from tests.chart.helm import Object
from tests.real import node_sets
from tests.real.node_sets import applied, node_set, with_pod
from tests.real.testbed import KubeServer
from tests.real.testbed.rest import RestError

real = pytest.mark.real

CONVERTED = Path(__file__).parents[1] / "cli" / "node_sets"
ROLLING = {"maxUnavailable": 1}
TOGETHER = "Sockets=2 CoresPerSocket=8 ThreadsPerCore=2"
ONLY = "extraConf takes only Sockets, CoresPerSocket, ThreadsPerCore, CpuSpecList,"
FORM = "extraConf is Key=Value, or several with one space between them"
MEMORY = "memory is an amount such as 500Gi, from 1Mi to less than 1024Ti"
UNAVAILABLE = "maxUnavailable is a number from 1, or 1% to 100%"
PREFIX = "podNamePrefix has small letters, digits and hyphens. It begins with a letter"
STANDARD = "begins the names of its Slurm nodes: give it at most 50 small letters"
FEATURE = "a feature has letters, digits and the characters _.=:/- and does not begin with k8s."
UNKNOWN = "strict decoding error: unknown field"


def rolling(limit: Any) -> Object:
    return node_set(updateStrategy={"rollingUpdate": {"maxUnavailable": limit}})


WRONG: dict[str, tuple[Object, str]] = {
    "line break in extraConf": (node_set(extraConf=f"{TOGETHER}\nGres=gpu:8"), FORM),
    "line break at the end": (node_set(extraConf="TmpDisk=1\n"), FORM),
    "quote in extraConf": (node_set(extraConf='TmpDisk="1"'), FORM),
    "two spaces in extraConf": (node_set(extraConf="TmpDisk=1  CpuSpecList=0"), FORM),
    "NodeName in extraConf": (node_set(extraConf="NodeName=cpu-7"), ONLY),
    "Feature in extraConf": (node_set(extraConf="Feature=a"), ONLY),
    "Gres in extraConf": (node_set(extraConf="Gres=gpu:8"), ONLY),
    "Port in extraConf": (node_set(extraConf="Port=6818"), ONLY),
    "word for a number": (
        node_set(extraConf="TmpDisk=all"),
        "each other key takes a number from 1",
    ),
    "a key twice": (node_set(extraConf="TmpDisk=1 TmpDisk=2"), "a key stands twice in extraConf"),
    "Sockets alone": (node_set(extraConf="Sockets=2"), "of extraConf go together"),
    "two numbers of CPUs": (node_set(extraConf=TOGETHER, cpus=32), "give one of them"),
    "CPUs reserved twice": (
        node_set(extraConf="CpuSpecList=0", reserved={"cores": 1}),
        "reserved.cores and the CpuSpecList of extraConf both reserve CPUs",
    ),
    "no container slurmd": (
        node_set(template={"spec": {"containers": [{"name": "main"}]}}),
        "spec.template.spec.containers: Invalid value: one container must have the name slurmd",
    ),
    "two containers slurmd": (
        node_set(template={"spec": {"containers": [{"name": "slurmd"}] * 2}}),
        'spec.template.spec.containers[1]: Duplicate value: {"name":"slurmd"}',
    ),
    "own --conf": (
        with_pod({"args": ["-D", "--conf=Gres=gpu:8"]}),
        "sunk-sync adds the arguments -Z, -N and --conf of slurmd. Use extraConf",
    ),
    "wrong limit": (
        with_pod({"resources": {"limits": {"memory": "much"}}}),
        'resources.limits[memory]: Invalid value: "much": a limit is a quantity such as 8, 500m',
    ),
    "host name": (with_pod(hostname="cpu-0"), "the host name is the name of the Slurm node"),
    "subdomain": (with_pod(subdomain="cpu"), "the host name is the name of the Slurm node"),
    "one Node for all": (with_pod(nodeName="n1"), "nodeName would put every Pod on one Node"),
    "restart policy": (with_pod(restartPolicy="Never"), "restartPolicy must be Always"),
    "deadline": (with_pod(activeDeadlineSeconds=9), "would end slurmd under running jobs"),
    "no label": (
        node_set(template={**with_pod()["spec"]["template"], "metadata": {"labels": {"a b": ""}}}),
        "a label of the template is not a label of Kubernetes",
    ),
    "another component": (
        node_set(
            template={
                **with_pod()["spec"]["template"],
                "metadata": {"labels": {"app.kubernetes.io/component": "worker"}},
            }
        ),
        "sunk-sync sets the label app.kubernetes.io/component to slurmd",
    ),
    "maxUnavailable 0": (rolling(0), UNAVAILABLE),
    "maxUnavailable 0%": (rolling("0%"), UNAVAILABLE),
    "maxUnavailable 101%": (rolling("101%"), UNAVAILABLE),
    "maxUnavailable x": (rolling("x"), UNAVAILABLE),
    "rollingUpdate without use": (
        node_set(updateStrategy={"type": "OnDelete", "rollingUpdate": ROLLING}),
        "rollingUpdate needs the type RollingUpdate",
    ),
    "scheduledUpdate missing": (
        node_set(updateStrategy={"type": "ScheduledUpdate"}),
        "the type ScheduledUpdate needs scheduledUpdate, and no other takes it",
    ),
    "no time": (
        node_set(
            updateStrategy={"type": "ScheduledUpdate", "scheduledUpdate": {"startTime": "tonight"}}
        ),
        "spec.updateStrategy.scheduledUpdate.startTime in body must be of type date-time",
    ),
    "unknown strategy": (
        node_set(updateStrategy={"type": "Recreate"}),
        (
            'Unsupported value: "Recreate": '
            'supported values: "RollingUpdate", "OnDelete", "ScheduledUpdate"'
        ),
    ),
    "time without after": (
        node_set(updateJobs={"method": "time"}),
        "spec.updateJobs.after: Invalid value: the method time needs after, such as 30m",
    ),
    "after in words": (
        node_set(updateJobs={"method": "time", "after": "soon"}),
        "after is a duration such as 30m or 1h30m",
    ),
    "partition without partitions": (
        node_set(updateJobs={"method": "partition"}),
        "the method partition needs partitions, and no other takes them",
    ),
    "partitions without use": (
        node_set(updateJobs={"method": "qos", "qos": ["low"], "partitions": ["spare"]}),
        "the method partition needs partitions, and no other takes them",
    ),
    "a comma in a QOS": (
        node_set(updateJobs={"method": "qos", "qos": ["low,high"]}),
        "a name has letters, digits and the characters _.+=-",
    ),
    "scaleInTimeout alone": (
        node_set(scaleInTimeout="1h"),
        "scaleInTimeout needs updateJobs, which says which jobs are requeued then",
    ),
    "word for memory": (node_set(memory="lots"), MEMORY),
    "memory below one MiB": (node_set(memory="4"), MEMORY),
    "memory as a number": (node_set(memory=64), "spec.memory in body must be of type string"),
    "all memory reserved": (
        node_set(memory="8Gi", reserved={"memory": "8192Mi"}),
        "spec.reserved.memory: Invalid value: reserved.memory must be less than memory",
    ),
    "all CPUs reserved": (
        node_set(cpus=8, reserved={"cores": 8}),
        "spec.reserved.cores: Invalid value: reserved.cores must be less than cpus",
    ),
    "comma in a gres": (
        node_set(gres=[{"name": "gpu,x", "count": 1}]),
        "the name of a gres, such as gpu, has small letters, digits and underscores",
    ),
    "colon in a type": (
        node_set(gres=[{"name": "gpu", "type": "a:b", "count": 1}]),
        "the type of a gres, such as h100, has letters, digits, underscores, dots and hyphens",
    ),
    "a gres twice": (
        node_set(gres=[{"name": "gpu", "count": 1}, {"name": "gpu", "count": 2}]),
        "two entries of gres have the same name and type",
    ),
    "no gres": (
        node_set(gres=[{"name": "gpu", "count": 0}]),
        "spec.gres[0].count in body should be greater than or equal to 1",
    ),
    "digit first": (node_set("8gpus"), STANDARD),
    "long name": (node_set("x" * 51), STANDARD),
    "dot in the name": (
        node_set("a.b", podNamePrefix="a"),
        "metadata.name: Invalid value: the name of the NodeSet is a label of its Pods and a",
    ),
    "capital prefix": (node_set(podNamePrefix="GPU"), PREFIX),
    "prefix with a hyphen at its end": (node_set(podNamePrefix="gpu-"), PREFIX),
    "replicas -1": (node_set(replicas=-1), "should be greater than or equal to 0"),
    "weight 0": (node_set(weight=0), "spec.weight in body should be greater than or equal to 1"),
    "field of another operator": (
        node_set(controllerRef={"name": "slurm"}),
        f'{UNKNOWN} "spec.controllerRef"',
    ),
    "sign in a feature": (node_set(features={"static": ["a&b"]}), FEATURE),
    "line break in a feature": (node_set(features={"static": ["a\n"]}), FEATURE),
    "stamp as a feature": (node_set(features={"static": ["k8s.12345678.12345678"]}), FEATURE),
    "stamp as a prefix": (
        node_set(features={"dynamic": {"gpu": {"prefix": "k8s."}}}),
        "prefix has letters, digits and the characters _.=:/- and does not begin with k8s.",
    ),
    "label of no Node": (
        node_set(features={"dynamic": {"a b": {}}}),
        "a key of dynamic is a label of Nodes, such as gpu.nvidia.com/class",
    ),
    "topology without labels": (
        node_set(topology={"tree": []}),
        "spec.topology.tree in body should have at least 1 items",
    ),
    "short topology": (
        node_set(topology={"tree": ["zone"], "under": "tree"}),
        "under is a topology and a switch, such as tree:root",
    ),
    "tree and block": (
        node_set(topology={"tree": ["zone"], "block": "rack"}),
        "topology needs either tree or block",
    ),
    "neither tree nor block": (
        node_set(topology={"under": "tree:root"}),
        "topology needs either tree or block",
    ),
    "topology of blocks for a tree": (
        node_set(topology={"tree": ["zone"], "blockTopology": "b"}),
        "blockTopology needs block",
    ),
    "misspelt field": (node_set(replica=3), f'{UNKNOWN} "spec.replica"'),
    "no template": ({**node_set(), "spec": {}}, "spec.template: Required value"),
}
"""Name → a NodeSet with one mistake, and what kubectl says. `-rP` shows the whole sentence."""

RIGHT: dict[str, Object] = {
    "smallest": node_set(),
    "zero": node_set(replicas=0),
    "shape": node_set(
        cpus=64,
        memory="1.5Ti",
        reserved={"cores": 2, "memory": "8Gi"},
        gres=[{"name": "gpu", "type": "h100", "count": 8}, {"name": "nic", "count": 4}],
        weight=4294967279,
        extraConf="RestrictedCoresPerGPU=2 TmpDisk=100",
    ),
    "hardware": node_set(extraConf=f"{TOGETHER} CpuSpecList=0-1,3"),
    "features": node_set(
        features={
            "static": ["fast", "ib/hdr"],
            "dynamic": {"gpu.nvidia.com/class": {}, "rack": {"prefix": "rack="}},
        },
        topology={"tree": ["topology.kubernetes.io/zone", "rack"]},
    ),
    "block": node_set(topology={"block": "nvlink/domain", "blockTopology": "blk"}),
    "nothing reserved": node_set(reserved={"cores": 0, "memory": "0"}, gres=[], extraConf=""),
    "names": node_set("8-gpus", podNamePrefix="gpu", ordinalPadding=3),
    "maxUnavailable 1": rolling(1),
    "maxUnavailable 100%": rolling("100%"),
    "OnDelete": node_set(updateStrategy={"type": "OnDelete"}),
    "Pod": with_pod(
        {
            "command": ["slurmd", "-D"],
            "args": ["-vv"],
            "resources": {"limits": {"cpu": 8, "memory": "64Gi", "nvidia.com/gpu": "8"}},
            "securityContext": {"privileged": True},
        },
        terminationGracePeriodSeconds=60,
        tolerations=[{"key": "gpu", "operator": "Exists"}],
        affinity={"podAntiAffinity": {}},
        volumes=[{"name": "home", "emptyDir": {}}],
        initContainers=[{"name": "init", "image": "x"}],
    ),
}


@pytest.fixture(scope="module")
def server(kube: KubeServer) -> Iterator[KubeServer]:
    """An API server with the kind."""
    with node_sets.installed(kube):
        yield kube


@pytest.fixture
def made(server: KubeServer) -> Iterator[str]:
    """The name of a stored NodeSet; it is removed at the end."""
    assert applied(server, node_set("cpu", replicas=3))[0]
    yield "cpu"
    server.kubectl("delete", "nset", "cpu", "-n", "slurm")


@real
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_node_set_is_refused_with_one_sentence(server: KubeServer, name: str) -> None:
    """As `kubectl apply` says it; nothing is stored."""
    wrong, sentence = WRONG[name]
    accepted, said = applied(server, wrong, "--dry-run=server")
    print(said)
    assert not accepted
    assert sentence in said
    assert len(said) < 600, "nobody reads it"


@real
@pytest.mark.parametrize("name", RIGHT)
def test_a_right_node_set_is_accepted_whole(server: KubeServer, name: str) -> None:
    """No field is dropped, and the product reads it."""
    right = RIGHT[name]
    path = f"{node_sets.path()}?dryRun=All&fieldValidation=Strict"
    stored = server.rest.call("POST", path, right)
    assert contains(stored["spec"], right["spec"]), stored


def contains(whole: Any, part: Any) -> bool:
    if isinstance(part, dict):
        return all(name in whole and contains(whole[name], part[name]) for name in part)
    if isinstance(part, list):
        pairs = zip(whole, part, strict=True)
        return len(whole) == len(part) and all(contains(*pair) for pair in pairs)
    return bool(whole == part)


@real
def test_the_defaults_are_those_of_the_product(server: KubeServer, made: str) -> None:
    """What the API server fills in is what the product assumes where it is absent."""
    stored = server.rest.call("GET", f"{node_sets.path()}/{made}")["spec"]
    assert {name: stored[name] for name in stored if name not in ("template", "replicas")} == {
        "scalingMode": "StatefulSet",
        "lock": True,
        "ordinalPadding": 0,
        "weight": 1,
        "minReadySeconds": 0,
        "updateStrategy": {"type": "RollingUpdate"},
    }
    partial = server.rest.call(
        "POST", f"{node_sets.path()}?dryRun=All", rolling(1) | _named("other")
    )
    assert partial["spec"]["updateStrategy"]["type"] == "RollingUpdate"
    empty = node_set("other", updateStrategy={"rollingUpdate": {}})
    filled = server.rest.call("POST", f"{node_sets.path()}?dryRun=All", empty)["spec"]
    assert filled["updateStrategy"]["rollingUpdate"] == {"maxUnavailable": "25%"}
    assert "replicas" not in filled, "one, or one for each Node"


def _named(name: str) -> Object:
    return {"metadata": {"name": name, "namespace": "slurm"}}


@real
def test_kubectl_get_shows_the_numbers(server: KubeServer, made: str) -> None:
    """Also by the short name, and wide."""
    numbers = {
        name: number
        for number, name in enumerate(
            (
                *("desired", "replicas", "ready", "registered", "available", "idle"),
                *("allocated", "draining", "down", "updated"),
            ),
            start=10,
        )
    }
    patch(server, f"{made}/status", {"status": numbers})
    header, row = server.kubectl("get", "nset", made, "-n", "slurm", "-o", "wide").splitlines()
    assert header.split() == [
        *("NAME", "DESIRED", "CURRENT", "READY", "REGISTERED", "AVAILABLE", "IDLE", "ALLOCATED"),
        *("DRAINING", "DOWN", "UPDATED", "AGE"),
    ]
    assert row.split()[:-1] == [made, *map(str, numbers.values())]
    narrow = server.kubectl("get", "nodesets", "-n", "slurm").splitlines()[0].split()
    assert narrow == [name for name in header.split() if name not in ("DOWN", "UPDATED")]
    assert made in server.kubectl("get", "slurm", "-A")


def patch(server: KubeServer, path: str, body: Object) -> Any:
    content_type = "application/merge-patch+json"
    return server.rest.call("PATCH", f"{node_sets.path()}/{path}", body, content_type=content_type)


@real
def test_kubectl_scale_changes_the_replicas_and_a_second_apply_leaves_them_N26(
    server: KubeServer,
) -> None:
    """As an autoscaler does it: the manifest then must not name replicas."""
    assert applied(server, node_set("elastic"))[0]
    try:
        patch(server, "elastic/status", {"status": {"replicas": 2, "selector": "a=b,c=d"}})
        server.kubectl("scale", "nset/elastic", "-n", "slurm", "--replicas=0")
        scale = server.rest.call("GET", f"{node_sets.path()}/elastic/scale")
        assert scale["spec"] == {} or scale["spec"]["replicas"] == 0
        assert scale["status"] == {"replicas": 2, "selector": "a=b,c=d"}
        assert applied(server, node_set("elastic"))[0]
        assert server.rest.call("GET", f"{node_sets.path()}/elastic")["spec"]["replicas"] == 0
    finally:
        server.kubectl("delete", "nset", "elastic", "-n", "slurm")


@real
def test_the_status_changes_only_by_its_subresource(server: KubeServer, made: str) -> None:
    """And a status never changes the spec."""
    patch(server, made, {"status": {"ready": 7}})
    assert "status" not in server.rest.call("GET", f"{node_sets.path()}/{made}")
    patch(server, f"{made}/status", {"status": {"ready": 7}, "spec": {"replicas": 9}})
    stored = server.rest.call("GET", f"{node_sets.path()}/{made}")
    assert (stored["status"], stored["spec"]["replicas"]) == ({"ready": 7}, 3)
    assert stored["metadata"]["generation"] == 1


@real
@pytest.mark.parametrize(
    "change",
    [{"podNamePrefix": "other"}, {"ordinalPadding": 3}, {"scalingMode": "DaemonSet"}],
    ids=lambda one: next(iter(one)),
)
def test_the_names_of_the_pods_cannot_change(
    server: KubeServer, made: str, change: dict[str, Any]
) -> None:
    """The names of the Slurm nodes are in jobs and in accounting."""
    accepted, said = applied(server, node_set(made, **change))
    assert not accepted
    assert "scalingMode, podNamePrefix and ordinalPadding cannot change" in said
    with pytest.raises(RestError) as refused:
        patch(server, made, {"spec": change})
    assert refused.value.status == 422


@real
def test_a_prefix_cannot_be_removed_but_other_fields_change(server: KubeServer) -> None:
    """The rule above is no obstacle to an update."""
    assert applied(server, node_set("named", podNamePrefix="n"))[0]
    try:
        accepted, said = applied(server, node_set("named"))
        assert not accepted
        assert "scalingMode, podNamePrefix and ordinalPadding cannot change" in said
        changed = node_set("named", podNamePrefix="n", replicas=2, weight=5, cpus=4)
        assert applied(server, changed)[0]
    finally:
        server.kubectl("delete", "nset", "named", "-n", "slurm")


@real
def test_every_word_of_the_product_s_status_is_kept(server: KubeServer, made: str) -> None:
    """A field that the schema lacks would be dropped in silence, and written again for ever."""
    condition = {
        "type": "Available",
        "status": "True",
        "reason": "AllAvailable",
        "message": "3 of 3",
        "lastTransitionTime": "2026-11-25T00:00:00Z",
    }
    status = {name: condition_or_value(name, condition) for name in fields_of(wires.WireStatus)}
    patch(server, f"{made}/status?fieldValidation=Strict", {"status": status})
    assert server.rest.call("GET", f"{node_sets.path()}/{made}")["status"] == status


def condition_or_value(name: str, condition: Object) -> Any:
    if name == "conditions":
        return [condition]
    return "x" if name in ("revision", "selector") else 3


@real
@pytest.mark.parametrize("file", ["slinky.yaml", "sunk.yaml"])
def test_converted_node_sets_are_accepted(server: KubeServer, tmp_path: Path, file: str) -> None:
    """Those that `sunk-sync convert-nodeset` prints, with strict validation."""
    out = tmp_path / "converted.yaml"
    with out.open("w", encoding="utf-8") as stream:
        assert convert_nodeset(str(CONVERTED / file), out=stream, errors=io.StringIO()) == 1
    flags = ("--dry-run=server", "--validate=strict")
    lines = server.kubectl("apply", *flags, "-f", out).splitlines()
    assert len(lines) == out.read_text(encoding="utf-8").count("kind: NodeSet") > 1
    assert all(line.endswith("created (server dry run)") for line in lines)


def fields_of(wire: Any) -> set[str]:
    return set(wire.__struct_encode_fields__)


@pytest.mark.parametrize(
    ("path", "wire"),
    [
        ("spec", wires.WireSpec),
        ("spec.reserved", wires.WireReserved),
        ("spec.gres.*", wires.WireGres),
        ("spec.updateStrategy", wires.WireStrategy),
        ("spec.updateStrategy.rollingUpdate", wires.WireRollingUpdate),
        ("status", wires.WireStatus),
    ],
    ids=str,
)
def test_the_schema_has_exactly_the_fields_that_the_product_reads(path: str, wire: Any) -> None:
    """A field that nobody follows would be a promise that is not kept."""
    schema = node_sets.schema()
    for name in path.split("."):
        schema = schema["items"] if name == "*" else schema["properties"][name]
    assert set(schema["properties"]) == fields_of(wire)


def test_every_field_of_the_spec_is_described() -> None:
    """`kubectl explain nset.spec` shows these texts."""
    spec = node_sets.schema()["properties"]["spec"]["properties"]
    assert not [name for name, one in spec.items() if "description" not in one]
