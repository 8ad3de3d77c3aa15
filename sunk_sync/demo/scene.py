"""What there is to see now, in words: one row a host, the last lines, how to reach the worlds."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from sunk_sync.core.model.names import DRAINED, PENDING_DELETION, REASON_PREFIX
from sunk_sync.demo.stage.reading import annotation, condition
from sunk_sync.demo.stage.users import Users
from sunk_sync.demo.stage.worlds import HOSTS, Worlds
from sunk_sync.demo.story.diary import Diary, Line
from sunk_sync.demo.story.residents import on_host, pods_on, waiting
from sunk_sync.embedded.kubernetes.store.kinds import Object
from sunk_sync.embedded.slurm.model.node import Node, state_of

if TYPE_CHECKING:
    from sunk_sync.demo.stage.syncer import Syncer

LINES_MAX = 100
Mood = Literal["well", "held", "ours", "theirs", "away"]
"""Held: a Pod is there that Slurm placed."""


class Row(Struct, frozen=True):
    """One host from both sides."""

    host: str
    node: str
    pod: str
    slurm: str
    """As sinfo spells it."""
    jobs: str
    """Number and Pod, or number and user, of each job."""
    reason: str
    because: str
    mood: Mood


class Scene(Struct, frozen=True, kw_only=True):
    """Everything that a screen shows."""

    age_s: float
    now: str
    service: str
    """How the service is, in a word."""
    writes: int
    broken: int
    rows: Sequence[Row]
    waiting: Sequence[str]
    """Pods that Slurm has not placed yet, and why."""
    lines: Sequence[Line]
    told: int
    """Lines ever told; `lines` holds the last of them."""
    reach: Sequence[str]
    """Commands for a second terminal."""


def scene_of(
    worlds: Worlds, syncer: "Syncer | None", *, diary: Diary, reach: Sequence[str]
) -> Scene:
    """The scene as it is now."""
    return Scene(
        age_s=diary.age_s,
        now=diary.now,
        service=_service(syncer),
        writes=diary.writes,
        broken=len(diary.broken),
        rows=[row_of(worlds, host, because=_because(worlds, syncer, host)) for host in HOSTS],
        waiting=waiting(Users(worlds)),
        lines=list(diary.lines)[-LINES_MAX:],
        told=diary.count,
        reach=reach,
    )


def row_of(worlds: Worlds, host: str, *, because: str) -> Row:
    """One host, as both worlds have it."""
    slurm_node, node, users = worlds.slurm_node(host), worlds.node(host), Users(worlds)
    return Row(
        host=host,
        node=_node(node),
        pod=_pod(worlds.pod(host)),
        slurm=_spelled(slurm_node),
        jobs=on_host(users, host),
        reason=slurm_node.reason,
        because=because,
        mood=_mood(
            slurm_node,
            there=condition(node, "Ready") == "True",
            held=bool(pods_on(users, host)),
        ),
    )


def _service(syncer: "Syncer | None") -> str:
    if syncer is None:
        return "service about to start"
    if not syncer.alive:
        return "service killed"
    if not syncer.ready:
        return "service reads both sides"
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
        return "ending"
    if annotation(pod, PENDING_DELETION):
        return "may go" if annotation(pod, DRAINED) == "true" else "to go"
    return "Ready" if condition(pod, "Ready") == "True" else "starts"


def _spelled(slurm_node: Node) -> str:
    """Drained and draining are one flag in Slurm, told apart by whether jobs run."""
    if "DRAIN" in slurm_node.flags and slurm_node.base == "IDLE":
        return "draining" if slurm_node.running or slurm_node.ending else "drained"
    return state_of(slurm_node)[0].lower()


def _mood(slurm_node: Node, *, there: bool, held: bool) -> Mood:
    if "DRAIN" in slurm_node.flags:
        return "ours" if slurm_node.reason.startswith(REASON_PREFIX) else "theirs"
    if not there or slurm_node.base != "IDLE":
        return "away"
    return "held" if held else "well"
