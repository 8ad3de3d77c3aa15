"""The objects of one run, and claims about them."""

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
from sunk_sync.demo.story.history import History
from sunk_sync.embedded.slurm.model.node import state_of

if TYPE_CHECKING:
    from sunk_sync.demo.stage.syncer import Syncer


class Context(Struct, frozen=True):
    """The objects of one run. Claims read the clusters, never the state of the service."""

    worlds: Worlds
    syncer: "Syncer"
    history: History

    @property
    def users(self) -> Users:
        return Users(self.worlds)

    def record_logs(self) -> None:
        """Record the log of the service; raise the exception that ended it, if any."""
        self.syncer.check()
        for event in self.syncer.tail.take():
            self.history.record_log(event)

    def is_drained(self, host: str, reason: str) -> bool:
        """Whether Slurm drains the host with exactly this reason."""
        slurm_node = self.worlds.slurm_node(host)
        return "DRAIN" in slurm_node.flags and slurm_node.reason == reason

    def is_free(self, host: str) -> bool:
        """Whether jobs can start there and no reason of sunk-sync is left."""
        slurm_node = self.worlds.slurm_node(host)
        ours = slurm_node.reason.startswith(REASON_PREFIX)
        return slurm_node.base == "IDLE" and "DRAIN" not in slurm_node.flags and not ours

    def shows_drain(self, host: str, reason: str) -> bool:
        """Whether Pod and Node have the reason, and the Node its condition."""
        pod, node = self.worlds.pod(host), self.worlds.node(host)
        shown = annotation(pod, DRAIN) == annotation(node, DRAIN) == reason
        return shown and condition(node, NODE_DRAIN_CONDITION) == "True"

    def shows_no_drain(self, host: str) -> bool:
        pod, node = self.worlds.pod(host), self.worlds.node(host)
        shown = annotation(pod, DRAIN) or annotation(node, DRAIN)
        return not shown and condition(node, NODE_DRAIN_CONDITION) == "False"

    def shows_state(self, host: str) -> bool:
        """Whether the Pod shows each state of its Slurm node, and the Node whether jobs run."""
        pod, node = self.worlds.pod(host), self.worlds.node(host)
        states = state_of(self.worlds.slurm_node(host))
        wanted = {POD_STATE_CONDITION + _camel_case(state) for state in states}
        running = "False" if "IDLE" in states else "True"
        shown = condition(node, NODE_RUNNING_CONDITION) == running
        return shown and conditions_that_hold(pod, POD_STATE_CONDITION) == wanted

    def is_marked_drained(self, host: str) -> bool:
        return annotation(self.worlds.pod(host), DRAINED) == "true"

    def has_converged(self, quiet_s: float = 1.0) -> bool:
        """Whether no node is drained, both sides agree, no Pod is left and no write follows."""
        free = all(self.is_free(host) for host in HOSTS)
        shown = all(self.shows_no_drain(host) and self.shows_state(host) for host in HOSTS)
        quiet = self.syncer.ready and self.history.quiet_s > quiet_s
        return free and shown and quiet and self.users.all_free()


def _camel_case(state: str) -> str:
    """Spell `NOT_RESPONDING` as a condition type does: `NotResponding`."""
    return "".join(word.capitalize() for word in state.split("_"))
