"""The endless story: incidents begin and are resolved in an order drawn from a seed."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from random import Random

from sunk_sync.demo.stage.worlds import CPUS, PLAIN_HOSTS
from sunk_sync.demo.story import host_steps, node_set_steps, outages
from sunk_sync.demo.story.context import Context
from sunk_sync.demo.story.node_set_steps import NEW, OLD
from sunk_sync.demo.story.pod_incidents import USERS, pod_incidents
from sunk_sync.demo.story.step import LISTED_S, Incident, Step

INCIDENTS_MAX = 4
"""Hosts with an open incident at a time."""
OUTAGE_CHANCE = 0.12
NODE_SET_CHANCE = 0.15
POD_CHANCE = 0.5
"""The next steps concern the NodeSet below the first number, Pods below the second, else hosts."""
WAITING_MAX = 6
JOB_S = (8.0, 40.0)
MAINTENANCE = ("disk replacement", "kernel update", "switch upgrade", "firmware", "cable check")
FAULTS = ("fan broken", "GPU 3 throws errors", "ECC errors", "link flaps", "too hot")


def endless_steps(random: Random) -> Iterator[Step]:
    yield outages.begin()
    of_pods, of_hosts, of_node_sets = _of_pods(random), _of_hosts(random), _of_node_sets()
    while True:
        chance = random.random()
        if chance < NODE_SET_CHANCE:
            yield from next(of_node_sets)
        else:
            yield from next(of_pods if chance < POD_CHANCE else of_hosts)


def _of_node_sets() -> Iterator[Sequence[Step]]:
    for before, after in itertools.cycle([(OLD, NEW), (NEW, OLD)]):
        yield [node_set_steps.grow(before)]
        yield [node_set_steps.run_job(), node_set_steps.update(before, after)]
        yield [node_set_steps.end_job(after)]
        yield [node_set_steps.go_to_zero(after)]


def _of_pods(random: Random) -> Iterator[Sequence[Step]]:
    for incident in pod_incidents(random):
        yield incident.begin
        yield incident.resolve


def _of_hosts(random: Random) -> Iterator[Sequence[Step]]:
    """Yield steps such that a host has one incident at a time."""
    open_incidents: dict[str, Incident] = {}
    kinds = _kinds(random)
    while True:
        free = [host for host in PLAIN_HOSTS if host not in open_incidents]
        if len(free) > 1 and random.random() < OUTAGE_CHANCE:
            yield _outage(*random.sample(free, 2), random=random)
        elif len(open_incidents) < random.randint(1, INCIDENTS_MAX):
            host = random.choice(free)
            open_incidents[host] = incident = next(kinds)(host, random)
            yield incident.begin
        else:
            yield open_incidents.pop(random.choice(list(open_incidents))).resolve


def _kinds(random: Random) -> Iterator[Callable[[str, Random], Incident]]:
    """Yield each kind once a round, in a random order."""
    while True:
        yield from random.sample(HOST_INCIDENTS, len(HOST_INCIDENTS))


def _outage(first: str, second: str, *, random: Random) -> Sequence[Step]:
    why = random.choice(MAINTENANCE)
    if random.random() < 0.5:
        outage = [outages.stop_slurmctld(first, why), outages.start_slurmctld(first, why)]
        return [*outage, host_steps.uncordon(first)]
    changes = {"cordoned": first, "why": why, "uncordoned": second}
    killed = [outages.kill_service(**changes), outages.start_service(**changes)]
    return [host_steps.cordon(second, why), *killed, host_steps.uncordon(first)]


def _cordoned(host: str, random: Random) -> Incident:
    return Incident(
        [host_steps.cordon(host, random.choice(MAINTENANCE))], [host_steps.uncordon(host)]
    )


def _drained(host: str, random: Random) -> Incident:
    return Incident(
        [host_steps.drain_by_hand(host, random.choice(FAULTS))], [host_steps.resume(host)]
    )


def _taken_over(host: str, random: Random) -> Incident:
    why = random.choice(FAULTS)
    return Incident(
        [host_steps.cordon(host, random.choice(MAINTENANCE)), host_steps.take_over(host, why)],
        [host_steps.uncordon_after_take_over(host, why), host_steps.resume(host)],
    )


def _marked_for_deletion(host: str, random: Random) -> Incident:
    del random
    return Incident(
        [_submit(host), host_steps.mark_for_deletion(host, "scale down")],
        [host_steps.end_jobs(host), host_steps.delete_pod(host), host_steps.create_pod(host)],
    )


def _submit(host: str) -> Step:
    def act(on: Context) -> None:
        on.worlds.cancel_jobs(host)
        on.worlds.run_job(host, user=USERS[0])

    return Step(
        text=f"A user submits a job for {host}",
        act=act,
        expected=f"a job runs on {host}",
        holds=lambda on: on.worlds.slurm_node(host).running > 0,
        within_s=LISTED_S,
    )


def _deleted(host: str, random: Random) -> Incident:
    del random
    return Incident([host_steps.delete_node(host)], [host_steps.create_node(host)])


def _not_ready(host: str, random: Random) -> Incident:
    del random
    return Incident([host_steps.become_not_ready(host)], [host_steps.become_ready(host)])


HOST_INCIDENTS: Sequence[Callable[[str, Random], Incident]] = (
    _cordoned, _drained, _taken_over, _marked_for_deletion, _deleted, _not_ready,
)  # fmt: skip


def submit_job(context: Context, random: Random) -> None:
    """Submit a job of random size and place, unless many jobs wait."""
    waiting = sum(job.state == "PENDING" for job in context.worlds.slurm.jobs.values())
    if waiting >= WAITING_MAX:
        return
    duration_s = random.uniform(*JOB_S)
    cpus = random.choice((2, 4, CPUS))
    host, user = random.choice(PLAIN_HOSTS), random.choice(USERS)
    context.worlds.run_job(host, user=user, cpus=cpus, duration_s=duration_s)
