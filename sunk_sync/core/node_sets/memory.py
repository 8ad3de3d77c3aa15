"""What this process remembers of NodeSets, and no listing says. A restart loses it."""

from collections import defaultdict

from msgspec.structs import replace

from sunk_sync.core.model.facts import SlurmdPod
from sunk_sync.core.model.node_set import NodeSet
from sunk_sync.core.model.node_set_answers import JobEnds, RequeueTried, ReservationSet
from sunk_sync.core.node_sets.failures import FailureLog
from sunk_sync.core.views.node_set import NO_STORY, Story, cause_of


class NodeSetMemory:
    """Each dictionary is by the key of the NodeSet in its table, unless it says something else."""

    def __init__(self) -> None:
        self.failures = FailureLog()
        self.unregistered = FailureLog()
        """Pods that went because their slurmd had no record in Slurm (N3)."""
        self.requeued: dict[str, RequeueTried] = {}
        """Slurm node → the last try to requeue its jobs, since it was drained."""
        self.job_ends: dict[str, JobEnds] = {}
        """The last answer about the ends of its jobs."""
        self.spared: defaultdict[str, set[str]] = defaultdict(set)
        """UID of a NodeSet → UIDs of Pods that were condemned and stay, since it last changed."""
        self.reservations: dict[str, ReservationSet] = {}
        """The last answer about its reservation."""
        self.stories: dict[str, Story] = {}
        """What happened to the NodeSet, if anything did."""

    def forget(self, key: str) -> None:
        """The NodeSet is gone."""
        self.failures.forget(key)
        self.unregistered.forget(key)
        self.reservations.pop(key, None)
        self.stories.pop(key, None)
        self.job_ends.pop(key, None)

    def continue_story(self, before: NodeSet, after: NodeSet, *, updated_to: str | None) -> None:
        """Note what changed. `updated_to`: the new revision of its template, if it changed."""
        story = self.stories.get(after.key, NO_STORY)
        if before.replicas != after.replicas and not after.per_node:
            story = replace(story, scaled=(before.replicas, after.replicas))
        if updated_to is not None:
            story = replace(story, updated_to=updated_to)
        if story is not NO_STORY:
            self.stories[after.key] = story

    def note_spared(self, before: SlurmdPod, after: SlurmdPod | None) -> None:
        """Note that a condemnation was taken back: it is not for the same Pod to and fro (N6)."""
        if after is None or after.uid != before.uid:
            self.spared[before.owner].discard(before.uid)
        elif cause_of(before) is not None and cause_of(after) is None:
            self.spared[before.owner].add(before.uid)
