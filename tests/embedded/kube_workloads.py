"""Requests of a scheduler: gates, bindings, pending reasons, deletions with grace period."""

from typing import Any

from tests.embedded.kube_scenarios import (
    NOBODY,
    NODES,
    PODS,
    delete,
    get,
    merge,
    node,
    pod,
    post,
    strategic,
)
from tests.embedded.kube_scenarios import SCENARIOS as OTHERS
from tests.embedded.kube_trace import Step

Object = dict[str, Any]

P = f"{PODS}/p"
GATE: Object = {"schedulingGates": [{"name": "example.com/later"}]}
JOB: Object = {"annotations": {"sunk.coreweave.com/job-id": "7"}}


def binding(node_name: str, **metadata: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "p", **metadata},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node_name},
    }


def waits(message: str, **metadata: Any) -> Object:
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": message,
        "lastTransitionTime": "2001-02-03T04:05:06Z",
    }
    return {"metadata": metadata, "status": {"conditions": [condition]}}


def asks(name: str, **resources: Any) -> Object:
    return {"name": name, "image": "none.invalid/none:1", "resources": resources}


ENDS = {
    "metadata": {"uid": "$0.metadata.uid"},
    "status": {
        "conditions": [
            {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "PreemptionByScheduler",
                "message": "job 7 was preempted",
                "lastTransitionTime": "2001-02-03T04:05:06Z",
            }
        ]
    },
}
RELEASE = {"fieldManager": "sunk-sync-release"}
SUBMIT = {"fieldManager": "sunk-sync-submit"}
ROOM = {"cpu": "1500m", "memory": "1Gi"}

WORKLOADS: dict[str, list[Step]] = {
    "binding under a precondition": [
        post(PODS, pod("p")),
        post(NODES, node("a")),
        post(f"{P}/binding", binding("a", uid=NOBODY, **JOB)),
        get(P),
        post(f"{P}/binding", binding("a", uid="$0.metadata.uid", **JOB)),
        get(P),
        post(f"{P}/binding", binding("a", uid="$0.metadata.uid", **JOB)),
        post(f"{P}/binding", binding("b", uid="$0.metadata.uid")),
        post(f"{P}/binding", binding("b", uid=NOBODY)),
        get(P),
    ],
    "binding a pod of another life": [
        post(PODS, pod("p")),
        delete(P),
        post(f"{P}/binding", binding("a", uid="$0.metadata.uid", **JOB)),
        post(PODS, pod("p")),
        post(f"{P}/binding", binding("a", uid="$0.metadata.uid", **JOB)),
        strategic(f"{P}/status", ENDS, query=RELEASE),
        delete(P, {"preconditions": {"uid": "$0.metadata.uid"}}),
        get(P),
    ],
    "scheduling gates": [
        post(PODS, pod("p", **GATE)),
        post(f"{P}/binding", binding("a", uid="$0.metadata.uid", **JOB)),
        strategic(f"{P}/status", waits("job 7"), query=SUBMIT),
        merge(P, {"spec": {"schedulingGates": None}}),
        get(P),
        merge(P, {"spec": GATE}, loose=True),
        post(f"{P}/binding", binding("a", **JOB)),
        get(P),
        post(PODS, pod("q", nodeName="a", **GATE), loose=True),
        post(PODS, pod("r", schedulingGates=[])),
    ],
    "why a pod waits": [
        post(PODS, pod("p")),
        strategic(f"{P}/status", waits("one", uid="$0.metadata.uid"), query=SUBMIT),
        strategic(
            f"{P}/status",
            waits("two", resourceVersion="$0.metadata.resourceVersion"),
            query=SUBMIT,
        ),
        strategic(
            f"{P}/status",
            waits("three", resourceVersion="$1.metadata.resourceVersion"),
            query=SUBMIT,
        ),
        strategic(f"{P}/status", waits("four", uid=NOBODY), query=SUBMIT),
        post(f"{P}/binding", binding("a", **JOB)),
        strategic(
            f"{P}/status",
            waits("five", resourceVersion="$3.metadata.resourceVersion"),
            query=SUBMIT,
        ),
        get(P),
    ],
    "a pod ends for a reason": [
        post(PODS, pod("p", nodeName="a", terminationGracePeriodSeconds=7)),
        strategic(f"{P}/status", ENDS, query=RELEASE),
        strategic(f"{P}/status", ENDS, query=RELEASE),
        delete(P, {"preconditions": {"uid": "$0.metadata.uid"}}),
        strategic(f"{P}/status", ENDS, query=RELEASE),
        delete(P, {"preconditions": {"uid": "$0.metadata.uid"}}),
        get(P),
        delete(P, {"gracePeriodSeconds": 0, "preconditions": {"uid": NOBODY}}),
        delete(P, {"gracePeriodSeconds": 0, "preconditions": {"uid": "$0.metadata.uid"}}),
        get(P),
    ],
    "no grace where nothing runs": [
        post(PODS, pod("p", terminationGracePeriodSeconds=7)),
        delete(P, {"preconditions": {"uid": "$0.metadata.uid"}}),
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
