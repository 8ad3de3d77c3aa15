"""What can happen to Pods that Slurm schedules, and what then must come about."""

from collections.abc import Sequence

from sunk_sync.demo.stage.worlds import GPU, URGENT
from sunk_sync.demo.story.beats import LISTED_S, POLLED_S, Beat
from sunk_sync.demo.story.outages import KILLED_S
from sunk_sync.demo.story.stage import Stage

ENDED_S = 6.0
"""A Pod ends, its job after it, and others start where it was."""
WAITS_S = 8.0
"""While Slurm names no reason a Pod is told of it only after three seconds."""
NO_TIME = "soon"
"""Not a time limit."""
LOW, HIGH = "100", "5000"


def apply(name: str) -> Beat:
    """P1, P11, P11a."""
    return Beat(
        said=f"A user applies Pod {name}: a whole GPU machine, schedulerName is ours",
        act=lambda on: on.users.apply(name),
        promise=f"Slurm gives it a job; {name} is bound where that job runs",
        kept=lambda on: on.users.is_bound(name),
        within_s=POLLED_S,
    )


def delete(name: str) -> Beat:
    """P14."""
    return Beat(
        said=f"The user deletes Pod {name}",
        act=lambda on: on.users.delete(name),
        promise=f"its job lasts until {name} is gone, and not longer",
        kept=lambda on: on.users.is_gone(name),
        within_s=ENDED_S,
    )


def refuse(name: str) -> Beat:
    """P4: a wrong annotation."""
    return Beat(
        said=f"A user applies Pod {name} with annotation timeout: {NO_TIME}",
        act=lambda on: on.users.apply(name, timeout=NO_TIME),
        promise=f"no job; condition and Event of {name} name the annotation and what is wrong",
        kept=lambda on: _is_refused(on, name),
    )


def _is_refused(on: Stage, name: str) -> bool:
    said = on.users.waits(name, "timeout", NO_TIME) and on.users.heard(name, "InvalidPod")
    return said and not on.users.placeholders(name)


def amend(name: str) -> Beat:
    """P4: what a human changes is looked at anew."""
    return Beat(
        said=f"The user corrects it: timeout: 60 on Pod {name}",
        act=lambda on: on.users.amend(name, timeout="60"),
        promise=f"{name} gets a job and is bound where it runs",
        kept=lambda on: on.users.is_bound(name),
        within_s=POLLED_S,
    )


def preempt(name: str, user: str) -> Beat:
    """P16, L7: first half."""
    return Beat(
        said=f"A job of {user} in partition {URGENT} wants the machine of Pod {name}",
        act=lambda on: on.users.submit(user, on.users.place(name), partition=URGENT),
        promise=f"preempted: {name} is told, and ends with its grace; {user} has to wait",
        kept=lambda on: on.users.told(name, "PreemptionByScheduler") and not _workloads(on, user),
        within_s=POLLED_S,
        passes=True,
    )


def make_way(name: str, user: str) -> Beat:
    """P16, L7: second half."""
    return Beat(
        said=f"The kubelet ends the containers of Pod {name}",
        act=lambda _: None,
        promise=f"the job of {user} begins, and not before {name} is gone",
        kept=lambda on: _workloads(on, user) and on.users.is_gone(name),
        within_s=ENDED_S,
    )


def _workloads(on: Stage, user: str) -> bool:
    return bool(on.users.jobs_at_work(user))


def cancel(name: str) -> Beat:
    """P16: by a human."""
    return Beat(
        said=f"An administrator cancels the job of Pod {name}: scancel",
        act=lambda on: on.users.cancel_placeholder(name),
        promise=f"{name} is deleted with its grace, and its machine is free after that",
        kept=lambda on: on.users.is_gone(name),
        within_s=ENDED_S,
    )


def fill(user: str) -> Beat:
    """L7: nobody is in the way."""
    return Beat(
        said=f"Jobs of {user} take every machine that is free",
        act=lambda on: on.users.submit(user, *on.users.free_hosts()),
        promise="each asks at the gate, and begins as no Pod is there",
        kept=lambda on: bool(on.users.jobs_at_work(user)) and not on.users.free_hosts(),
    )


def compete(low: str, high: str) -> Beat:
    """P1, P26: no room, two priorities."""

    def act(on: Stage) -> None:
        on.users.apply(low, priority=LOW)
        on.users.apply(high, priority=HIGH)

    return Beat(
        said=f"A user applies Pod {low} with priority {LOW}, then {high} with priority {HIGH}",
        act=act,
        promise="both wait, and their conditions tell Slurm's reason in plain words",
        kept=lambda on: all(on.users.waits(name, "waits") for name in (low, high)),
        within_s=WAITS_S,
    )


def overtake(high: str, low: str, *, user: str) -> Beat:
    """P4, P26."""
    return Beat(
        said=f"A job of {user} ends",
        act=lambda on: on.users.cancel_jobs(user, count=1),
        promise=f"{high} goes first, though {low} came first",
        kept=lambda on: on.users.is_bound(high) and on.users.waits(low),
        within_s=POLLED_S,
    )


def succeed(first: str, then: str) -> Beat:
    """P14, L7."""
    return Beat(
        said=f"The user deletes Pod {first}",
        act=lambda on: on.users.delete(first),
        promise=f"when {first} is gone its job ends, and {then} is bound there",
        kept=lambda on: on.users.is_gone(first) and on.users.is_bound(then),
        within_s=ENDED_S,
    )


def gather(names: Sequence[str]) -> Beat:
    """G1: where there is no room for all."""
    return Beat(
        said=f"A gang of {len(names)} Pods comes ({', '.join(names)}); there is no room for it",
        act=lambda on: on.users.apply_gang(names),
        promise="one job for all of them; it waits, and so does each",
        kept=lambda on: _waits_whole(on, names),
        within_s=WAITS_S,
    )


def _waits_whole(on: Stage, names: Sequence[str]) -> bool:
    all_wait = all(on.users.waits(name, "waits") for name in names)
    return all_wait and len(on.users.placeholders(names[0])) == 1


def make_room(names: Sequence[str], pod: str, *, user: str = "") -> Beat:
    """G1."""

    def act(on: Stage) -> None:
        on.users.delete(pod)
        on.users.cancel_jobs(user)

    jobs = f", and the jobs of {user} theirs" if user else ""
    return Beat(
        said=f"Pod {pod} leaves its machine{jobs}",
        act=act,
        promise="all of the gang are bound, each to a machine of the one job",
        kept=lambda on: on.users.is_bound(*names),
        within_s=ENDED_S,
    )


def kill_service(names: Sequence[str], newcomer: str) -> Beat:
    """F: nobody looks while Pods run and come."""

    def act(on: Stage) -> None:
        on.syncer.kill()
        on.users.apply(newcomer)

    return Beat(
        said=f"The service is killed; Pod {newcomer} is applied meanwhile",
        act=act,
        promise="nothing changes: the Pods run on, and their job",
        kept=lambda on: _stands_still(on, names, newcomer),
        within_s=KILLED_S,
    )


def _stands_still(on: Stage, names: Sequence[str], newcomer: str) -> bool:
    runs_on = on.users.is_bound(*names) and not on.users.placeholders(newcomer)
    return runs_on and not on.syncer.alive


def start_service(names: Sequence[str], newcomer: str) -> Beat:
    """F2, P23: it finds whose each job is."""
    return Beat(
        said="The service starts again, with no memory but both worlds",
        act=lambda on: on.syncer.start(),
        promise=f"one job of each as before, and one for {newcomer}, which waits",
        kept=lambda on: on.users.is_bound(*names) and _waits_whole(on, [newcomer]),
        within_s=LISTED_S,
    )


def break_gang(names: Sequence[str], newcomer: str = "") -> Beat:
    """G3; somebody may wait for the machines."""
    then = f"then {newcomer} is bound" if newcomer else "and their job ends after them"
    return Beat(
        said=f"The user deletes {names[1]} of the gang",
        act=lambda on: on.users.delete(names[1]),
        promise=f"half a gang is none: the others end too, {then}",
        kept=lambda on: on.users.is_gone(*names) and (not newcomer or on.users.is_bound(newcomer)),
        within_s=ENDED_S,
    )


def clear() -> Beat:
    """Whoever is left goes, also what somebody brought by kubectl."""
    return Beat(
        said=f"The machines of partition {GPU} are needed: everybody leaves",
        act=lambda on: on.users.leave(),
        promise="no Pod and no job is left on them",
        kept=lambda on: on.users.has_room(),
        within_s=ENDED_S,
    )
