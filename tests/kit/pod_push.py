"""Actions on a workload Pod, carried out against an API server whose answers a test writes."""

import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from sunk_sync.core.model.actions import Action, EndPod, SetScheduled
from sunk_sync.core.model.facts import Observed, Pod, Reference
from sunk_sync.core.model.outcomes import Outcome
from sunk_sync.kube.decode.source_decoder import OFFERING_NODES
from sunk_sync.kube.write.push import KubePush
from tests.kube.recorded.server import pod, serving, status

Json = dict[str, Any]
POD = Reference("Pod", "slurm", "p", "uid-p")
PATH = "/api/v1/namespaces/slurm/pods/p"
NOW = "2026-11-21T10:00:00Z"
END = EndPod(POD, "PreemptionByScheduler", "job 17 was preempted")
WAITS = SetScheduled(POD, "Unschedulable", "job 17 waits: Resources")
OTHER = status(409, "Conflict", message="Precondition failed: UID in precondition: a, in object: b")
GONE = status(404, "NotFound", details={"name": "p"})
LATER = status(409, "Conflict", message="the object has been modified")


class Script:
    """Answers each request by method and rest of the path, and remembers them."""

    def __init__(self, **answers: Json) -> None:
        self.answers = answers
        self.asked: list[str] = []
        self.sent: list[Any] = []
        self.requests: list[web.Request] = []

    async def __call__(self, request: web.Request) -> web.Response:
        rest = request.path.removeprefix(PATH).strip("/")
        what = "_".join(filter(None, (request.method, rest)))
        self.asked.append(what)
        self.requests.append(request)
        body = await request.read()
        self.sent.append(json.loads(body) if body else None)
        answer = self.answers.get(what, status(500, "unexpected"))
        return web.json_response(answer, status=answer.get("code", 200))


async def outcome_of(answer: Callable[[web.Request], Awaitable[Any]], action: Action) -> Outcome:
    async with serving(answer) as (_, client):
        push = KubePush(
            client,
            relist={},
            clock=lambda: 42.0,
            wall_clock=lambda: datetime(2026, 11, 21, 10, 0, 0, 999, tzinfo=UTC),
            nodes=OFFERING_NODES,
        )
        (outcome,) = await push.push([action])
        return outcome


def a_pod(**parts: Any) -> Json:
    """With what is given of spec, annotations, conditions, uid, deletionTimestamp."""
    made = pod("p", 7)
    made["spec"] = parts.get("spec", {})
    made["status"] = {"conditions": parts.get("conditions", [])}
    made["metadata"] |= {
        "uid": parts.get("uid", "uid-p"),
        "annotations": parts.get("annotations"),
        "deletionTimestamp": parts.get("deletionTimestamp"),
    }
    return made


def seen_pod(outcome: Outcome) -> Pod:
    (seen,) = outcome.seen
    assert isinstance(seen, Observed)
    assert isinstance(seen.row, Pod)
    return seen.row
