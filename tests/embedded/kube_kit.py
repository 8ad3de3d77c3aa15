"""Short calls of the embedded Kubernetes for tests."""

import json
from typing import Any

from sunk_sync.embedded.kubernetes.api.api import KubeApi
from sunk_sync.embedded.kubernetes.api.watch import Subscription
from sunk_sync.embedded.kubernetes.kubernetes import Kubernetes
from sunk_sync.embedded.wire import Answer, Question


def ask(
    kube: Kubernetes, method: str, path: str, body: Any = b"", *, now_s: float = 0, **rest: Any
) -> Answer:
    """Send a request now, or later."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    question = Question(method=method, path=path, body=raw, **rest)
    answer = KubeApi(kube).answer(question, max(kube.now_s, now_s))
    assert isinstance(answer, Answer)
    return answer


def get(kube: Kubernetes, path: str, **rest: Any) -> Any:
    """Return the decoded answer."""
    return json.loads(ask(kube, "GET", path, **rest).body)


def watch(kube: Kubernetes, path: str, *, headers: Any = None, **query: str) -> Subscription:
    question = Question(path=path, query={"watch": "true", **query}, headers=headers or {})
    opened = KubeApi(kube).answer(question, kube.now_s)
    assert isinstance(opened, Subscription)
    return opened


def pod(kube: Kubernetes, name: str = "p") -> dict[str, Any]:
    found = kube.pod(name)
    assert found is not None
    return found


def node(kube: Kubernetes, name: str = "n1") -> dict[str, Any]:
    found = kube.node(name)
    assert found is not None
    return found
