"""What can happen, and what then must come about: stories are made of these."""

from collections.abc import Callable, Sequence

from msgspec import Struct

from sunk_sync.demo.story.stage import Stage

Act = Callable[[Stage], None]
Claim = Callable[[Stage], bool]

SOON_S = 2.0
"""News of Kubernetes arrive by watch: milliseconds."""
POLLED_S = 4.0
"""News of Slurm are polled for once a second, and written to an object at most once a second."""
LISTED_S = 12.0
"""After a start or an outage both sides are listed, in Slurm once its nodes have registered."""


class Beat(Struct, frozen=True, kw_only=True):
    """People do something; the promise comes true in time and stays true while one looks at it."""

    said: str
    act: Act
    promise: str
    kept: Claim
    within_s: float = SOON_S
    stays_s: float = 0.0
    """It is watched at least so long."""
    passes: bool = False
    """What it promises is over soon by itself."""


class Trouble(Struct, frozen=True):
    """Beats that begin it and beats that cure it."""

    begin: Sequence[Beat]
    cure: Sequence[Beat]


def cordon(host: str, why: str) -> Beat:
    """S1."""
    reason = f"k8s: node cordoned: {why}"
    return Beat(
        said=f"An operator cordons Node {host}: {why}",
        act=lambda on: on.worlds.cordon(host, why),
        promise=f"Slurm drains {host}: “{reason}”",
        kept=lambda on: on.is_drained(host, reason),
    )


def uncordon(host: str) -> Beat:
    """S2."""
    return Beat(
        said=f"The operator uncordons Node {host}",
        act=lambda on: on.worlds.uncordon(host),
        promise=f"the drain of {host} is lifted, as it was ours",
        kept=lambda on: on.is_free(host),
    )


def drain_by_hand(host: str, why: str) -> Beat:
    """M2, M3, S11."""
    return Beat(
        said=f"An administrator drains {host} in Slurm: {why}",
        act=lambda on: on.worlds.drain(host, why),
        promise=f"Pod and Node of {host} say “{why}”, and nobody lifts it",
        kept=lambda on: on.is_drained(host, why) and on.shows_drain(host, why),
        within_s=POLLED_S,
    )


def resume(host: str) -> Beat:
    """M2, M3."""
    return Beat(
        said=f"The administrator resumes {host}",
        act=lambda on: on.worlds.resume(host),
        promise=f"Pod and Node of {host} speak of no drain any more",
        kept=lambda on: on.is_free(host) and on.shows_no_drain(host),
        within_s=POLLED_S,
    )


def take_over(host: str, why: str) -> Beat:
    """S12: on a host that we drained."""
    return Beat(
        said=f"An administrator makes the drain of {host} their own: {why}",
        act=lambda on: on.worlds.drain(host, why),
        promise=f"{host} is theirs now: the reason stays “{why}”",
        kept=lambda on: on.is_drained(host, why) and on.shows_drain(host, why),
        within_s=POLLED_S,
    )


def uncordon_in_vain(host: str, why: str) -> Beat:
    """S12: after `take_over`."""
    return Beat(
        said=f"The operator uncordons Node {host}",
        act=lambda on: on.worlds.uncordon(host),
        promise=f"the administrator's drain of {host} stays",
        kept=lambda on: on.is_drained(host, why),
    )


def retire(host: str, why: str) -> Beat:
    """S6, first half: on a host where a job runs."""
    reason = f"k8s: pod pending deletion: {why}"
    return Beat(
        said=f"Pod slurmd-{host} is to be deleted ({why}) while a job runs there",
        act=lambda on: on.worlds.ask_to_retire(host, why),
        promise=f"{host} takes no new job; the Pod may not go yet",
        kept=lambda on: on.is_drained(host, reason) and not on.may_go(host),
    )


def end_jobs(host: str) -> Beat:
    """S6, second half."""
    return Beat(
        said=f"The job on {host} ends",
        act=lambda on: on.worlds.cancel_jobs(host),
        promise=f"Pod slurmd-{host} is marked drained=true: it may go",
        kept=lambda on: on.may_go(host),
        within_s=POLLED_S,
    )


def delete_pod(host: str) -> Beat:
    """S5, S7."""
    return Beat(
        said=f"Pod slurmd-{host} is deleted",
        act=lambda on: on.worlds.delete_pod(host),
        promise=f"{host} stays drained: “k8s: pod terminated”",
        kept=lambda on: on.is_drained(host, "k8s: pod terminated"),
        within_s=POLLED_S,
    )


def renew_pod(host: str) -> Beat:
    """S7, healed."""
    return Beat(
        said=f"A new Pod slurmd-{host} is Ready",
        act=lambda on: on.worlds.renew_pod(host),
        promise=f"the drain of {host} is lifted",
        kept=lambda on: on.is_free(host),
    )


def lose_node(host: str) -> Beat:
    """S8: the object is gone."""
    return Beat(
        said=f"Node {host} is gone from Kubernetes",
        act=lambda on: on.worlds.remove_node(host),
        promise=f"read by name, it is gone: Slurm drains {host}",
        kept=lambda on: on.is_drained(host, "k8s: node gone"),
    )


def find_node(host: str) -> Beat:
    """S8, healed."""
    return Beat(
        said=f"Node {host} joins again",
        act=lambda on: on.worlds.add_node(host),
        promise=f"the drain of {host} is lifted",
        kept=lambda on: on.is_free(host),
    )


def fall_ill(host: str) -> Beat:
    """S8: not ready for longer than the grace."""
    return Beat(
        said=f"The kubelet of {host} reports NotReady",
        act=lambda on: on.worlds.set_ready(host, ready=False),
        promise=f"after its grace Slurm drains {host}: “k8s: node not ready”",
        kept=lambda on: on.is_drained(host, "k8s: node not ready"),
        within_s=POLLED_S,
    )


def recover(host: str) -> Beat:
    """S8, healed."""
    return Beat(
        said=f"The kubelet of {host} reports Ready",
        act=lambda on: on.worlds.set_ready(host, ready=True),
        promise=f"the drain of {host} is lifted",
        kept=lambda on: on.is_free(host),
    )
