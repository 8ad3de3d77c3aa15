"""The REST API of the embedded Slurm: slurmrestd in each API version that it serves."""

import re
from collections.abc import Callable, Mapping

import msgspec

from sunk_sync.embedded.slurm.api.reply import Replies, RestCall, SlurmAnswer
from sunk_sync.embedded.slurm.api.rest_changes import ChangeRoutes
from sunk_sync.embedded.slurm.api.rest_jobs import JobRoutes
from sunk_sync.embedded.slurm.api.rest_nodes import NodeRoutes
from sunk_sync.embedded.slurm.api.rest_requeue import RequeueRoute
from sunk_sync.embedded.slurm.api.status import openapi_shape
from sunk_sync.embedded.slurm.model.release import NO_CONTROLLER, UNAUTHENTICATED
from sunk_sync.embedded.slurm.model.tokens import Tokens, token_of
from sunk_sync.embedded.slurm.slurm import SlurmWorld
from sunk_sync.embedded.wire import Question

_Route = Callable[[RestCall], SlurmAnswer]
_path = re.compile(r"/slurm/(v0\.0\.[0-9]+)/(.+?)/*").fullmatch


class SlurmRest:
    """One slurmrestd. Without tokens, every token belongs to root."""

    def __init__(self, world: SlurmWorld, tokens: Tokens | None = None) -> None:
        self.world = world
        self.tokens = tokens or Tokens()
        self._versions = world.setup.release.versions
        self._replies = Replies(world.memory)
        nodes, jobs = NodeRoutes(world, self._replies), JobRoutes(world, self._replies)
        changes = ChangeRoutes(world, self._replies)
        self._whole = {**_whole_paths(nodes, jobs), **_changing_paths(changes)}
        self._whole["POST", "jobs/requeue"] = RequeueRoute(world, self._replies).requeue
        self._named = _named_paths(nodes, jobs, changes)

    def answer(self, question: Question, now_s: float) -> SlurmAnswer:
        """Advance the cluster to `now_s` and answer the request."""
        self.world.advance(now_s)
        if not token_of(question):
            return self._replies.text(401, "Authentication failure")
        if question.path.rstrip("/") == "/openapi/v3":
            return SlurmAnswer(body=msgspec.json.encode(openapi_shape(self.world.setup.release)))
        match = _path(question.path)
        if match is None or match.group(1) not in self._versions:
            return self._replies.unserved()
        version, path = match.groups()
        route, name = self._route(question.method, path)
        if route is None or (path == "conf" and version < "v0.0.45"):
            return self._replies.unserved()
        if "," in name:
            return self._replies.unreadable_path()
        return route(self._asked(question, version, name))

    def _route(self, method: str, path: str) -> tuple[_Route | None, str]:
        whole = self._whole.get((method, path))
        if whole is not None:
            return whole, ""
        head, _, name = path.partition("/")
        return (self._named.get((method, head)) if name else None), name

    def _asked(self, question: Question, version: str, name: str) -> RestCall:
        user = self.tokens.user_of(question, epoch_s=self.world.epoch_s)
        unavailable = UNAUTHENTICATED if user is None else None
        if not self.world.controller_up:
            unavailable = NO_CONTROLLER
        return RestCall(question, version, name, user or "root", unavailable)


def _whole_paths(nodes: NodeRoutes, jobs: JobRoutes) -> Mapping[tuple[str, str], _Route]:
    return {
        ("GET", "nodes"): nodes.nodes,
        ("POST", "nodes"): nodes.post_nodes,
        ("GET", "partitions"): nodes.partitions,
        ("GET", "jobs"): jobs.jobs,
        ("GET", "jobs/state"): jobs.jobs_state,
        ("GET", "ping"): jobs.ping,
        ("GET", "diag"): jobs.diag,
        ("GET", "conf"): jobs.conf,
        ("GET", "reconfigure"): jobs.reconfigure,
    }


def _changing_paths(changes: ChangeRoutes) -> Mapping[tuple[str, str], _Route]:
    return {
        ("DELETE", "jobs"): changes.cancel,
        ("POST", "job/submit"): changes.submit,
        ("POST", "job/allocate"): changes.allocate,
    }


def _named_paths(
    nodes: NodeRoutes, jobs: JobRoutes, changes: ChangeRoutes
) -> Mapping[tuple[str, str], _Route]:
    return {
        ("GET", "node"): nodes.node,
        ("POST", "node"): nodes.post_node,
        ("DELETE", "node"): nodes.delete_node,
        ("GET", "partition"): nodes.partition,
        ("GET", "job"): jobs.checked(jobs.job),
        ("DELETE", "job"): jobs.checked(changes.cancel_one),
        ("POST", "job"): jobs.checked(changes.update),
    }
