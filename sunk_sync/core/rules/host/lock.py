"""A job starts on a Node that is its own: foreign Pods have left it (L1-L4).

The annotation and the taint are the state: nothing else has to survive a restart.
"""

from sunk_sync.core.model.actions import Action, RecordEvent
from sunk_sync.core.model.calls import LockCall
from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.event_kinds import EVENT_LOCK_LATE, EVENT_NOT_LOCKED
from sunk_sync.core.model.facts import Node, reference_of
from sunk_sync.core.model.lock_actions import AnswerLock, GetNodePods, Lock, Unlock
from sunk_sync.core.model.node_lock import LOCKED, LOCKED_STRICT, PENDING, LockState
from sunk_sync.core.model.verdict import QUIET, Ruling
from sunk_sync.core.translate.node_states import may_run_jobs
from sunk_sync.core.views.host import Host

PAUSE_MIN_S, PAUSE_MAX_S = 0.05, 1.0
"""Between two listings of Pods: a twentieth of the wait so far, within these bounds."""
NAMED_MAX = 8


def lock(host: Host, configuration: Configuration, now: float) -> Ruling:
    """Lock the Node for the jobs that ask; unlock it when a later read of Slurm shows it idle."""
    if not configuration.lock:
        return QUIET
    if host.lock.calls and host.wish is not None and not host.wish.lock:
        return _go_unasked(host, host.wish.node_set)
    if host.lock.calls:
        against = _why_not(host)
        return _go_unlocked(host, against) if against else _serve(host, configuration, now)
    node = host.node
    if node is None or not host.owns_node or not node.lock:
        return QUIET
    if _is_idle(host):
        return _release(host, node, configuration.lock_linger_s)
    if _state(node) != PENDING:
        return QUIET
    ruling = _clear(host, node, configuration.scheduler, now)
    if not host.lock.living or host.lock.listed_s < host.lock.since_s + configuration.lock_wait_s:
        return ruling
    event = _late(node, configuration, _waits_for(host, node))
    return Ruling((*ruling.wants, event), ruling.because, ruling.look_again_s)


def _state(node: Node) -> LockState:
    return node.lock if node.tainted else ""


def _is_idle(host: Host) -> bool:
    record = host.slurm_node
    if host.blind or not host.slurm_listed:
        return False
    return record is None or not (record.assumed or may_run_jobs(record.state))


def _release(host: Host, node: Node, linger_s: float) -> Ruling:
    """A read that began long enough after the last change and the last call shows no job (L3)."""
    if host.slurm_read_s < host.lock.unused_s + linger_s:
        return Ruling(because=f"Node {node.name} stays locked for {linger_s:g} s for the next job")
    return Ruling((Unlock(reference_of(node)),), f"Node {node.name} unlocked: no job runs there")


def _why_not(host: Host) -> str:
    """Return why nobody may lock the Node of this host, or empty."""
    if host.rivals:
        return f"Slurm node {host.name} is claimed more than once"
    if host.node is None:
        return f"Kubernetes has no Node for {host.name}"
    if not host.owns_node:
        return f"Node {host.node.name} is not the Node of {host.name} alone"
    pod = host.pod
    if pod is not None and not pod.tolerates_lock:
        return f"Pod {pod.namespace}/{pod.name} of slurmd does not tolerate the lock"
    if host.lock.exposed:
        return f"Pods of other jobs do not tolerate the lock: {_named(host.lock.exposed)}"
    return ""


def _go_unasked(host: Host, node_set: str) -> Ruling:
    """Nobody wants a lock here: the caller hears no reason, which would tell it that one lacks."""
    answers = [AnswerLock(one.call, host.name, "", go=True) for one in host.lock.calls]
    return Ruling(tuple(answers), f"not locked: NodeSet {node_set} has lock: false")


def _go_unlocked(host: Host, against: str) -> Ruling:
    """Never end slurmd or the Pods of another job: the job starts without the lock."""
    answers = [AnswerLock(one.call, host.name, "", go=True, why=against) for one in host.lock.calls]
    about = host.pod or host.node
    events: list[Action] = []
    if about is not None:
        message = f"A job starts without the lock: {against}"
        events = [RecordEvent(reference_of(about), EVENT_NOT_LOCKED, message)]
    return Ruling((*answers, *events), f"not locked: {against}")


def _serve(host: Host, configuration: Configuration, now: float) -> Ruling:
    """Answer each call as soon as the Node has the lock that it needs, or at its deadline."""
    node = host.node
    assert node is not None
    state, wait_s = _state(node), configuration.lock_wait_s
    held = [one for one in host.lock.calls if not _suffices(state, one)]
    served = [one for one in host.lock.calls if one not in held]
    answers = tuple(AnswerLock(one.call, host.name, node.name, go=True) for one in served)
    if not held:
        return Ruling(answers, f"Node {node.name} is locked: its job may start")
    ruling = _clear(host, node, configuration.scheduler, now)
    why = _waits_for(host, node)
    late = [one for one in held if now >= one.began_s + wait_s]
    passing = late if configuration.lock_late == "pass" else []
    told = tuple(AnswerLock(one.call, host.name, "", one in passing, why) for one in held)
    events = (_late(node, configuration, why),) if late else ()
    times = [one.began_s + wait_s for one in held if one not in late]
    times += [ruling.look_again_s] if ruling.look_again_s is not None else []
    wants = (*answers, *told, *ruling.wants, *events)
    return Ruling(wants, ruling.because, min(times, default=None))


def _suffices(state: LockState, call: LockCall) -> bool:
    return state == LOCKED_STRICT or (state == LOCKED and not call.strict)


def _clear(host: Host, node: Node, scheduler: str, now: float) -> Ruling:
    """Set the taint, list the Pods until no foreign one lives, then show the Node as locked."""
    reference, view = reference_of(node), host.lock
    if not _state(node):
        return Ruling((Lock(reference, PENDING),), f"Node {node.name} is being locked for a job")
    if view.living == ():
        wanted: LockState = LOCKED_STRICT if view.strict else LOCKED
        return Ruling((Lock(reference, wanted),), f"Node {node.name} is locked: no Pod is left")
    because = f"Node {node.name}: {_waits_for(host, node)}"
    pause_s = min(max((view.listed_s - view.since_s) / 20, PAUSE_MIN_S), PAUSE_MAX_S)
    if view.living and now < view.listed_s + pause_s:
        return Ruling((), because, view.listed_s + pause_s)
    after_s = max(view.since_s, view.listed_s)
    slurmd_uid = host.pod.uid if host.pod is not None else ""
    return Ruling((GetNodePods(reference, slurmd_uid, scheduler, after_s),), because)


def _waits_for(host: Host, node: Node) -> str:
    if not _state(node):
        return "its taint is not set yet"
    living = host.lock.living
    if living is None:
        return "its Pods are not listed yet"
    return f"{_named(living)} live there" if living else "no foreign Pod lives there"


def _late(node: Node, configuration: Configuration, why: str) -> RecordEvent:
    then = "starts" if configuration.lock_late == "pass" else "still waits"
    message = f"After {configuration.lock_wait_s:g} s the job of this Node {then}: {why}"
    return RecordEvent(reference_of(node), EVENT_LOCK_LATE, message)


def _named(pods: tuple[str, ...]) -> str:
    more = f" and {len(pods) - NAMED_MAX} more" if len(pods) > NAMED_MAX else ""
    return f"Pods {', '.join(pods[:NAMED_MAX])}{more}"
