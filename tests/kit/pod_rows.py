"""Workload Pods and Nodes as JSON, decoded to facts."""

import json
from typing import Any

from sunk_sync.core.model import names
from sunk_sync.core.model.facts import Observed, Pod
from sunk_sync.kube.decode.source_decoder import PODS, SourceDecoder
from tests.kube.recorded.server import pod

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


def settings(**given: str) -> Json:
    return {names.PREFIX + name.replace("_", "-"): value for name, value in given.items()}
