"""What a story plays on: the worlds, the service and the diary; and what can be seen there."""

from typing import TYPE_CHECKING

from msgspec import Struct

from sunk_sync.core.model.names import (
    DRAIN,
    DRAINED,
    NODE_DRAIN_CONDITION,
    NODE_RUNNING_CONDITION,
    POD_STATE_CONDITION,
    REASON_PREFIX,
)
from sunk_sync.demo.stage.reading import annotation, condition, conditions_that_hold
from sunk_sync.demo.stage.users import Users
from sunk_sync.demo.stage.worlds import HOSTS, Worlds
from sunk_sync.demo.story.diary import Diary
from sunk_sync.embedded.slurm.model.node import state_of

if TYPE_CHECKING:
    from sunk_sync.demo.stage.syncer import Syncer


class Stage(Struct, frozen=True):
    """Claims read the worlds themselves, never what the service believes."""

    worlds: Worlds
    syncer: "Syncer"
    diary: Diary

    @property
    def users(self) -> Users:
        """Those who bring Pods and jobs."""
        return Users(self.worlds)

    def listen(self) -> None:
        """Write down what the service says; raises what it died of."""
        self.syncer.check()
        for event in self.syncer.tail.taken():
            self.diary.hear(event)

    def is_drained(self, host: str, reason: str) -> bool:
        """In Slurm, with this very reason."""
        slurm_node = self.worlds.slurm_node(host)
        return "DRAIN" in slurm_node.flags and slurm_node.reason == reason

    def is_free(self, host: str) -> bool:
        """Jobs may start, and no reason of ours stands."""
        slurm_node = self.worlds.slurm_node(host)
        ours = slurm_node.reason.startswith(REASON_PREFIX)
        return slurm_node.base == "IDLE" and "DRAIN" not in slurm_node.flags and not ours

    def shows_drain(self, host: str, reason: str) -> bool:
        """Pod and Node carry the reason as annotation, and the Node its condition."""
        pod, node = self.worlds.pod(host), self.worlds.node(host)
        told = annotation(pod, DRAIN) == annotation(node, DRAIN) == reason
        return told and condition(node, NODE_DRAIN_CONDITION) == "True"

    def shows_no_drain(self, host: str) -> bool:
        """Neither Pod nor Node speaks of a drain."""
        pod, node = self.worlds.pod(host), self.worlds.node(host)
        told = annotation(pod, DRAIN) or annotation(node, DRAIN)
        return not told and condition(node, NODE_DRAIN_CONDITION) == "False"

    def shows_state(self, host: str) -> bool:
        """The Pod has a condition for each state of its Slurm node; the Node says if jobs run."""
        pod, node = self.worlds.pod(host), self.worlds.node(host)
        states = state_of(self.worlds.slurm_node(host))
        wanted = {POD_STATE_CONDITION + _in_words(state) for state in states}
        running = "False" if "IDLE" in states else "True"
        told = condition(node, NODE_RUNNING_CONDITION) == running
        return told and conditions_that_hold(pod, POD_STATE_CONDITION) == wanted

    def may_go(self, host: str) -> bool:
        """The Pod carries `drained=true`."""
        return annotation(self.worlds.pod(host), DRAINED) == "true"

    def is_at_rest(self, quiet_s: float = 1.0) -> bool:
        """Nothing is drained, both sides say so, no Pod is left, and nothing is to be written."""
        free = all(self.is_free(host) for host in HOSTS)
        told = all(self.shows_no_drain(host) and self.shows_state(host) for host in HOSTS)
        quiet = self.syncer.ready and self.diary.quiet_s > quiet_s
        return free and told and quiet and self.users.has_room()


def _in_words(state: str) -> str:
    """`NOT_RESPONDING` as it ends the type of a condition: `NotResponding`."""
    return "".join(word.capitalize() for word in state.split("_"))
