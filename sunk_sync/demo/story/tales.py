"""What happens to Pods in the story without end: each tale begins and ends on free machines."""

from collections.abc import Callable, Iterator, Sequence
from random import Random

from sunk_sync.demo.story import pod_beats
from sunk_sync.demo.story.beats import Trouble

NAMES = ("train", "eval", "serve", "sweep", "notebook")
USERS = ("ada", "alan", "edsger", "grace")
RING = ("ring-0", "ring-1", "ring-2")


def tales(random: Random) -> Iterator[Trouble]:
    """Each once, in another order every round."""
    while True:
        yield from (tale(random) for tale in random.sample(TALES, len(TALES)))


def _lived(random: Random) -> Trouble:
    name = random.choice(NAMES)
    return Trouble([pod_beats.apply(name)], [pod_beats.delete(name)])


def _cancelled(random: Random) -> Trouble:
    name = random.choice(NAMES)
    return Trouble([pod_beats.apply(name)], [pod_beats.cancel(name)])


def _refused(random: Random) -> Trouble:
    name = random.choice(NAMES)
    return Trouble([pod_beats.refuse(name)], [pod_beats.amend(name), pod_beats.delete(name)])


def _preempted(random: Random) -> Trouble:
    name, user = random.choice(NAMES), random.choice(USERS)
    ends = [pod_beats.preempt(name, user), pod_beats.make_way(name, user)]
    return Trouble([pod_beats.apply(name)], [*ends, pod_beats.clear()])


def _overtaken(random: Random) -> Trouble:
    low, high = random.sample(NAMES, 2)
    user = random.choice(USERS)
    first = pod_beats.overtake(high, low, user=user)
    return Trouble(
        [pod_beats.fill(user), pod_beats.compete(low, high)],
        [first, pod_beats.succeed(high, low), pod_beats.clear()],
    )


def _gathered(random: Random) -> Trouble:
    name = random.choice(NAMES)
    waits = [pod_beats.apply(name), pod_beats.gather(RING)]
    return Trouble([*waits, pod_beats.make_room(RING, name)], [pod_beats.break_gang(RING)])


TALES: Sequence[Callable[[Random], Trouble]] = (
    _lived, _cancelled, _refused, _preempted, _overtaken, _gathered,
)  # fmt: skip
