"""Requests of a scheduler: gates, bindings, pending reasons, deletions with grace period."""

from typing import Any

from tests.embedded.kube_scenarios import (
    NOBODY,
    NODES,
    PODS,
    UID,
    Object,
    condition,
    delete,
    get,
    listed,
    merge,
    node,
    pod,
    post,
    strategic,
    version,
)
from tests.embedded.kube_scenarios import SCENARIOS as OTHERS
from tests.embedded.kube_trace import Step

P = f"{PODS}/p"
GATE: Object = {"schedulingGates": [{"name": "example.com/later"}]}
JOB: Object = {"annotations": {"sunk.coreweave.com/job-id": "7"}}


def bind(node_name: str, **metadata: Any) -> Step:
    target = {"apiVersion": "v1", "kind": "Node", "name": node_name}
    kind = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p", **metadata}}
    return post(f"{P}/binding", kind | {"target": target})


def wait(message: str, **metadata: Any) -> Step:
    """Write why the Pod waits."""
    why = condition("PodScheduled", "False", message, reason="Unschedulable")
    patch = {"metadata": metadata, **listed(why)}
    return strategic(f"{P}/status", patch, query={"fieldManager": "sunk-sync-submit"})


def asks(name: str, **resources: Any) -> Object:
    return {"name": name, "image": "none.invalid/none:1", "resources": resources}


PREEMPTED = condition(
    "DisruptionTarget", message="job 7 was preempted", reason="PreemptionByScheduler"
)
END = strategic(
    f"{P}/status",
    {"metadata": {"uid": UID}, **listed(PREEMPTED)},
    query={"fieldManager": "sunk-sync-release"},
)
DELETE = delete(P, {"preconditions": {"uid": UID}})
ROOM = {"cpu": "1500m", "memory": "1Gi"}

WORKLOADS: dict[str, list[Step]] = {
    "binding under a precondition": [
        post(PODS, pod("p")),
        post(NODES, node("a")),
        bind("a", uid=NOBODY, **JOB),
        get(P),
        bind("a", uid=UID, **JOB),
        get(P),
        bind("a", uid=UID, **JOB),
        bind("b", uid=UID),
        bind("b", uid=NOBODY),
        get(P),
    ],
    "binding a pod of another life": [
        post(PODS, pod("p")),
        delete(P),
        bind("a", uid=UID, **JOB),
        post(PODS, pod("p")),
        bind("a", uid=UID, **JOB),
        END,
        DELETE,
        get(P),
    ],
    "scheduling gates": [
        post(PODS, pod("p", **GATE)),
        bind("a", uid=UID, **JOB),
        wait("job 7"),
        merge(P, {"spec": {"schedulingGates": None}}),
        get(P),
        merge(P, {"spec": GATE}, loose=True),
        bind("a", **JOB),
        get(P),
        post(PODS, pod("q", nodeName="a", **GATE), loose=True),
        post(PODS, pod("r", schedulingGates=[])),
    ],
    "why a pod waits": [
        post(PODS, pod("p")),
        wait("one", uid=UID),
        wait("two", resourceVersion=version(0)),
        wait("three", resourceVersion=version(1)),
        wait("four", uid=NOBODY),
        bind("a", **JOB),
        wait("five", resourceVersion=version(3)),
        get(P),
    ],
    "a pod ends for a reason": [
        post(PODS, pod("p", nodeName="a", terminationGracePeriodSeconds=7)),
        END,
        END,
        DELETE,
        END,
        DELETE,
        get(P),
        delete(P, {"gracePeriodSeconds": 0, "preconditions": {"uid": NOBODY}}),
        delete(P, {"gracePeriodSeconds": 0, "preconditions": {"uid": UID}}),
        get(P),
    ],
    "no grace where nothing runs": [
        post(PODS, pod("p", terminationGracePeriodSeconds=7)),
        DELETE,
        post(PODS, pod("p", nodeName="a", terminationGracePeriodSeconds=0)),
        delete(P),
        post(PODS, pod("p", nodeName="a")),
        strategic(f"{P}/status", {"status": {"phase": "Running"}}),
        strategic(f"{P}/status", {"status": {"phase": "Failed"}}),
        delete(P),
        get(P),
    ],
    "what pods ask for": [
        post(PODS, pod("p", containers=[asks("c", limits=ROOM)])),
        post(PODS, pod("q", containers=[asks("c", limits=ROOM, requests={"cpu": "1"})])),
        post(
            PODS,
            pod(
                "r",
                containers=[
                    asks(
                        "c",
                        requests={"cpu": "500m", "memory": "1Mi", "x.y/z": "2"},
                        limits={"x.y/z": "2"},
                    )
                ],
                initContainers=[asks("i", limits=ROOM) | {"restartPolicy": "Always"}],
            ),
        ),
        post(PODS, pod("s", containers=[asks("c", limits=ROOM), asks("d", requests={"cpu": "1"})])),
        post(PODS, pod("t", containers=[asks("c", requests={"cpu": "0"})])),
        post(
            PODS, pod("v", containers=[asks("c", requests={"x.y/z": "1"}, limits={"x.y/z": "1"})])
        ),
        post(
            PODS,
            pod("w", containers=[asks("c", limits=ROOM)], initContainers=[asks("i", limits=ROOM)]),
        ),
        post(PODS, pod("x", containers=[asks("c", limits=ROOM)], initContainers=[asks("i")])),
        post(PODS, pod("u", nodeSelector={"a": "b"}, schedulerName="slurm-scheduler")),
    ],
}

SCENARIOS = OTHERS | WORKLOADS
