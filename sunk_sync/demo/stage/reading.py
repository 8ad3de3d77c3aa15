"""What stands on an object of Kubernetes."""

from collections.abc import Mapping

from sunk_sync.embedded.kubernetes.store.kinds import Object


def annotation(an_object: Object, name: str) -> str:
    """Its value; empty where it is not there."""
    metadata = an_object.get("metadata", {})
    return str(metadata.get("annotations", {}).get(name, ""))


def condition(an_object: Object, name: str) -> str:
    """Its status; empty where it is not there."""
    return whole_condition(an_object, name).get("status", "")


def whole_condition(an_object: Object, name: str) -> Mapping[str, str]:
    """With its reason and message; empty where it is not there."""
    listed = an_object.get("status", {}).get("conditions", ())
    return next((one for one in listed if one["type"] == name), {})


def conditions_that_hold(an_object: Object, prefix: str) -> set[str]:
    """Types of those that are True and begin so."""
    listed = an_object.get("status", {}).get("conditions", ())
    named = [one for one in listed if one["type"].startswith(prefix)]
    return {one["type"] for one in named if one["status"] == "True"}
