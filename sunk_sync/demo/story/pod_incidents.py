"""Incidents of Pods in the endless story: each begins and ends with all machines free."""

from collections.abc import Callable, Iterator, Sequence
from random import Random

from sunk_sync.demo.story import pod_steps
from sunk_sync.demo.story.step import Incident

NAMES = ("train", "eval", "serve", "sweep", "notebook")
USERS = ("ada", "alan", "edsger", "grace")
RING = ("ring-0", "ring-1", "ring-2")


def pod_incidents(random: Random) -> Iterator[Incident]:
    """Yield each kind once a round, in a random order."""
    while True:
        yield from (
            incident(random) for incident in random.sample(POD_INCIDENTS, len(POD_INCIDENTS))
        )


def _deleted(random: Random) -> Incident:
    name = random.choice(NAMES)
    return Incident([pod_steps.apply(name)], [pod_steps.delete(name)])


def _cancelled(random: Random) -> Incident:
    name = random.choice(NAMES)
    return Incident([pod_steps.apply(name)], [pod_steps.cancel(name)])


def _refused(random: Random) -> Incident:
    name = random.choice(NAMES)
    return Incident([pod_steps.refuse(name)], [pod_steps.correct(name), pod_steps.delete(name)])


def _preempted(random: Random) -> Incident:
    name, user = random.choice(NAMES), random.choice(USERS)
    ends = [pod_steps.preempt(name, user), pod_steps.end_preempted(name, user)]
    return Incident([pod_steps.apply(name)], [*ends, pod_steps.clear()])


def _outranked(random: Random) -> Incident:
    low, high = random.sample(NAMES, 2)
    user = random.choice(USERS)
    first = pod_steps.overtake(high, low, user=user)
    return Incident(
        [pod_steps.fill(user), pod_steps.compete(low, high)],
        [first, pod_steps.replace(high, low), pod_steps.clear()],
    )


def _gang(random: Random) -> Incident:
    name = random.choice(NAMES)
    waits = [pod_steps.apply(name), pod_steps.apply_gang(RING)]
    return Incident([*waits, pod_steps.free_machines(RING, name)], [pod_steps.break_gang(RING)])


POD_INCIDENTS: Sequence[Callable[[Random], Incident]] = (
    _deleted, _cancelled, _refused, _preempted, _outranked, _gang,
)  # fmt: skip
