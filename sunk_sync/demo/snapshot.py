"""The state that the screen shows: one row a host, the last lines, commands to try."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from sunk_sync.core.model.names import DRAINED, PENDING_DELETION, REASON_PREFIX
from sunk_sync.demo.stage.reading import annotation, condition
from sunk_sync.demo.stage.users import Users
from sunk_sync.demo.stage.worlds import HOSTS, Worlds
from sunk_sync.demo.story.history import History, Line
from sunk_sync.demo.story.residents import on_host, pods_on, waiting
from sunk_sync.embedded.kubernetes.store.kinds import Object
from sunk_sync.embedded.slurm.model.node import Node, state_of

if TYPE_CHECKING:
    from sunk_sync.demo.stage.syncer import Syncer

LINES_MAX = 100
HostStatus = Literal["ok", "pod", "drained by us", "drained by others", "unavailable"]
"""The color of a row. `pod`: a Pod scheduled by Slurm is bound there."""


class Row(Struct, frozen=True):
    host: str
    node: str
    pod: str
    slurm: str
    jobs: str
    """Id of each job, with its Pod or user."""
    reason: str
    because: str
    status: HostStatus


class Snapshot(Struct, frozen=True, kw_only=True):
    age_s: float
    now: str
    service: str
    writes: int
    failed: int
    rows: Sequence[Row]
    waiting: Sequence[str]
    """Pods that are not bound yet, with the reason."""
    lines: Sequence[Line]
    line_count: int
    """Lines recorded so far; `lines` holds the last of them."""
    commands: Sequence[str]
    """Commands for a second terminal."""


def snapshot_of(
    worlds: Worlds, syncer: "Syncer | None", *, history: History, commands: Sequence[str]
) -> Snapshot:
    return Snapshot(
        age_s=history.age_s,
        now=history.now,
        service=_service(syncer),
        writes=history.writes,
        failed=len(history.failed),
        rows=[
            row_of(worlds, host, because=_because(worlds, syncer, host))
            for host in (*HOSTS, *worlds.slots)
        ],
        waiting=waiting(Users(worlds)),
        lines=list(history.lines)[-LINES_MAX:],
        line_count=history.count,
        commands=commands,
    )


def row_of(worlds: Worlds, host: str, *, because: str) -> Row:
    slurm_node, node, users = worlds.slurm_node(host), worlds.node(host), Users(worlds)
    return Row(
        host=host,
        node=_node(node),
        pod=_pod(worlds.pod(host)),
        slurm=_spelled(slurm_node),
        jobs=on_host(users, host),
        reason=slurm_node.reason,
        because=because,
        status=_status(
            slurm_node,
            ready=condition(node, "Ready") == "True",
            has_pod=bool(pods_on(users, host)),
        ),
    )


def _service(syncer: "Syncer | None") -> str:
    if syncer is None:
        return "service not started"
    if not syncer.alive:
        return "service killed"
    if not syncer.ready:
        return "service lists both sides"
    return "service ready" if syncer.reads_slurm else "service ready, slurm: degraded"


def _because(worlds: Worlds, syncer: "Syncer | None", host: str) -> str:
    if syncer is None or not syncer.alive:
        return "…"
    pods = pods_on(Users(worlds), host)
    return syncer.sentence(host, *(pod["metadata"]["uid"] for pod in pods))


def _node(node: Object) -> str:
    if not node:
        return "gone"
    ready = {"True": "Ready", "False": "NotReady"}.get(condition(node, "Ready"), "Unknown")
    return "cordoned" if ready == "Ready" and node["spec"].get("unschedulable") else ready


def _pod(pod: Object) -> str:
    if not pod:
        return "gone"
    if "deletionTimestamp" in pod["metadata"]:
        return "ends"
    if annotation(pod, PENDING_DELETION):
        return "drained" if annotation(pod, DRAINED) == "true" else "marked"
    return "Ready" if condition(pod, "Ready") == "True" else "starts"


def _spelled(slurm_node: Node) -> str:
    """Spell the state as sinfo does: a node with DRAIN is draining while jobs run, then drained."""
    if "DRAIN" in slurm_node.flags and slurm_node.base == "IDLE":
        return "draining" if slurm_node.running or slurm_node.ending else "drained"
    return state_of(slurm_node)[0].lower()


def _status(slurm_node: Node, *, ready: bool, has_pod: bool) -> HostStatus:
    if "DRAIN" in slurm_node.flags:
        ours = slurm_node.reason.startswith(REASON_PREFIX)
        return "drained by us" if ours else "drained by others"
    if not ready or slurm_node.base != "IDLE":
        return "unavailable"
    return "pod" if has_pod else "ok"
