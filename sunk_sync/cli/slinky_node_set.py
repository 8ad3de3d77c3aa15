"""NodeSets of Slinky's slurm-operator: `slinky.slurm.net/v1alpha1` and `v1beta1`."""

import re
from collections.abc import Callable, Mapping
from math import prod

from sunk_sync.cli.node_set_conversion import (
    SLURMD,
    Conversion,
    Field,
    Object,
    Take,
    convert,
    mapping,
    same,
    template,
    update_strategy,
    without,
)

EXTRA_KEYS = {
    key.lower(): key
    for key in (
        *("Sockets", "CoresPerSocket", "ThreadsPerCore"),
        *("CpuSpecList", "RestrictedCoresPerGPU", "TmpDisk"),
    )
}
"""Keys that extraConf of sunk-sync takes too."""
TOGETHER = ("Sockets", "CoresPerSocket", "ThreadsPerCore")
FEATURE = re.compile(r"(?!k8s\.)[A-Za-z0-9_.=:/-]{1,64}")
GRES = re.compile(
    r"(?P<name>[a-z][a-z0-9_]*)(:(?P<type>[A-Za-z0-9][A-Za-z0-9_.-]*))?:(?P<count>\d+)"
)
PARTITION = (
    "write it into slurm.conf: NodeSet=NAME Feature=NAME, and PartitionName=NAME Nodes=NAME, with"
    " the name of the NodeSet for NAME"
)


def slinky_node_set(source: Object) -> Conversion:
    return convert(source, FIELDS)


def _template(conversion: Conversion, field: Field) -> None:
    """A host name begins the names of Slinky's nodes, as podNamePrefix does here."""
    spec = mapping(mapping(field.value).get("spec"))
    host_name = spec.pop("hostname", None)
    template(conversion, Field(field.path, {**mapping(field.value), "spec": spec}))
    if host_name:
        conversion.spec["podNamePrefix"] = str(host_name).strip("-")


def _slurmd(conversion: Conversion, field: Field) -> None:
    conversion.slurmd.update({**mapping(field.value), "name": SLURMD})


def _scaling_mode(conversion: Conversion, field: Field) -> None:
    """In its mode DaemonSet Slinky does not look at replicas; for sunk-sync they are a limit."""
    if field.value == "DaemonSet":
        conversion.spec["scalingMode"] = field.value
        conversion.spec.pop("replicas", None)


def _extra_conf(conversion: Conversion, field: Field) -> None:
    """Sort the keys into the fields of sunk-sync."""
    path, given = field.path, dict[str, str]()
    for pair in str(field.value).split():
        key, _, text = pair.partition("=")
        given[key] = text
    extra = {
        EXTRA_KEYS[key.lower()]: text for key, text in given.items() if key.lower() in EXTRA_KEYS
    }
    _complete(conversion, path, extra)
    if extra:
        conversion.spec["extraConf"] = " ".join(f"{key}={text}" for key, text in extra.items())
    for key, text in given.items():
        if key.lower() not in EXTRA_KEYS:
            _key(conversion, Field(f"{path}: {key}", text))


def _complete(conversion: Conversion, path: str, extra: dict[str, str]) -> None:
    """Take sockets, cores and threads together or not at all."""
    some = [key for key in TOGETHER if key in extra]
    if some and len(some) < len(TOGETHER):
        conversion.leave(f"{path}: {', '.join(some)}", f"give {', '.join(TOGETHER)} together")
        for key in some:
            del extra[key]


def _key(conversion: Conversion, field: Field) -> None:
    key = field.path.rpartition(" ")[2].lower()
    take = KEYS.get(key)
    if take is None:
        conversion.leave(field.path, INSTEAD.get(key, "sunk-sync has no field for this key"))
    elif not take(conversion, field.value):
        instead = f"{field.value!r} does not fit the other fields, or has a form of its own"
        conversion.leave(field.path, instead)


def _cpus(conversion: Conversion, text: str) -> bool:
    """Sockets, cores and threads say the number already."""
    numbers = re.findall(r"(?:Sockets|CoresPerSocket|ThreadsPerCore)=(\d+)", _extra(conversion))
    if numbers or not text.isdecimal():
        return text == str(prod(map(int, numbers)))
    conversion.spec["cpus"] = int(text)
    return True


def _extra(conversion: Conversion) -> str:
    return str(conversion.spec.get("extraConf", ""))


def _number(name: str) -> Callable[[Conversion, str], bool]:
    def take(conversion: Conversion, text: str) -> bool:
        if text.isdecimal():
            conversion.spec[name] = int(text)
        return text.isdecimal()

    return take


def _memory(conversion: Conversion, text: str) -> bool:
    if text.isdecimal():
        conversion.spec["memory"] = f"{text}Mi"
    return text.isdecimal()


def _reserved(name: str, unit: str) -> Callable[[Conversion, str], bool]:
    def take(conversion: Conversion, text: str) -> bool:
        twice = name == "cores" and "CpuSpecList=" in _extra(conversion)
        if not text.isdecimal() or twice:
            return False
        conversion.spec.setdefault("reserved", {})[name] = f"{text}{unit}" if unit else int(text)
        return True

    return take


def _gres(conversion: Conversion, text: str) -> bool:
    """Take `gpu:h100:8,nic:4`. What stands in parentheses is found by slurmd."""
    matches = [GRES.fullmatch(part) for part in re.sub(r"\([^)]*\)", "", text).split(",")]
    found = [match.groupdict() for match in matches if match]
    if len(found) < len(matches):
        return False
    conversion.spec["gres"] = [
        {key: int(one[key]) if key == "count" else one[key] for key in one if one[key]}
        for one in found
    ]
    return True


def _features(conversion: Conversion, text: str) -> bool:
    if not all(map(FEATURE.fullmatch, text.split(","))):
        return False
    conversion.features["static"] = text.split(",")
    return True


KEYS: Mapping[str, Callable[[Conversion, str], bool]] = {
    "cpus": _cpus,
    "realmemory": _memory,
    "corespeccount": _reserved("cores", ""),
    "memspeclimit": _reserved("memory", "Mi"),
    "weight": _number("weight"),
    "gres": _gres,
    "feature": _features,
    "features": _features,
}
"""Keys of --conf with a field of their own."""
INSTEAD = {"topology": "set spec.topology: labels of Nodes that name the switches"}

FIELDS: Mapping[str, Take] = {
    "template": _template,
    "slurmd": _slurmd,
    "replicas": same("replicas"),
    "scalingMode": _scaling_mode,
    "ordinalPadding": same("ordinalPadding"),
    "minReadySeconds": same("minReadySeconds"),
    "updateStrategy": update_strategy,
    "extraConf": _extra_conf,
    "controllerRef": without(
        "give slurmd --conf-server=HOST:6817 of slurmctld in its args, and mount the key of Slurm"
    ),
    "partition": without(PARTITION, harmless=({"enabled": False},)),
    "logfile": without("write a container of your own into the template"),
    "ssh": without("run sshd in the image, or as a container of the template"),
    "volumeClaimTemplates": without(
        "use template.spec.volumes: a claim that exists, or ephemeral.volumeClaimTemplate"
    ),
    "persistentVolumeClaimRetentionPolicy": without(
        "sunk-sync makes no claims",
        harmless=({"whenDeleted": "Retain", "whenScaled": "Retain"},),
    ),
    "revisionHistoryLimit": without("sunk-sync keeps no history: Git does"),
    "pinToNode": without("a slot may come up on another Node"),
    "workloadDisruptionProtection": without("make a PodDisruptionBudget for these Pods"),
    "pruneSlurmNodeRecords": without(
        "sunk-sync deletes the record in Slurm once the Pod is gone for good"
    ),
    "oversubscribeNode": without("a Node has one Slurm node: sunk-sync keeps slurmd Pods apart"),
    "taintKubeNodes": without("taint the Nodes yourself, and tolerate it in the template"),
}
"""Field of the spec → how it is taken, in this order."""
