"""convert-nodeset: each field of Slinky's and SUNK's NodeSets is taken over, or named."""

import io
from pathlib import Path
from typing import Any

import pytest
import yaml

from sunk_sync.__main__ import main
from sunk_sync.cli import slinky_node_set, sunk_node_set
from sunk_sync.cli.convert_nodeset import convert_nodeset
from sunk_sync.kube.decode.wire_node_sets import WireSpec

FOLDER = Path(__file__).parent / "node_sets"
DOCS = Path(__file__).parents[2] / "docs" / "nodesets.md"


def converted(path: Path) -> tuple[int, dict[str, Any], dict[str, list[str]], str]:
    """Return the exit code, the NodeSets and the paths that were left out by name, and stderr."""
    out, errors = io.StringIO(), io.StringIO()
    code = convert_nodeset(str(path), out=out, errors=errors)
    parts = [part for part in out.getvalue().split("---\n") if part]
    found = [yaml.safe_load(part) for part in parts]
    names = [one["metadata"]["name"] for one in found]
    left = {name: comments(part) for name, part in zip(names, parts, strict=True)}
    return code, dict(zip(names, found, strict=True)), left, errors.getvalue()


def comments(text: str) -> list[str]:
    return [line.removeprefix("#   ") for line in text.splitlines() if line.startswith("#   ")]


def from_text(tmp_path: Path, text: str) -> tuple[int, dict[str, Any], dict[str, list[str]], str]:
    file = tmp_path / "given.yaml"
    file.write_text(text, encoding="utf-8")
    return converted(file)


def test_a_plain_slinky_node_set_is_taken_over_but_for_two_pods_on_one_node() -> None:
    """Field by field; what the API server added is dropped in silence."""
    _, found, left, _ = converted(FOLDER / "slinky.yaml")
    (apart,) = left["debug"]
    assert apart.startswith("spec.oversubscribeNode: a Node has one Slurm node")
    assert found["debug"] == {
        "apiVersion": "sunk-sync.dev/v1alpha1",
        "kind": "NodeSet",
        "metadata": {"name": "debug", "namespace": "slurm"},
        "spec": {
            "replicas": 0,
            "ordinalPadding": 2,
            "minReadySeconds": 30,
            "updateStrategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxUnavailable": "20%"},
            },
            "cpus": 16,
            "memory": "64000Mi",
            "template": {
                "metadata": {"annotations": {"team": "hpc"}},
                "spec": {
                    "tolerations": [{"key": "hpc", "operator": "Exists"}],
                    "containers": [
                        {
                            "name": "slurmd",
                            "image": "registry.example/slurmd:26.05",
                            "args": ["-D", "--conf-server", "slurm-controller:6817"],
                            "resources": {"limits": {"cpu": 16, "memory": "64Gi"}},
                        }
                    ],
                },
            },
        },
    }


def test_what_has_no_counterpart_is_named_by_its_path() -> None:
    """Each field that is not taken, once; the rest of the same NodeSet is."""
    code, found, left, errors = converted(FOLDER / "slinky.yaml")
    assert code == 1
    assert {line.partition(": ")[0] for line in left["gpu"]} == {
        "spec.controllerRef",
        "spec.logfile",
        "spec.ssh",
        "spec.extraConf",
        "spec.partition",
        "spec.volumeClaimTemplates",
        "spec.persistentVolumeClaimRetentionPolicy",
        "spec.updateStrategy.type",
        "spec.revisionHistoryLimit",
        "spec.pinToNode",
        "spec.workloadDisruptionProtection",
        "spec.pruneSlurmNodeRecords",
        "spec.template.metadata.labels[app.kubernetes.io/component]",
        "spec.template.spec.subdomain",
        "spec.template.spec.nodeName",
        "spec.template.spec.restartPolicy",
        "spec.template.spec.activeDeadlineSeconds",
        "args of slurmd",
    }
    keys = {line.split(": ")[1] for line in left["gpu"] if line.startswith("spec.extraConf")}
    assert keys == {"Port", "Topology"}
    total = sum(map(len, left.values()))
    assert f"{total} fields are not taken over: see the comments" in errors
    spec = found["gpu"]["spec"]
    assert spec["podNamePrefix"] == "g"
    assert spec["features"] == {"static": ["h100", "ib"]}
    assert spec["gres"] == [
        {"name": "gpu", "type": "h100", "count": 8},
        {"name": "nic", "count": 2},
    ]
    assert spec["reserved"] == {"cores": 2, "memory": "8192Mi"}
    assert (spec["memory"], spec["weight"]) == ("500000Mi", 9)
    assert "cpus" not in spec, "sockets, cores and threads say it"
    assert spec["updateStrategy"] == {"type": "OnDelete"}
    pod = spec["template"]["spec"]
    assert [one["name"] for one in pod["containers"]] == ["slurmd", "exporter"]
    assert pod["containers"][0]["args"] == ["-D", "-vv"]
    assert pod["nodeSelector"] == {"gpu": "h100"}
    assert spec["template"]["metadata"]["labels"] == {"tier": "gpu"}


def test_the_older_version_and_values_that_do_not_fit() -> None:
    """v1alpha1; a field that nobody knows is named too."""
    _, found, left, _ = converted(FOLDER / "slinky.yaml")
    shown = "\n".join(left["old"])
    for part in (
        "spec.taintKubeNodes: taint the Nodes yourself",
        "spec.clusterName: unknown to this converter",
        "spec.extraConf: Sockets: give Sockets, CoresPerSocket, ThreadsPerCore together",
        "spec.extraConf: Gres: 'gpu:many' does not fit",
        "spec.extraConf: CoreSpecCount: '2' does not fit the other fields",
        "spec.updateStrategy.rollingUpdate.maxUnavailable: it must be at least 1 or 1%",
    ):
        assert part in shown, shown
    assert found["old"]["spec"]["extraConf"] == "CpuSpecList=0-1"


def test_sunk_s_node_sets_have_one_pod_for_each_node() -> None:
    _, sunk, _, _ = converted(FOLDER / "sunk.yaml")
    assert {one["spec"]["scalingMode"] for one in sunk.values()} == {"DaemonSet"}
    assert "nodeAffinity" in sunk["h100"]["spec"]["template"]["spec"]["affinity"]


def test_sunk_s_node_sets_keep_their_pods_and_name_what_is_different() -> None:
    """Names have another source there."""
    code, found, left, _ = converted(FOLDER / "sunk.yaml")
    assert code == 1
    assert {line.partition(": ")[0] for line in left["h100"]} == {
        "names of the Slurm nodes",
    }
    assert {line.partition(": ")[0] for line in left["all"]} == {
        "spec.template.spec.hostname",
        "names of the Slurm nodes",
    }
    spec = found["h100"]["spec"]
    assert (spec["replicas"], spec["podNamePrefix"]) == (2, "g")
    assert spec["features"] == {"static": ["h100"], "dynamic": {"rack": {"prefix": "r"}}}
    assert spec["updateStrategy"] == {"type": "OnDelete"}
    assert spec["template"]["spec"]["tolerations"] == [{"key": "lock", "operator": "Exists"}]
    assert found["all"]["spec"]["template"]["spec"]["nodeSelector"] == {"pool": "cpu"}


@pytest.mark.parametrize("file", ["slinky.yaml", "sunk.yaml"])
def test_only_fields_of_sunk_sync_are_printed(file: str) -> None:
    """The chart's tests give them to a real API server."""
    _, found, _, _ = converted(FOLDER / file)
    for one in found.values():
        assert one["spec"].keys() <= set(WireSpec.__struct_encode_fields__)
        assert one["metadata"].keys() <= {"name", "namespace", "labels", "annotations"}
        assert "annotations" not in one["metadata"]


WHOLE = """\
apiVersion: slinky.slurm.net/v1beta1
kind: NodeSet
metadata: {name: cpu}
spec: {slurmd: {image: x}}
"""


def test_a_whole_one_ends_with_0_and_says_nothing(tmp_path: Path) -> None:
    code, found, _, errors = from_text(tmp_path, WHOLE)
    assert (code, errors, list(found)) == (0, "", ["cpu"])


def test_other_objects_are_named_and_skipped(tmp_path: Path) -> None:
    """A file of a whole cluster."""
    other = "---\napiVersion: v1\nkind: Secret\nmetadata: {name: a}\n---\n"
    code, found, _, errors = from_text(tmp_path, WHOLE + other)
    assert (code, list(found)) == (0, ["cpu"])
    assert "Secret of v1 is no NodeSet: skipped" in errors


def test_a_name_that_cannot_begin_node_names_is_told(tmp_path: Path) -> None:
    code, _, left, _ = from_text(tmp_path, WHOLE.replace("cpu", "8gpu"))
    assert code == 1
    assert left["8gpu"][0].startswith("metadata.name: begin it with a letter")


def test_two_node_sets_with_one_yaml_anchor_do_not_share_changes(tmp_path: Path) -> None:
    """The template of the first is not the template of the second."""
    text = """\
apiVersion: v1
kind: List
items:
  - &one
    apiVersion: slinky.slurm.net/v1beta1
    kind: NodeSet
    metadata: {name: a}
    spec: {template: {spec: {hostname: first}}, slurmd: {image: x}}
  - <<: *one
    metadata: {name: b}
"""
    _, found, _, _ = from_text(tmp_path, text)
    assert [one["spec"]["podNamePrefix"] for one in found.values()] == ["first", "first"]


UNREADABLE = {
    "no YAML": ("a: [", "is not YAML"),
    "a list": ("- a", "a document is no mapping"),
    "empty": ("", "no NodeSet in it"),
    "no NodeSet": ("kind: Pod\napiVersion: v1\n", "no NodeSet in it"),
    "a newer version": (WHOLE.replace("v1beta1", "v9"), "NodeSet of slinky.slurm.net/v9"),
    "a wrong form": (
        WHOLE.replace("{slurmd: {image: x}}", "{template: {spec: 3}}").replace(
            "metadata: {name: cpu}", "metadata: 7"
        ),
        "a NodeSet has another form",
    ),
    "deep": ("[" * 5000, "is nested too deeply"),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_cannot_be_read_ends_with_2_and_a_sentence(tmp_path: Path, name: str) -> None:
    """And nothing on stdout, so that a pipe applies nothing."""
    text, sentence = UNREADABLE[name]
    code, found, _, errors = from_text(tmp_path, text)
    assert (code, found) == (2, {})
    assert sentence in errors
    assert errors.count("\n") <= 2


def test_a_missing_file_and_a_file_of_other_bytes(tmp_path: Path) -> None:
    errors = io.StringIO()
    assert convert_nodeset(str(tmp_path / "none"), out=io.StringIO(), errors=errors) == 2
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    assert convert_nodeset(str(tmp_path / "bytes"), out=io.StringIO(), errors=errors) == 2
    said = errors.getvalue()
    assert "No such file or directory" in said
    assert "is not UTF-8 text" in said


def test_the_command_prints_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    """With the comments, so that a saved file keeps them."""
    assert main(["convert-nodeset", str(FOLDER / "sunk.yaml")]) == 1
    out, errors = capsys.readouterr()
    assert out.count("kind: NodeSet") == 2
    assert "#   names of the Slurm nodes: " in out
    assert errors == "sunk-sync: 3 fields are not taken over: see the comments\n"


@pytest.mark.parametrize("words", [[], ["a", "b"], ["a", "--dry-run"]], ids=str)
def test_bad_usage_ends_with_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert-nodeset", *words]) == 2
    assert "sunk-sync convert-nodeset --help" in capsys.readouterr().err


@pytest.mark.parametrize("operator", [slinky_node_set, sunk_node_set], ids=lambda one: one.__name__)
def test_every_field_is_in_the_docs(operator: Any) -> None:
    """The table `Move from Slinky or SUNK`."""
    section = DOCS.read_text(encoding="utf-8").partition("## Move from Slinky or SUNK")[2]
    missing = [name for name in operator.FIELDS if f"`{name}`" not in section]
    assert not missing
