"""Steps that change one host, and the checks that follow. Each names its rows."""

from sunk_sync.demo.story.step import POLLED_S, Step


def cordon(host: str, why: str) -> Step:
    """Cordon a Node (S1)."""
    reason = f"k8s: node cordoned: {why}"
    return Step(
        text=f"An operator cordons Node {host}: {why}",
        act=lambda on: on.worlds.cordon(host, why),
        expected=f"Slurm drains {host}: “{reason}”",
        holds=lambda on: on.is_drained(host, reason),
    )


def uncordon(host: str) -> Step:
    """Uncordon a Node that sunk-sync drained (S2)."""
    return Step(
        text=f"The operator uncordons Node {host}",
        act=lambda on: on.worlds.uncordon(host),
        expected=f"sunk-sync lifts its drain of {host}",
        holds=lambda on: on.is_free(host),
    )


def drain_by_hand(host: str, why: str) -> Step:
    """Drain a Slurm node by hand (M2, M3, S11)."""
    return Step(
        text=f"An administrator drains {host} in Slurm: {why}",
        act=lambda on: on.worlds.drain(host, why),
        expected=f"Pod and Node of {host} show “{why}”; the drain stays",
        holds=lambda on: on.is_drained(host, why) and on.shows_drain(host, why),
        within_s=POLLED_S,
    )


def resume(host: str) -> Step:
    """Resume a Slurm node by hand (M2, M3)."""
    return Step(
        text=f"The administrator resumes {host}",
        act=lambda on: on.worlds.resume(host),
        expected=f"Pod and Node of {host} no longer show a drain",
        holds=lambda on: on.is_free(host) and on.shows_no_drain(host),
        within_s=POLLED_S,
    )


def take_over(host: str, why: str) -> Step:
    """Change the reason of a drain that sunk-sync set (S12)."""
    return Step(
        text=f"An administrator changes the drain reason of {host}: {why}",
        act=lambda on: on.worlds.drain(host, why),
        expected=f"sunk-sync leaves the drain of {host} alone: “{why}” stays",
        holds=lambda on: on.is_drained(host, why) and on.shows_drain(host, why),
        within_s=POLLED_S,
    )


def uncordon_after_take_over(host: str, why: str) -> Step:
    """Uncordon a Node after `take_over` (S12)."""
    return Step(
        text=f"The operator uncordons Node {host}",
        act=lambda on: on.worlds.uncordon(host),
        expected=f"the administrator's drain of {host} stays",
        holds=lambda on: on.is_drained(host, why),
    )


def mark_for_deletion(host: str, why: str) -> Step:
    """Mark the slurmd Pod of a busy host for deletion (S6)."""
    reason = f"k8s: pod pending deletion: {why}"
    return Step(
        text=f"An operator marks Pod slurmd-{host} for deletion ({why}); a job still runs",
        act=lambda on: on.worlds.mark_for_deletion(host, why),
        expected=f"Slurm drains {host}; the Pod is not marked drained yet",
        holds=lambda on: on.is_drained(host, reason) and not on.is_marked_drained(host),
    )


def end_jobs(host: str) -> Step:
    """End the job of a host that is marked for deletion (S6)."""
    return Step(
        text=f"The job on {host} ends",
        act=lambda on: on.worlds.cancel_jobs(host),
        expected=f"Pod slurmd-{host} is marked drained=true: it can be deleted",
        holds=lambda on: on.is_marked_drained(host),
        within_s=POLLED_S,
    )


def delete_pod(host: str) -> Step:
    """Delete a slurmd Pod (S5, S7)."""
    return Step(
        text=f"An operator deletes Pod slurmd-{host}",
        act=lambda on: on.worlds.delete_pod(host),
        expected=f"{host} stays drained: “k8s: pod terminated”",
        holds=lambda on: on.is_drained(host, "k8s: pod terminated"),
        within_s=POLLED_S,
    )


def create_pod(host: str) -> Step:
    """Create the slurmd Pod again (S7)."""
    return Step(
        text=f"A new Pod slurmd-{host} becomes Ready",
        act=lambda on: on.worlds.create_pod(host),
        expected=f"sunk-sync lifts its drain of {host}",
        holds=lambda on: on.is_free(host),
    )


def delete_node(host: str) -> Step:
    """Delete a Node (S8)."""
    return Step(
        text=f"An operator deletes Node {host}",
        act=lambda on: on.worlds.remove_node(host),
        expected=f"a GET by name confirms it, and Slurm drains {host}: “k8s: node gone”",
        holds=lambda on: on.is_drained(host, "k8s: node gone"),
    )


def create_node(host: str) -> Step:
    """Create the Node again (S8)."""
    return Step(
        text=f"Node {host} joins the cluster again",
        act=lambda on: on.worlds.add_node(host),
        expected=f"sunk-sync lifts its drain of {host}",
        holds=lambda on: on.is_free(host),
    )


def become_not_ready(host: str) -> Step:
    """Report NotReady for longer than the grace period (S8)."""
    return Step(
        text=f"The kubelet of {host} reports NotReady",
        act=lambda on: on.worlds.set_ready(host, ready=False),
        expected=f"after the grace period Slurm drains {host}: “k8s: node not ready”",
        holds=lambda on: on.is_drained(host, "k8s: node not ready"),
        within_s=POLLED_S,
    )


def become_ready(host: str) -> Step:
    """Report Ready again (S8)."""
    return Step(
        text=f"The kubelet of {host} reports Ready",
        act=lambda on: on.worlds.set_ready(host, ready=True),
        expected=f"sunk-sync lifts its drain of {host}",
        holds=lambda on: on.is_free(host),
    )
