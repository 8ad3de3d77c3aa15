"""Wrong values are refused before anything is installed, each with one sentence."""

from typing import Any

import pytest

from tests.chart.helm import Helm, Values
from tests.real.testbed.errors import BedError

pytestmark = pytest.mark.real


def compute(**nodes: Any) -> Values:
    return {"nodesets": {"enabled": True}, "compute": {"nodes": nodes}}


BAD: dict[str, tuple[Values, str]] = {
    "unknown key": ({"replicas": 3}, "at '': additional properties 'replicas' not allowed"),
    "misspelt key": (
        {"scheduler": {"scopes": {}}},
        "at '/scheduler': additional properties 'scopes' not allowed",
    ),
    "text for a switch": (
        {"scheduler": {"enabled": "yes"}},
        "at '/scheduler/enabled': got string, want boolean",
    ),
    "unknown scope": (
        {"scheduler": {"scope": {"type": "everything"}}},
        "at '/scheduler/scope/type': value must be one of 'namespace', 'cluster'",
    ),
    "all namespaces in the wrong place": (
        {"scheduler": {"scope": {"namespaces": "*"}}},
        "at '/scheduler/scope/namespaces': '*' does not match pattern '^[-a-z0-9, ]*$'",
    ),
    "address without scheme": (
        {"slurm": {"apiBase": "slurm-restd:6820"}},
        "at '/slurm/apiBase': 'slurm-restd:6820' does not match pattern '^https?://",
    ),
    "unknown setting": (
        {"settings": {"kill-wait": "30s"}},
        "at '/settings': additional properties 'kill-wait' not allowed",
    ),
    "setting that the chart makes": (
        {"settings": {"cluster-name": "hpc"}},
        "at '/settings': additional properties 'cluster-name' not allowed",
    ),
    "wrong setting": (
        {"settings": {"log-level": "verbose"}},
        "at '/settings/log-level': value must be one of 'debug', 'info', 'warning', 'error'",
    ),
    "traces beyond all Pods": (
        {"traces": {"sample": 10}},
        "at '/traces/sample': maximum: got 10, want 1",
    ),
    "no duration": (
        {"settings": {"slurm-kill-wait": "half a minute"}},
        "at '/settings/slurm-kill-wait': 'half a minute' does not match pattern",
    ),
    "number for a label": (
        {"nodeSelector": {"rack": 7}},
        "at '/nodeSelector/rack': got number, want string",
    ),
    "no digest": (
        {"image": {"digest": "latest"}},
        "at '/image/digest': 'latest' does not match pattern '^(sha256:[0-9a-f]{64})?$'",
    ),
    "no syncer": (
        {"syncer": {"enabled": False}},
        "syncer.enabled must be true: every other component needs the syncer.",
    ),
    "no token": (
        {"slurm": {"auth": {"existingSecret": ""}}},
        "There is no token for slurmrestd: set slurm.auth.existingSecret, ",
    ),
    "two tokens": (
        {"slurm": {"auth": {"token": "x", "volume": {"csi": {"driver": "x"}}}}},
        "slurm.auth.token and slurm.auth.volume are both set: give only one.",
    ),
    "other Pods without scheduler": (
        {"scheduler": {"enabled": False, "watchAllPods": True}},
        "scheduler.watchAllPods is true and scheduler.enabled is false: ",
    ),
    "the lock without scheduler": (
        {"scheduler": {"enabled": False}, "lock": {"enabled": True}},
        "lock.enabled is true and scheduler.enabled is false: ",
    ),
    "unknown rule of a namespace": (
        {"scheduler": {"userPolicy": {"team-a": {"user": 1001}}}},
        "at '/scheduler/userPolicy/team-a': additional properties 'user' not allowed",
    ),
    "root in a list of users": (
        {"scheduler": {"userPolicy": {"team-a": {"users": 0}}}},
        "at '/scheduler/userPolicy/team-a/users': minimum: got 0, want 1",
    ),
    "name for a uid": (
        {"scheduler": {"userPolicy": {"team-a": "alice"}}},
        "at '/scheduler/userPolicy/team-a': 'alice' does not match pattern",
    ),
    "switch for names": (
        {"scheduler": {"userPolicy": {"team-a": {"accounts": True}}}},
        "at '/scheduler/userPolicy/team-a/accounts': got boolean, want string or array",
    ),
    "policy and open to all": (
        {"scheduler": {"openToAll": True, "userPolicy": {"team-a": 1001}}},
        "scheduler.openToAll is true and scheduler.userPolicy names namespaces: choose one.",
    ),
    "no policy": (
        {"scheduler": {"userPolicy": {"*": None}}},
        "scheduler.userPolicy is empty, so that no Pod would get a job: ",
    ),
    "gate without scheduler": (
        {"scheduler": {"enabled": False}, "gate": {"configMap": {"enabled": True}}},
        "gate.configMap.enabled is true, scheduler.enabled and nodesets.enabled are false: ",
    ),
    "switch for the component": (
        {"nodesets": True},
        "at '/nodesets': got boolean, want object",
    ),
    "unknown value of NodeSets": (
        {"nodesets": {"create": True}},
        "at '/nodesets': additional properties 'create' not allowed",
    ),
    "text for the kind": (
        {"nodesets": {"crd": {"create": "yes"}}},
        "at '/nodesets/crd/create': got string, want boolean",
    ),
    "NodeSets without the component": (
        {"compute": {"nodes": {"cpu": {"enabled": True}}}},
        "compute.nodes has definitions and nodesets.enabled is false: ",
    ),
    "unknown value of compute": (
        {"compute": {"ssh": {}}},
        "at '/compute': additional properties 'ssh' not allowed",
    ),
    "unknown field of a definition": (
        compute(cpu={"enabled": True, "replica": 2}),
        "at '/compute/nodes/cpu': additional properties 'replica' not allowed",
    ),
    "field of SUNK without a counterpart": (
        compute(cpu={"enabled": True, "s6": {}}),
        "compute.nodes.cpu.s6 is not a value of this chart: run the services in the image, or in",
    ),
    "field of the NodeSet in the wrong place": (
        compute(cpu={"enabled": True, "weight": 3}),
        "compute.nodes.cpu.weight is not a value of this chart: it is a field of the NodeSet, so",
    ),
    "wrong GPUs": (
        compute(gpu={"enabled": True, "gresGpu": "gpu:h100:8"}),
        "at '/compute/nodes/gpu/gresGpu': 'gpu:h100:8' does not match pattern",
    ),
    "no label": (
        compute(cpu={"enabled": True, "dynamicFeatures": {"rack": "r"}}),
        "at '/compute/nodes/cpu/dynamicFeatures/rack': got string, want object",
    ),
    "no name of a NodeSet": (
        compute(Cpu_1={"enabled": True}),
        "at '/compute/nodes': additional properties 'Cpu_1' not allowed",
    ),
    "image without a repository": (
        compute(cpu={"enabled": True, "image": {"tag": "1"}}),
        "compute.nodes: an image needs a repository.",
    ),
    "forgotten definition": (
        compute(base={"replicas": 1}, cpu={"enabled": True}),
        "compute.nodes.base is not enabled, and no other definition names it: ",
    ),
    "unknown definition": (
        compute(cpu={"enabled": True, "definitions": ["base"]}),
        "compute.nodes.cpu names the definition base, which compute.nodes does not have.",
    ),
    "definitions in a circle": (
        compute(a={"enabled": True, "definitions": ["b"]}, b={"definitions": ["a"]}),
        "compute.nodes: the definitions a, b, a name each other in a circle.",
    ),
    "NodeSet in another namespace": (
        compute(cpu={"enabled": True, "namespace": "team-a"}),
        "compute.nodes.cpu.namespace is team-a, and sunk-sync reads NodeSets only in slurm: ",
    ),
    "two monitors": (
        {"metrics": {"serviceMonitor": {"enabled": True}, "podMonitor": {"enabled": True}}},
        "metrics.serviceMonitor.enabled and metrics.podMonitor.enabled are both true: ",
    ),
}
"""Name → values and what helm says. `-rP` shows the whole output."""


@pytest.mark.parametrize("name", BAD)
def test_a_wrong_value_is_named(helm: Helm, name: str) -> None:
    """One mistake, one sentence."""
    values, sentence = BAD[name]
    said = refusal(helm, values)
    print(said)
    assert sentence in said


def test_an_old_kubernetes_is_named(helm: Helm) -> None:
    """Before anything is installed."""
    sentence = "requires kubeVersion: >=1.30.0-0 which is incompatible with Kubernetes v1.29.9"
    with pytest.raises(BedError, match=sentence):
        helm.template({}, "--kube-version", "1.29.9")
    assert helm.template({}, "--kube-version", "1.30.0")


def refusal(helm: Helm, values: Any) -> str:
    with pytest.raises(BedError) as refused:
        helm.template(values)
    return str(refused.value)


def test_every_mistake_of_the_schema_is_told_at_once(helm: Helm) -> None:
    """Nobody corrects them one by one."""
    said = refusal(helm, {"replicas": 3, "scheduler": {"enabled": 1, "scope": {"type": "x"}}})
    assert all(place in said for place in ("'replicas'", "/scheduler/enabled", "/scope/type"))
