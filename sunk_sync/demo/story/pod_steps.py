"""Steps that change Pods scheduled by Slurm, and the checks that follow."""

from collections.abc import Sequence

from sunk_sync.core.translate.counted import counted
from sunk_sync.demo.stage.worlds import GPU, URGENT
from sunk_sync.demo.story.context import Context
from sunk_sync.demo.story.outages import KILLED_S
from sunk_sync.demo.story.step import LISTED_S, POLLED_S, Step

ENDED_S = 6.0
"""Time for a Pod to end, then its job, then for the next one to start there."""
WAITS_S = 8.0
"""Time for a Pod to show why it waits: Slurm may take three seconds to name a reason."""
NO_TIME = "soon"
"""An invalid time limit."""
LOW, HIGH = "100", "5000"


def apply(name: str) -> Step:
    """Create a Pod (P1, P11, P11a)."""
    return Step(
        text=f"A user applies Pod {name}: one whole GPU machine, scheduled by Slurm",
        act=lambda on: on.users.apply(name),
        expected=f"Slurm starts a job for {name}, and {name} is bound to its Node",
        holds=lambda on: on.users.is_bound(name),
        within_s=POLLED_S,
    )


def delete(name: str) -> Step:
    """Delete a bound Pod (P14)."""
    return Step(
        text=f"The user deletes Pod {name}",
        act=lambda on: on.users.delete(name),
        expected=f"its job runs until {name} is gone, then ends",
        holds=lambda on: on.users.is_gone(name),
        within_s=ENDED_S,
    )


def refuse(name: str) -> Step:
    """Create a Pod with an invalid annotation (P4)."""
    return Step(
        text=f"A user applies Pod {name} with annotation timeout: {NO_TIME}",
        act=lambda on: on.users.apply(name, timeout=NO_TIME),
        expected=f"{name} gets no job; its condition and Event name the wrong annotation",
        holds=lambda on: _is_refused(on, name),
    )


def _is_refused(on: Context, name: str) -> bool:
    refused = on.users.waits(name, "timeout", NO_TIME) and on.users.has_event(name, "InvalidPod")
    return refused and not on.users.placeholders(name)


def correct(name: str) -> Step:
    """Correct the invalid annotation (P4)."""
    return Step(
        text=f"The user changes annotation timeout of Pod {name} to 60",
        act=lambda on: on.users.annotate(name, timeout="60"),
        expected=f"Slurm starts a job for {name}, and {name} is bound to its Node",
        holds=lambda on: on.users.is_bound(name),
        within_s=POLLED_S,
    )


def preempt(name: str, user: str) -> Step:
    """Preempt a Pod with a job of a higher tier (P16, L7)."""
    return Step(
        text=f"User {user} submits a job to partition {URGENT} for the machine of Pod {name}",
        act=lambda on: on.users.submit(user, on.users.place(name), partition=URGENT),
        expected=f"{name} gets DisruptionTarget and its grace period; the job of {user} waits",
        holds=lambda on: (
            on.users.is_disrupted(name, "PreemptionByScheduler") and not _runs(on, user)
        ),
        within_s=POLLED_S,
        transient=True,
    )


def end_preempted(name: str, user: str) -> Step:
    """Let the preempted Pod end (P16, L7)."""
    return Step(
        text=f"The kubelet ends the containers of Pod {name}",
        act=lambda _: None,
        expected=f"the job of {user} starts after {name} is gone",
        holds=lambda on: _runs(on, user) and on.users.is_gone(name),
        within_s=ENDED_S,
    )


def _runs(on: Context, user: str) -> bool:
    return bool(on.users.running_jobs_of(user))


def cancel(name: str) -> Step:
    """Cancel the job of a bound Pod by hand (P16)."""
    return Step(
        text=f"An administrator cancels the job of Pod {name} with scancel",
        act=lambda on: on.users.cancel_placeholder(name),
        expected=f"{name} is deleted with its grace period, then its machine is free",
        holds=lambda on: on.users.is_gone(name),
        within_s=ENDED_S,
    )


def fill(user: str) -> Step:
    """Submit a job for every free machine (L7)."""
    return Step(
        text=f"User {user} submits a job for every free machine",
        act=lambda on: on.users.submit(user, *on.users.free_hosts()),
        expected="each job asks the gate, and starts because no Pod is left there",
        holds=lambda on: bool(on.users.running_jobs_of(user)) and not on.users.free_hosts(),
    )


def compete(low: str, high: str) -> Step:
    """Create two Pods of different priority while no machine is free (P1, P26)."""

    def act(on: Context) -> None:
        on.users.apply(low, priority=LOW)
        on.users.apply(high, priority=HIGH)

    return Step(
        text=f"A user applies Pod {low} with priority {LOW}, then {high} with priority {HIGH}",
        act=act,
        expected="both wait; their conditions explain Slurm's reason in plain words",
        holds=lambda on: all(on.users.waits(name, "waits") for name in (low, high)),
        within_s=WAITS_S,
    )


def overtake(high: str, low: str, *, user: str) -> Step:
    """Free one machine for two waiting Pods (P4, P26)."""
    return Step(
        text=f"A job of {user} ends",
        act=lambda on: on.users.cancel_jobs(user, count=1),
        expected=f"{high} is bound first, although {low} is older",
        holds=lambda on: on.users.is_bound(high) and on.users.waits(low),
        within_s=POLLED_S,
    )


def replace(first: str, then: str) -> Step:
    """Delete a Pod while another one waits for its machine (P14, L7)."""
    return Step(
        text=f"The user deletes Pod {first}",
        act=lambda on: on.users.delete(first),
        expected=f"when {first} is gone its job ends, then {then} is bound there",
        holds=lambda on: on.users.is_gone(first) and on.users.is_bound(then),
        within_s=ENDED_S,
    )


def apply_gang(names: Sequence[str]) -> Step:
    """Create a gang that does not fit yet (G1)."""
    return Step(
        text=f"A user applies a gang of {counted(len(names), 'Pod')}; it does not fit yet",
        act=lambda on: on.users.apply_gang(names),
        expected="the gang gets one job; the job and all its Pods wait",
        holds=lambda on: _gang_waits(on, names),
        within_s=WAITS_S,
    )


def _gang_waits(on: Context, names: Sequence[str]) -> bool:
    all_wait = all(on.users.waits(name, "waits") for name in names)
    return all_wait and len(on.users.placeholders(names[0])) == 1


def free_machines(names: Sequence[str], pod: str, *, user: str = "") -> Step:
    """Free the machines that the gang needs (G1)."""

    def act(on: Context) -> None:
        on.users.delete(pod)
        on.users.cancel_jobs(user)

    jobs = f"; the jobs of {user} end" if user else ""
    return Step(
        text=f"The user deletes Pod {pod}{jobs}",
        act=act,
        expected="all Pods of the gang are bound, each to its own machine of the one job",
        holds=lambda on: on.users.is_bound(*names),
        within_s=ENDED_S,
    )


def kill_service(names: Sequence[str], newcomer: str) -> Step:
    """Kill the service while Pods run, then create another Pod (F)."""

    def act(on: Context) -> None:
        on.syncer.kill()
        on.users.apply(newcomer)

    return Step(
        text=f"The service is killed; a user applies Pod {newcomer}",
        act=act,
        expected="nothing changes: the Pods and their job keep running",
        holds=lambda on: _is_unchanged(on, names, newcomer),
        within_s=KILLED_S,
    )


def _is_unchanged(on: Context, names: Sequence[str], newcomer: str) -> bool:
    runs_on = on.users.is_bound(*names) and not on.users.placeholders(newcomer)
    return runs_on and not on.syncer.alive


def start_service(names: Sequence[str], newcomer: str) -> Step:
    """Start the service again: it finds the owner of each job (F2, P23)."""
    return Step(
        text="The service starts again and reads everything from both sides",
        act=lambda on: on.syncer.start(),
        expected=f"the gang keeps its one job; {newcomer} gets a job and waits",
        holds=lambda on: on.users.is_bound(*names) and _gang_waits(on, [newcomer]),
        within_s=LISTED_S,
    )


def break_gang(names: Sequence[str], newcomer: str = "") -> Step:
    """Delete one Pod of a gang (G3); `newcomer` may wait for a machine."""
    then = f"then {newcomer} is bound" if newcomer else "and their job ends after them"
    return Step(
        text=f"The user deletes Pod {names[1]} of the gang",
        act=lambda on: on.users.delete(names[1]),
        expected=f"the whole gang ends, {then}",
        holds=lambda on: on.users.is_gone(*names) and (not newcomer or on.users.is_bound(newcomer)),
        within_s=ENDED_S,
    )


def clear() -> Step:
    """Remove all Pods and jobs, also those that a viewer created with kubectl."""
    return Step(
        text=f"All Pods and jobs leave partition {GPU}",
        act=lambda on: on.users.clear(),
        expected="its machines hold no Pod and no job",
        holds=lambda on: on.users.all_free(),
        within_s=ENDED_S,
    )
