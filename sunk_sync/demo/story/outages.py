"""What happens to the whole: slurmctld goes away, the service is killed; and the first and last."""

from sunk_sync.demo.story.beats import LISTED_S, POLLED_S, SOON_S, Beat
from sunk_sync.demo.story.stage import Stage

OUTAGE_S = 1.6
RECOVERED_S = 20.0
"""slurmrestd lets a question wait for slurmctld, and the poll rests four times as long as an
answer took."""
KILLED_S = 4.0
"""The door of a killed service closes at once but for calls that wait there: two seconds."""


def begin() -> Beat:
    """Both sides are listed."""
    return Beat(
        said="Twelve machines, and a service that has just met them",
        act=lambda _: None,
        promise="it has read both sides; every Node says what Slurm says",
        kept=lambda on: on.syncer.ready and _conditions_stand(on),
        within_s=LISTED_S,
    )


def _conditions_stand(stage: Stage) -> bool:
    slurm = stage.worlds.slurm
    idle = [name for name, node in slurm.nodes.items() if "DRAIN" not in node.flags]
    return all(stage.shows_no_drain(host) for host in idle)


def stop_slurmctld(cordoned: str, why: str) -> Beat:
    """F: Slurm cannot be read, and a cordon comes."""

    def act(on: Stage) -> None:
        on.worlds.stop_slurmctld()
        on.worlds.cordon(cordoned, why)

    return Beat(
        said=f"slurmctld is down; meanwhile an operator cordons Node {cordoned}: {why}",
        act=act,
        promise="the service stays ready, and nothing is drained or lifted blindly",
        kept=lambda on: on.syncer.ready and on.is_free(cordoned),
        stays_s=OUTAGE_S,
    )


def start_slurmctld(cordoned: str, why: str) -> Beat:
    """F: what waited is made good."""
    return Beat(
        said="slurmctld is back; its nodes register",
        act=lambda on: on.worlds.start_slurmctld(),
        promise=f"{cordoned} is drained for the cordon of meanwhile",
        kept=lambda on: on.is_drained(cordoned, f"k8s: node cordoned: {why}"),
        within_s=RECOVERED_S,
    )


def kill_service(*, cordoned: str, why: str, uncordoned: str) -> Beat:
    """F: nobody looks while both worlds change."""

    def act(on: Stage) -> None:
        on.syncer.kill()
        on.worlds.cordon(cordoned, why)
        on.worlds.uncordon(uncordoned)

    return Beat(
        said=f"The service is killed; {cordoned} is cordoned and {uncordoned} uncordoned meanwhile",
        act=act,
        promise="nothing changes in Slurm",
        kept=lambda on: not on.syncer.alive and on.is_free(cordoned) and not on.is_free(uncordoned),
        within_s=KILLED_S,
    )


def start_service(*, cordoned: str, why: str, uncordoned: str) -> Beat:
    """F: it finds all it needs in both worlds."""
    reason = f"k8s: node cordoned: {why}"
    return Beat(
        said="The service starts again, with no memory but both worlds",
        act=lambda on: on.syncer.start(),
        promise=f"{cordoned} is drained, {uncordoned} lifted: it ends right",
        kept=lambda on: on.is_drained(cordoned, reason) and on.is_free(uncordoned),
        within_s=LISTED_S,
    )


def end() -> Beat:
    """Nothing is left undone."""
    return Beat(
        said="Everything is healed",
        act=lambda _: None,
        promise="nothing is drained, both sides agree, and the service writes nothing more",
        kept=lambda on: on.is_at_rest(),
        within_s=POLLED_S + SOON_S,
    )
