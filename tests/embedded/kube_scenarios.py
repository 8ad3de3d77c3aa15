"""Requests for both the embedded and the real API server."""

from typing import Any

from tests.embedded.kube_trace import APPLY, FORGET, HOME, MERGE, OLD, STRATEGIC, Step

NODES = "/api/v1/nodes"
PODS = f"/api/v1/namespaces/{HOME}/pods"
EVENTS = f"/api/v1/namespaces/{HOME}/events"
DEFAULT_EVENTS = "/api/v1/namespaces/default/events"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{HOME}/leases"
SPACES = "/api/v1/namespaces"
NOBODY = "0e8b7a5c-6a1f-4a0e-9a8e-2c6a4f1c1a11"
FORCE = {"fieldManager": "mirror", "force": "true"}
UID = "$0.metadata.uid"
"""UID of the object that the first step creates."""
WATCH_LIST = {
    "sendInitialEvents": "true",
    "resourceVersionMatch": "NotOlderThan",
    "allowWatchBookmarks": "true",
}
ORDER = {"$setElementOrder/conditions": [{"type": "Q"}, {"type": "S"}, {"type": "R"}]}
LABEL_SELECTORS = (
    "i=a", "i==a", "i!=a", "i in (a,b)", "i notin (a, b)", "i", "!i", "i in (a),i!=b", "i,i!=c",
    "a b c",
)  # fmt: skip
NODE_FIELDS = (
    "metadata.name=a", "metadata.name!=a", "spec.unschedulable=true", "spec.zorg=1", "zorg",
)  # fmt: skip
POD_FIELDS = (
    "spec.nodeName=a", "spec.nodeName!=", "spec.nodeName=", "spec.schedulerName=slurm",
    "status.phase=Pending,spec.nodeName==a", "status.phase!=Pending",
    f"metadata.namespace={HOME}", "metadata.namespace=else",
)  # fmt: skip

Object = dict[str, Any]


def version(step: int) -> str:
    """Return the place of the resourceVersion in the response to this step."""
    return f"${step}.metadata.resourceVersion"


def get(path: str, **query: str) -> Step:
    return Step(path=path, query=query)


def post(path: str, body: Any, **rest: Any) -> Step:
    return Step(method="POST", path=path, body=body, **rest)


def put(path: str, body: Any, **rest: Any) -> Step:
    return Step(method="PUT", path=path, body=body, **rest)


def merge(path: str, body: Any, **rest: Any) -> Step:
    return Step(method="PATCH", path=path, body=body, content_type=MERGE, **rest)


def strategic(path: str, body: Any, **rest: Any) -> Step:
    return Step(method="PATCH", path=path, body=body, content_type=STRATEGIC, **rest)


def apply(path: str, body: Any, *, by: str = "mirror", force: bool = True, **rest: Any) -> Step:
    query = {"fieldManager": by, **({"force": "true"} if force else {})}
    kind = "Pod" if "/pods/" in path else "Node"
    whole = {"apiVersion": "v1", "kind": kind, **body}
    return Step(method="PATCH", path=path, body=whole, content_type=APPLY, query=query, **rest)


def delete(path: str, body: Any = None, **query: str) -> Step:
    return Step(method="DELETE", path=path, body=body, query=query)


def watch(path: str, until: str, **query: str) -> Step:
    return Step(path=path, until=until, query={"watch": "true", **query})


def _named(name: str, labels: Object | None) -> Object:
    return {"name": name, "labels": labels} if labels else {"name": name}


def node(name: str, labels: Object | None = None, **rest: Any) -> Object:
    return {"metadata": _named(name, labels), **rest}


def ready_node(name: str) -> Object:
    conditions = [condition("MemoryPressure", "False"), condition("Ready", "True")]
    return node(name, {"zone": "a"}, status={"conditions": conditions, "capacity": {"cpu": "4"}})


def pod(name: str, labels: Object | None = None, **spec: Any) -> Object:
    containers = [{"name": "c", "image": "none.invalid/none:1"}]
    whole = {"containers": containers, "automountServiceAccountToken": False, **spec}
    return {"metadata": _named(name, labels), "spec": whole}


def condition(
    kind: str, status: str = "True", message: str = "m", *, reason: str = "Because"
) -> Object:
    given = {"type": kind, "status": status, "reason": reason, "message": message}
    return {**given, "lastTransitionTime": OLD}


def listed(*conditions: Object) -> Object:
    return {"status": {"conditions": list(conditions)}}


def conditions(*kinds: str, status: str = "True", message: str = "m") -> Object:
    return listed(*(condition(kind, status, message) for kind in kinds))


def removed(kind: str) -> Object:
    return {"type": kind, "$patch": "delete"}


def metadata(**parts: Any) -> Object:
    return {"metadata": parts}


def bind(pod_name: str, node_name: str, **rest: Any) -> Step:
    body = {**metadata(name=pod_name, **rest), "target": {"name": node_name}}
    return post(f"{PODS}/{pod_name}/binding", body)


def event(name: str, **rest: Any) -> Object:
    return {
        "metadata": {"name": name},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": "p", "namespace": HOME},
        "reason": "R",
        "message": "m",
        "type": "Normal",
        "source": {"component": "x"},
        "reportingComponent": "x",
        "firstTimestamp": OLD,
        "lastTimestamp": OLD,
        "count": 1,
        **rest,
    }


def counted(found: str, count: int) -> Object:
    """Count an Event if it is still the one of this answer."""
    changes = {"count": count, "lastTimestamp": OLD}
    return {**metadata(resourceVersion=f"{found}.metadata.resourceVersion"), **changes}


LEASE = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "h", "leaseDurationSeconds": 15}}
KNOWN_LEASE = metadata(name="l", resourceVersion=version(0))
SEVERAL = metadata(labels={"k": "3", "l": "3"}, annotations={"n": "3"})
RICH = pod(
    "p",
    containers=[
        {
            "name": "c",
            "image": "a:1",
            "ports": [{"containerPort": 80}, {"containerPort": 81, "protocol": "UDP"}],
            "env": [{"name": "E", "value": "1"}],
            "volumeMounts": [{"name": "v", "mountPath": "/v"}],
            "resources": {"requests": {"cpu": "1"}},
        },
        {"name": "d", "image": "b"},
    ],
    volumes=[{"name": "v", "emptyDir": {}}],
    nodeSelector={"k": "l"},
)
"""A Pod with lists of every kind."""
THREE = [post(NODES, node(name, {"i": name})) for name in ("a", "b", "c")]
BOUND = [post(PODS, pod("p", nodeName="a"))]
STATUS = f"{NODES}/a/status"
A, P = f"{NODES}/a", f"{PODS}/p"

SCENARIOS: dict[str, list[Step]] = {
    "create": [
        post(NODES, node("a")),
        post(NODES, node("a")),
        post(NODES, node("b", {"x": "y"}, spec={"unschedulable": True})),
        post(NODES, ready_node("c")),
        get(f"{NODES}/c"),
    ],
    "create badly": [
        post(NODES, {"metadata": {}}),
        post(NODES, node("A_b")),
        post(NODES, node("a", {"a b": "c"})),
        post(NODES, node("a", {"a": "c d"})),
        post(NODES, node("a", {"a": "x" * 64})),
        post(NODES, {"metadata": {"name": "a", "annotations": {"b c": "d"}}}),
        post(NODES, {"metadata": {"name": "a", "annotations": {"B_ad/c": "d"}}}),
        post(NODES, "{nope", loose=True),
        post(NODES, {"kind": "Pod", **node("a")}),
        post(NODES, {"metadata": {"name": "a", "resourceVersion": "5"}}),
        post(NODES, "x: y", content_type="text/plain"),
        get(NODES),
    ],
    "paths that are not there": [
        get("/api/v1/nodez"),
        get("/api/v1/nodez/none"),
        get("/api/v2"),
        get("/apis/x.y/v1/z"),
        put(NODES, node("a")),
        post(A, node("a")),
        post("/api/v1/pods", pod("p")),
        delete(STATUS),
        get(A),
        get(P),
        get(f"{LEASES}/none"),
        get(f"{NODES}/a/zorg"),
    ],
    "replace": [
        post(NODES, node("a", {"x": "y"})),
        put(A, node("a", {"x": "z"})),
        put(A, {"metadata": {"name": "a", "resourceVersion": "1"}}),
        put(A, {"metadata": {"name": "a", "resourceVersion": version(1)}}),
        put(A, {"metadata": {"name": "a", "uid": NOBODY}}),
        put(A, node("b")),
        put(f"{NODES}/none", node("none")),
        get(A),
    ],
    "replace a status": [
        post(NODES, ready_node("a")),
        put(STATUS, {**node("a", {"st": "1"}), **conditions("X")}),
        get(A),
    ],
    "merge patch": [
        post(NODES, node("a")),
        merge(A, metadata(annotations={"k": "v", "l": "w"})),
        merge(A, metadata(annotations={"k": "v"})),
        merge(A, metadata(annotations={"k": None})),
        merge(A, {"spec": {"unschedulable": True}}),
        merge(A, {"spec": {"unschedulable": False}}),
        merge(A, {"spec": {"unschedulable": None}}),
        merge(A, metadata(annotations=None)),
        merge(A, metadata(labels={"x": "y"}), agent="other/2"),
        merge(A, {}, query={"fieldManager": "named"}),
        get(A),
    ],
    "merge patch badly": [
        post(NODES, node("a")),
        merge(A, metadata(uid=NOBODY)),
        merge(A, metadata(resourceVersion="1")),
        merge(A, metadata(name="b")),
        merge(A, metadata(namespace="b")),
        merge(A, metadata(labels={"x": "y y"})),
        merge(A, metadata(annotations={"a b": "c"})),
        merge(A, "{"),
        merge(A, "[]"),
        merge(f"{NODES}/none", {}),
        merge(f"{NODES}/none/status", {}),
        merge(A, {}, query={"force": "true"}),
        Step(method="PATCH", path=A, body={}, content_type="application/json"),
        get(A),
    ],
    "status apart": [
        post(NODES, ready_node("a")),
        merge(A, conditions("X")),
        merge(STATUS, {**conditions("X"), "spec": {"unschedulable": True}}),
        merge(STATUS, metadata(labels={"st": "1"})),
        strategic(A, conditions("Y")),
        get(A),
        get(STATUS),
    ],
    "strategic conditions": [
        post(NODES, ready_node("a")),
        strategic(STATUS, conditions("Y")),
        strategic(STATUS, conditions("Ready", status="Unknown", message="lost")),
        strategic(STATUS, conditions("Z", "Ready", "W", status="False")),
        strategic(STATUS, conditions("Z", "Ready", "W", status="False")),
        strategic(STATUS, listed({"type": "Ready", "message": None, "reason": ""})),
        get(A),
    ],
    "strategic deletes": [
        post(NODES, ready_node("a")),
        strategic(STATUS, conditions("X", "Y")),
        strategic(STATUS, metadata(uid=UID) | listed(removed("X"), removed("none"))),
        strategic(STATUS, listed(removed("none"))),
        strategic(STATUS, {"metadata": {"uid": NOBODY}, **conditions("Q")}),
        strategic(STATUS, {"status": {"$patch": "replace", "capacity": {"cpu": "8"}}}),
        get(A),
    ],
    "strategic lists": [
        post(NODES, node("a", spec={"taints": [{"key": "x", "effect": "NoSchedule"}]})),
        strategic(A, {"spec": {"taints": [{"key": "y", "value": "1", "effect": "NoExecute"}]}}),
        strategic(A, {"spec": {"taints": None}}),
        strategic(A, {"spec": {"podCIDRs": ["10.1.0.0/24"], "podCIDR": "10.1.0.0/24"}}),
        get(A),
    ],
    "apply labels": [
        post(NODES, node("a", {"own": "x"})),
        apply(A, metadata(labels={"l": "1", "m": "2"})),
        apply(A, metadata(labels={"l": "1", "m": "2"})),
        apply(A, metadata(labels={"l": "2"})),
        apply(A, metadata(annotations={"k": "v"})),
        apply(A, {"metadata": {"uid": UID}}),
        apply(A, {}),
        get(A),
    ],
    "apply takes from others": [
        post(NODES, node("a", {"l": "0"})),
        apply(A, metadata(labels={"l": "1"}), force=False),
        apply(A, metadata(labels={"l": "0"}), force=False),
        apply(A, metadata(labels={"l": "1"})),
        apply(A, metadata(labels={"l": "2"}), by="other", force=False),
        apply(A, metadata(labels={"l": "1"}), by="other", force=False),
        apply(A, metadata(), by="mirror"),
        apply(A, metadata(labels={"l": "3", "m": "3"}), by="third", force=False),
        apply(A, metadata(labels={"l": "3", "m": "3"}), by="third"),
        apply(A, metadata(), by="other"),
        merge(A, metadata(labels={"m": "4"})),
        apply(A, metadata(), by="third"),
        get(A),
    ],
    "apply conditions": [
        post(NODES, ready_node("a")),
        strategic(STATUS, conditions("Ready"), agent="kubelet/1"),
        apply(STATUS, conditions("SlurmDrain")),
        apply(STATUS, conditions("SlurmDrain")),
        apply(STATUS, conditions("SlurmRunning", "SlurmDrain", message="n")),
        apply(STATUS, conditions("SlurmRunning", message="n")),
        strategic(STATUS, conditions("Ready", message="again"), agent="kubelet/1"),
        apply(STATUS, {"status": {"conditions": []}}),
        get(A),
    ],
    "apply nothing takes what nobody owns": [
        post(NODES, ready_node("a")),
        apply(STATUS, conditions("SlurmDrain")),
        apply(STATUS, {}),
        get(A),
    ],
    "apply beside a heartbeat": [
        post(NODES, ready_node("a")),
        strategic(
            STATUS, {"status": {"conditions": [{"type": "Ready", "lastHeartbeatTime": OLD}]}}
        ),
        apply(STATUS, conditions("SlurmDrain")),
        apply(STATUS, {}),
        get(A),
    ],
    "apply conflicts of conditions": [
        post(NODES, node("a")),
        apply(STATUS, conditions("X"), by="one"),
        apply(STATUS, conditions("X", message="n"), by="two", force=False),
        apply(STATUS, conditions("X", "Y"), by="two", force=False),
        apply(STATUS, conditions("Y"), by="one"),
        apply(STATUS, conditions("Z"), by="two"),
        apply(STATUS, conditions("Y", message="o"), by="two"),
        get(A),
    ],
    "apply a cordon": [
        post(NODES, node("a")),
        apply(A, {**metadata(annotations={"c": "true"}), "spec": {"unschedulable": True}}),
        apply(A, {"metadata": {"uid": UID}}),
        merge(A, {"spec": {"unschedulable": True}}),
        apply(A, {**metadata(annotations={"c": "true"}), "spec": {"unschedulable": True}}),
        apply(A, {}),
        get(A),
    ],
    "apply where nobody owned": [
        post(NODES, node("a")),
        merge(A, metadata(annotations={"k": "v"})),
        apply(A, metadata(annotations={"k": "w"}), force=False),
        apply(A, metadata(annotations={"k": "w"})),
        merge(A, metadata(annotations={"l": "w"})),
        get(A),
    ],
    "apply makes": [
        apply(A, metadata(labels={"q": "r"}), force=False),
        apply(STATUS, conditions("X")),
        apply(f"{NODES}/none/status", conditions("X")),
        apply(f"{NODES}/none", {"metadata": {"uid": NOBODY}}),
        apply(A, {}),
        get(A),
    ],
    "apply badly": [
        post(NODES, node("a")),
        Step(method="PATCH", path=A, body={}, content_type=APPLY),
        Step(method="PATCH", path=A, body={}, content_type=APPLY, query=FORCE),
        apply(A, {"zorg": 1}),
        apply(A, {"kind": "Pod"}, loose=True),
        apply(A, metadata(managedFields=[{}])),
        apply(A, metadata(name="b")),
        apply(A, metadata(resourceVersion="1")),
        apply(A, metadata(resourceVersion=version(0), labels={"x": "y"})),
        apply(A, metadata(uid=NOBODY)),
        apply(A, metadata(labels={"a b": "c"})),
        get(A),
    ],
    "apply to pods": [
        *BOUND,
        strategic(f"{P}/status", {"status": {"phase": "Running", **conditions("Ready")["status"]}}),
        apply(f"{P}/status", conditions("SlurmNodeStateIdle", "SlurmNodeStateDrain")),
        apply(f"{P}/status", conditions("SlurmNodeStateIdle")),
        apply(P, metadata(annotations={"drain": "x"}), by="retire"),
        apply(P, metadata(), by="retire"),
        apply(P, {"metadata": {"uid": NOBODY}}),
        strategic(f"{P}/status", metadata(uid=UID) | listed(removed("SlurmNodeStateIdle"))),
        get(P),
    ],
    "pods": [
        post(PODS, pod("p", {"l": "1"})),
        post(PODS, pod("p")),
        post(PODS, pod("q", hostname="h", nodeName="a", tolerations=[{"operator": "Exists"}])),
        post(PODS, pod("r", schedulerName="slurm", terminationGracePeriodSeconds=5)),
        post(PODS, {"metadata": {"name": "s"}, "spec": {}}),
        post(PODS, {**pod("t"), "metadata": {"name": "t", "namespace": "else"}}),
        post("/api/v1/namespaces/none/pods", pod("p")),
        post(PODS, {**pod("u"), "status": {"phase": "Running"}}),
        get(PODS),
    ],
    "a pod's spec stays": [
        post(PODS, pod("p")),
        merge(P, {"spec": {"hostname": "x"}}, loose=True),
        merge(P, {"spec": {"terminationGracePeriodSeconds": 30}}),
        strategic(P, {"spec": {"containers": [{"name": "c", "image": "none.invalid/none:2"}]}}),
        merge(f"{P}/status", {"spec": {"hostname": "x"}}),
        get(P),
    ],
    "binding": [
        post(NODES, node("a", {"topology.kubernetes.io/zone": "z", "other": "o"})),
        post(PODS, pod("p")),
        post(f"{P}/binding", {"metadata": {"name": "p"}}),
        post(
            f"{P}/binding",
            metadata(name="p", annotations={"job": "7"}, labels={"l": "m"})
            | {"target": {"kind": "Node", "name": "a"}},
        ),
        bind("p", "b"),
        bind("none", "b"),
        get(P),
    ],
    "deleting nodes": [
        *THREE,
        delete(f"{NODES}/none"),
        delete(A, {"preconditions": {"uid": NOBODY}}),
        delete(A, {"preconditions": {"resourceVersion": "1"}}),
        delete(A, {"preconditions": {"uid": UID}}),
        delete(f"{NODES}/b", {"propagationPolicy": "Background", "gracePeriodSeconds": 30}),
        delete(f"{NODES}/c"),
        get(NODES),
    ],
    "deleting pods": [
        post(PODS, pod("free")),
        *BOUND,
        post(PODS, pod("ended", nodeName="a")),
        strategic(f"{PODS}/ended/status", {"status": {"phase": "Succeeded"}}),
        delete(f"{PODS}/free"),
        delete(P, {"preconditions": {"uid": NOBODY}}),
        delete(P),
        delete(P),
        delete(P, {"gracePeriodSeconds": 5}),
        get(P),
        delete(P, {"gracePeriodSeconds": 0, "preconditions": {"uid": "$1.metadata.uid"}}),
        delete(f"{PODS}/ended"),
        delete(P),
        get(PODS),
    ],
    "deleting pods at once": [
        *BOUND,
        delete(P, None, gracePeriodSeconds="0"),
        get(P),
        post(PODS, pod("z")),
        watch(PODS, "z", resourceVersion=version(0)),
    ],
    "what a watch sees of a deletion": [
        post(PODS, pod("free")),
        *BOUND,
        delete(f"{PODS}/free"),
        delete(P, {"gracePeriodSeconds": 5}),
        strategic(f"{P}/status", {"status": {"phase": "Failed"}}),
        delete(P, {"gracePeriodSeconds": 0}),
        post(PODS, pod("z")),
        watch(PODS, "z", resourceVersion=version(0)),
    ],
    "finalizers": [
        post(NODES, {"metadata": {"name": "a", "finalizers": ["example.com/wait"]}}),
        delete(A),
        delete(A),
        merge(A, metadata(labels={"x": "y"})),
        merge(A, metadata(finalizers=None)),
        get(A),
    ],
    "events": [
        post(EVENTS, event("e")),
        post(EVENTS, event("e")),
        post(EVENTS, event("f", involvedObject={"kind": "Pod", "name": "p", "namespace": "else"})),
        post(EVENTS, event("g", involvedObject={"kind": "Node", "name": "a"})),
        post(DEFAULT_EVENTS, event("h", involvedObject={"kind": "Node"})),
        post(DEFAULT_EVENTS, event("h", involvedObject={"kind": "Node"})),
        post(EVENTS, event("i", message="x" * 1025)),
        post(EVENTS, {"metadata": {"name": "j"}, "involvedObject": {"namespace": HOME}}),
        merge(f"{EVENTS}/e", {"count": 2}),
        put(f"{EVENTS}/k", event("k")),
        get(EVENTS, fieldSelector="involvedObject.name=p,reason=R"),
        delete(f"{EVENTS}/e"),
        delete(f"{DEFAULT_EVENTS}/h"),
    ],
    "an event is counted": [
        post(EVENTS, event("e", count=1, lastTimestamp=OLD)),
        merge(f"{EVENTS}/e", {}),
        merge(f"{EVENTS}/e", counted("$1", 2)),
        merge(f"{EVENTS}/e", counted("$1", 3)),
        merge(f"{EVENTS}/e", counted("$2", 3)),
        merge(f"{EVENTS}/none", {}),
        merge(f"{EVENTS}/none", counted("$1", 2)),
        get(EVENTS),
    ],
    "leases": [
        post(LEASES, LEASE),
        post(LEASES, LEASE),
        put(f"{LEASES}/l", LEASE),
        put(f"{LEASES}/l", KNOWN_LEASE | {"spec": {"holderIdentity": "i"}}),
        put(f"{LEASES}/l", KNOWN_LEASE),
        merge(f"{LEASES}/l", {"spec": {"leaseTransitions": 2}}),
        put(f"{LEASES}/m", {**LEASE, "metadata": {"name": "m"}}),
        get(LEASES),
        delete(f"{LEASES}/l"),
        get(f"{LEASES}/l"),
    ],
    "namespaces": [
        post(SPACES, node("one")),
        post(SPACES, node("one")),
        post(SPACES, node("a.b")),
        get(f"{SPACES}/one"),
        merge(f"{SPACES}/one", metadata(labels={"x": "y"})),
        delete(f"{SPACES}/one"),
        post(f"{SPACES}/one/pods", pod("p"), loose=True),
        get(f"{SPACES}/none"),
    ],
    "reviews": [
        post(
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SelfSubjectAccessReview",
                "spec": {"resourceAttributes": {"verb": "patch", "resource": "nodes"}},
            },
            query={"fieldManager": "x"},
        )
    ],
    "label selectors": [
        *THREE,
        post(NODES, node("d")),
        *(get(NODES, labelSelector=selector) for selector in LABEL_SELECTORS),
    ],
    "field selectors": [
        *THREE,
        merge(A, {"spec": {"unschedulable": True}}),
        post(PODS, pod("p", nodeName="a")),
        post(PODS, pod("q", schedulerName="slurm")),
        *(get(NODES, fieldSelector=selector) for selector in NODE_FIELDS),
        *(get(PODS, fieldSelector=selector) for selector in POD_FIELDS),
        get("/api/v1/pods", fieldSelector=f"metadata.namespace={HOME}"),
    ],
    "pages": [
        *THREE,
        get(NODES, limit="2"),
        post(NODES, node("d")),
        merge(f"{NODES}/c", metadata(labels={"late": "1"})),
        delete(f"{NODES}/b"),
        get(NODES, limit="1", **{"continue": "$3.metadata.continue"}),
        get(NODES, limit="3"),
        get(NODES, limit="1", labelSelector="i"),
        get(NODES, **{"continue": "$3.metadata.continue", "resourceVersion": "5"}),
        Step(path=NODES, query={"continue": "zzz"}, loose=True),
        get(NODES, **{"continue": "!!"}),
        get(NODES, limit="x"),
        get(NODES, limit="-1"),
    ],
    "pages to the end": [
        *THREE,
        get(NODES, limit="1"),
        get(NODES, limit="1", **{"continue": "$3.metadata.continue"}),
        get(NODES, limit="1", **{"continue": "$4.metadata.continue"}),
    ],
    "lists at a version": [
        *THREE,
        get(NODES, resourceVersion=version(1), resourceVersionMatch="Exact"),
        get(NODES, resourceVersion=version(1), resourceVersionMatch="Exact", limit="1"),
        get(NODES, limit="1", **{"continue": "$4.metadata.continue"}),
        get(NODES, resourceVersion=version(1), resourceVersionMatch="NotOlderThan"),
        get(NODES, resourceVersion="0"),
        get(NODES, resourceVersionMatch="Exact"),
        get(NODES, resourceVersionMatch="Exact", resourceVersion="0"),
        get(NODES, resourceVersionMatch="Zork", resourceVersion="1"),
        get(NODES, resourceVersion="q"),
        get(NODES, sendInitialEvents="true", resourceVersionMatch="NotOlderThan"),
    ],
    "watch": [
        *THREE,
        merge(A, metadata(labels={"x": "y"})),
        merge(A, metadata(labels={"x": "y"})),
        apply(STATUS, conditions("X")),
        delete(f"{NODES}/b"),
        post(NODES, node("b")),
        post(NODES, node("z")),
        watch(NODES, "z", resourceVersion=version(0)),
        watch(NODES, "z", resourceVersion=version(5)),
        watch(NODES, "z"),
        watch(NODES, "z", resourceVersion="0"),
        watch(NODES, "z", resourceVersion="x"),
    ],
    "watch through a label selector": [
        post(NODES, node("first")),
        *THREE,
        merge(A, metadata(labels={"i": "b"})),
        merge(A, metadata(labels={"i": "a", "j": "k"})),
        merge(A, metadata(labels={"j": "l"})),
        merge(A, metadata(labels={"i": None})),
        merge(f"{NODES}/b", metadata(labels={"i": "a"})),
        delete(f"{NODES}/b"),
        delete(f"{NODES}/c"),
        post(NODES, node("z", {"i": "a"})),
        watch(NODES, "z", resourceVersion=version(0), labelSelector="i=a"),
        watch(NODES, "z", resourceVersion=version(0), labelSelector="i"),
    ],
    "watch through a field selector": [
        post(PODS, pod("first")),
        post(PODS, pod("p")),
        bind("p", "a"),
        strategic(f"{P}/status", {"status": {"phase": "Running"}}),
        strategic(f"{P}/status", {"status": {"phase": "Succeeded"}}),
        delete(P),
        post(PODS, pod("z", nodeName="a")),
        watch(PODS, "z", resourceVersion=version(0), fieldSelector="spec.nodeName!="),
        watch(PODS, "z", resourceVersion=version(0), fieldSelector="status.phase!=Running"),
    ],
    "watch in all namespaces": [
        post(PODS, pod("p")),
        merge(P, metadata(labels={"x": "y"})),
        post(PODS, pod("z")),
        watch("/api/v1/pods", "z", resourceVersion=version(0)),
    ],
    "watch lists": [
        *THREE,
        watch(NODES, "BOOKMARK", **WATCH_LIST),
        watch(NODES, "BOOKMARK", **WATCH_LIST, labelSelector="i=b"),
        watch(PODS, "BOOKMARK", **WATCH_LIST),
        watch(NODES, "BOOKMARK", resourceVersion="0", allowWatchBookmarks="true"),
        get(NODES, watch="true", sendInitialEvents="true"),
        get(NODES, watch="true", resourceVersionMatch="NotOlderThan", resourceVersion="1"),
        get(A, watch="true"),
    ],
    "strategic lists, replaced and ordered": [
        post(NODES, ready_node("a")),
        strategic(STATUS, listed({"$patch": "replace"}, condition("Q"))),
        strategic(STATUS, conditions("R", "S")),
        strategic(STATUS, {"status": {**ORDER, "conditions": [condition("S", "False")]}}),
        strategic(STATUS, listed({"status": "True"}), loose=True),
        get(A),
    ],
    "strategic sets": [
        post(NODES, {"metadata": {"name": "a", "finalizers": ["example.com/x"]}}),
        strategic(A, metadata(finalizers=["example.com/y", "example.com/x"])),
        apply(A, metadata(finalizers=["example.com/z"])),
        apply(A, metadata(finalizers=["example.com/w"])),
        merge(A, metadata(finalizers=None)),
        get(A),
    ],
    "lists of a pod": [
        post(PODS, RICH),
        apply(P, {"spec": {"containers": [{"name": "d", "image": "b:2"}]}}, force=False),
        apply(P, {"metadata": {}, "spec": {"containers": [{"name": "d", "image": "b:2"}]}}),
        apply(P, metadata()),
        get(P),
    ],
    "apply makes, named": [
        apply(A, metadata(name="a", labels={"q": "r"}), force=False),
        apply(A, metadata(name="a", labels={"q": "s", "t": "u"})),
        apply(STATUS, conditions("X")),
        apply(f"{NODES}/none/status", metadata(name="none")),
        apply(f"{NODES}/none", metadata(name="none", uid=NOBODY)),
        apply(A, metadata(name="a")),
        get(A),
    ],
    "conflicts over several fields": [
        post(NODES, node("a", {"k": "0"})),
        apply(A, metadata(name="a", labels={"l": "1", "m": "1"}), by="one"),
        apply(A, metadata(name="a", annotations={"n": "1"}), by="two"),
        apply(A, metadata(labels={"l": "2", "m": "2"}), by="three", force=False),
        apply(A, SEVERAL, by="three", force=False),
        apply(A, SEVERAL, by="three"),
        merge(STATUS, metadata(annotations={"o": "1"}), agent="four/1"),
        merge(A, metadata(annotations={"p": "1"}), agent="four/1"),
        apply(A, metadata(annotations={"o": "2", "p": "2"}), by="five", force=False),
        apply(A, metadata(labels={"k": "3"}), by="three"),
        get(A),
    ],
    "binding what is being deleted": [
        post(PODS, {**pod("p"), "metadata": {"name": "p", "finalizers": ["example.com/wait"]}}),
        delete(P),
        bind("p", "a"),
        merge(P, metadata(finalizers=None)),
        get(P),
        post(PODS, pod("q")),
        bind("q", "a", uid=NOBODY),
        get(f"{PODS}/q"),
    ],
    "deleting by selector": [
        *THREE,
        Step(method="DELETE", path=NODES, query={"labelSelector": "i!=a"}),
        get(NODES),
    ],
    "events are watched": [
        post(EVENTS, event("first")),
        post(EVENTS, event("e")),
        merge(f"{EVENTS}/e", {"count": 2}),
        delete(f"{EVENTS}/e"),
        post(EVENTS, event("z")),
        watch(EVENTS, "z", resourceVersion=version(0), fieldSelector="involvedObject.kind=Pod"),
    ],
    "what is forgotten": [
        *THREE,
        get(NODES, limit="1"),
        merge(A, metadata(labels={"x": "y"})),
        Step(method=FORGET, path=""),
        watch(NODES, "ERROR", resourceVersion=version(0)),
        get(NODES, resourceVersion=version(1), resourceVersionMatch="Exact"),
        get(NODES, limit="1", **{"continue": "$3.metadata.continue"}),
        get(NODES, limit="1", **{"continue": "$8.metadata.continue"}),
        get(NODES, resourceVersion=version(1)),
        post(NODES, node("z")),
        watch(NODES, "z", resourceVersion=version(9)),
    ],
    "another life of the same name": [
        post(NODES, node("a", {"x": "1"})),
        delete(A),
        post(NODES, node("a", {"x": "2"})),
        apply(A, {"metadata": {"uid": UID, "labels": {"y": "1"}}}),
        strategic(STATUS, {"metadata": {"uid": UID}, **conditions("X")}),
        delete(A, {"preconditions": {"uid": UID}}),
        get(A),
    ],
}
