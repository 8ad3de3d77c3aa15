"""NodeSets of SUNK, version v1alpha1, as far as its documentation shows their fields."""

from collections.abc import Mapping

from sunk_sync.cli.node_set_conversion import (
    Conversion,
    Field,
    Object,
    Take,
    convert,
    same,
    template,
    update_strategy,
)


def sunk_node_set(source: Object) -> Conversion:
    """Return a NodeSet with one Pod for each Node, of which `replicas` is the upper limit."""
    conversion = convert(source, FIELDS)
    conversion.spec["scalingMode"] = "DaemonSet"
    conversion.leave(
        "names of the Slurm nodes",
        "they end with the name of the Node here, with parts of its address in SUNK: change"
        " scripts and reservations that name them",
    )
    return conversion


def _of_pod(name: str) -> Take:
    """Take a field that SUNK has beside the template."""

    def take(conversion: Conversion, field: Field) -> None:
        conversion.pod.setdefault(name, field.value)

    return take


def _features(name: str) -> Take:
    def take(conversion: Conversion, field: Field) -> None:
        conversion.features[name] = field.value

    return take


FIELDS: Mapping[str, Take] = {
    "template": template,
    "replicas": same("replicas"),
    "podNamePrefix": same("podNamePrefix"),
    "minReadySeconds": same("minReadySeconds"),
    "updateStrategy": update_strategy,
    "affinity": _of_pod("affinity"),
    "nodeSelector": _of_pod("nodeSelector"),
    "tolerations": _of_pod("tolerations"),
    "staticFeatures": _features("static"),
    "dynamicFeatures": _features("dynamic"),
}
"""As for Slinky."""
