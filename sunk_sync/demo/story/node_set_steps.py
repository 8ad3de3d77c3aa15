"""Steps of a NodeSet: it grows, is updated under a job, and goes to zero."""

from sunk_sync.demo.stage import slurmds
from sunk_sync.demo.stage.slurmds import image_of, slurmd_pods
from sunk_sync.demo.stage.worlds import NODE_SET
from sunk_sync.demo.story.context import Context
from sunk_sync.demo.story.step import LISTED_S, POLLED_S, Step

OLD, NEW = "slurmd:1", "slurmd:2"
SIZE = 3
NAMES = [f"{NODE_SET}-{number}" for number in range(SIZE)]
BUSY = NAMES[1]
UPDATED_S = 20.0
"""Three Pods one after another: each is drained, ends, and starts anew."""


def grow(image: str) -> Step:
    """Make a NodeSet (N1, N2)."""
    return Step(
        text=f"An administrator applies NodeSet {NODE_SET} with {SIZE} replicas",
        act=lambda on: slurmds.apply(on.worlds, replicas=SIZE, image=image),
        expected=f"sunk-sync makes {SIZE} slurmd Pods; Slurm has {NAMES[0]} to {NAMES[-1]}",
        holds=lambda on: all_free(on),
        within_s=LISTED_S,
    )


def run_job() -> Step:
    """Run a job on one of its nodes."""
    return Step(
        text=f"A user submits a job for {BUSY}",
        act=lambda on: on.worlds.run_job(BUSY, user="grace"),
        expected=f"a job runs on {BUSY}",
        holds=is_busy,
        within_s=POLLED_S,
    )


def update(before: str, after: str) -> Step:
    """Change the image (N7, N12)."""
    reason = f"k8s: pod pending deletion: update of NodeSet {NODE_SET}"
    return Step(
        text=f"The administrator changes the image of NodeSet {NODE_SET} to {after}",
        act=lambda on: slurmds.apply(on.worlds, replicas=SIZE, image=after),
        expected=f"idle Pods are made anew one by one; {BUSY} is drained, and its job runs on",
        holds=lambda on: (
            is_busy(on)
            and on.is_drained(BUSY, reason)
            and images(on) == {name: before if name == BUSY else after for name in NAMES}
        ),
        within_s=UPDATED_S,
    )


def end_job(image: str) -> Step:
    """End the job on the last Pod with the image of before (N8)."""
    return Step(
        text=f"The job on {BUSY} ends",
        act=lambda on: on.worlds.cancel_jobs(BUSY),
        expected=f"{BUSY} is made anew too: all Pods have {image}, and all nodes are free",
        holds=lambda on: set(images(on).values()) == {image} and all_free(on),
        within_s=UPDATED_S,
    )


def go_to_zero(image: str) -> Step:
    """Scale to zero (N6, N10)."""
    return Step(
        text=f"The administrator scales NodeSet {NODE_SET} to 0",
        act=lambda on: slurmds.apply(on.worlds, replicas=0, image=image),
        expected="no Pod and no node in Slurm is left of it",
        holds=lambda on: not slurmd_pods(on.worlds) and not on.worlds.slots,
        within_s=LISTED_S,
    )


def is_busy(on: Context) -> bool:
    return BUSY in on.worlds.slots and on.worlds.slurm_node(BUSY).running > 0


def all_free(on: Context) -> bool:
    """Whether exactly its nodes are in Slurm, and jobs can start on each."""
    return on.worlds.slots == NAMES and all(on.is_free(name) for name in NAMES)


def images(on: Context) -> dict[str, str]:
    """Return the image of each Pod of the NodeSet."""
    return {str(pod["metadata"]["name"]): image_of(pod) for pod in slurmd_pods(on.worlds)}
