"""Steps for all hosts: outages of slurmctld and the service, and the first and last step."""

from sunk_sync.demo.story.context import Context
from sunk_sync.demo.story.step import LISTED_S, POLLED_S, SOON_S, Step

OUTAGE_S = 1.6
RECOVERED_S = 20.0
"""slurmrestd holds requests while slurmctld is down; the poll then pauses four times as long."""
KILLED_S = 4.0
"""The server of a killed service waits up to two seconds for its open calls."""


def begin() -> Step:
    return Step(
        text="The service starts beside twelve machines",
        act=lambda _: None,
        expected="it has read both sides, and every Node shows its state in Slurm",
        holds=lambda on: on.syncer.ready and _conditions_are_set(on),
        within_s=LISTED_S,
    )


def _conditions_are_set(context: Context) -> bool:
    slurm = context.worlds.slurm
    idle = [name for name, node in slurm.nodes.items() if "DRAIN" not in node.flags]
    return all(context.shows_no_drain(host) for host in idle)


def stop_slurmctld(cordoned: str, why: str) -> Step:
    """Stop slurmctld, then cordon a Node (F)."""

    def act(on: Context) -> None:
        on.worlds.stop_slurmctld()
        on.worlds.cordon(cordoned, why)

    return Step(
        text=f"slurmctld stops; an operator cordons Node {cordoned}: {why}",
        act=act,
        expected="the service stays ready and changes nothing in Slurm",
        holds=lambda on: on.syncer.ready and on.is_free(cordoned),
        stays_s=OUTAGE_S,
    )


def start_slurmctld(cordoned: str, why: str) -> Step:
    """Start slurmctld: the missed drain follows (F)."""
    return Step(
        text="slurmctld starts again, and its nodes register",
        act=lambda on: on.worlds.start_slurmctld(),
        expected=f"Slurm drains {cordoned} for the cordon during the outage",
        holds=lambda on: on.is_drained(cordoned, f"k8s: node cordoned: {why}"),
        within_s=RECOVERED_S,
    )


def kill_service(*, cordoned: str, why: str, uncordoned: str) -> Step:
    """Kill the service, then cordon one Node and uncordon another (F)."""

    def act(on: Context) -> None:
        on.syncer.kill()
        on.worlds.cordon(cordoned, why)
        on.worlds.uncordon(uncordoned)

    return Step(
        text=f"The service is killed; an operator cordons {cordoned}, uncordons {uncordoned}",
        act=act,
        expected="nothing changes in Slurm",
        holds=lambda on: (
            not on.syncer.alive and on.is_free(cordoned) and not on.is_free(uncordoned)
        ),
        within_s=KILLED_S,
    )


def start_service(*, cordoned: str, why: str, uncordoned: str) -> Step:
    """Start the service again: the missed changes follow (F)."""
    reason = f"k8s: node cordoned: {why}"
    return Step(
        text="The service starts again and reads everything from both sides",
        act=lambda on: on.syncer.start(),
        expected=f"Slurm drains {cordoned}, and the drain of {uncordoned} is lifted",
        holds=lambda on: on.is_drained(cordoned, reason) and on.is_free(uncordoned),
        within_s=LISTED_S,
    )


def end() -> Step:
    return Step(
        text="Every incident is resolved",
        act=lambda _: None,
        expected="no node is drained, both sides agree, and the service has nothing to write",
        holds=lambda on: on.has_converged(),
        within_s=POLLED_S + SOON_S,
    )
