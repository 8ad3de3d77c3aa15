"""The story that goes on for ever: troubles come and are cured, in an order drawn from a seed."""

from collections.abc import Callable, Iterator, Sequence
from random import Random

from sunk_sync.demo.stage.worlds import CPUS, PLAIN_HOSTS
from sunk_sync.demo.story import beats, outages
from sunk_sync.demo.story.beats import Beat, Trouble
from sunk_sync.demo.story.stage import Stage
from sunk_sync.demo.story.tales import USERS, tales

TROUBLES_MAX = 4
"""Hosts in trouble at a time."""
OUTAGE_CHANCE = 0.12
TALE_CHANCE = 0.4
"""Of Pods: one tale at a time, among the troubles of hosts."""
WAITING_MAX = 6
JOB_S = (8.0, 40.0)
WORK = ("disk replacement", "kernel update", "switch upgrade", "firmware", "cable check")
FAULTS = ("fan broken", "GPU 3 throws errors", "ECC errors", "link flaps", "too hot")


def told(random: Random) -> Iterator[Beat]:
    """Beats without end: now of Pods, now of hosts."""
    yield outages.begin()
    of_pods, of_hosts = _of_pods(random), _of_hosts(random)
    while True:
        yield from next(of_pods if random.random() < TALE_CHANCE else of_hosts)


def _of_pods(random: Random) -> Iterator[Sequence[Beat]]:
    """Something happens between the beginning of a tale and its end."""
    for tale in tales(random):
        yield tale.begin
        yield tale.cure


def _of_hosts(random: Random) -> Iterator[Sequence[Beat]]:
    """A host is in one trouble at a time."""
    open_troubles: dict[str, Trouble] = {}
    kinds = _kinds(random)
    while True:
        free = [host for host in PLAIN_HOSTS if host not in open_troubles]
        if len(free) > 1 and random.random() < OUTAGE_CHANCE:
            yield _outage(*random.sample(free, 2), random=random)
        elif len(open_troubles) < random.randint(1, TROUBLES_MAX):
            host = random.choice(free)
            open_troubles[host] = trouble = next(kinds)(host, random)
            yield trouble.begin
        else:
            yield open_troubles.pop(random.choice(list(open_troubles))).cure


def _kinds(random: Random) -> Iterator[Callable[[str, Random], Trouble]]:
    """Each once, in another order every round: nobody waits long for any of them."""
    while True:
        yield from random.sample(TROUBLES, len(TROUBLES))


def _outage(first: str, second: str, *, random: Random) -> Sequence[Beat]:
    why = random.choice(WORK)
    if random.random() < 0.5:
        away = [outages.stop_slurmctld(first, why), outages.start_slurmctld(first, why)]
        return [*away, beats.uncordon(first)]
    blind = {"cordoned": first, "why": why, "uncordoned": second}
    killed = [outages.kill_service(**blind), outages.start_service(**blind)]
    return [beats.cordon(second, why), *killed, beats.uncordon(first)]


def _cordoned(host: str, random: Random) -> Trouble:
    return Trouble([beats.cordon(host, random.choice(WORK))], [beats.uncordon(host)])


def _drained(host: str, random: Random) -> Trouble:
    return Trouble([beats.drain_by_hand(host, random.choice(FAULTS))], [beats.resume(host)])


def _taken_over(host: str, random: Random) -> Trouble:
    why = random.choice(FAULTS)
    return Trouble(
        [beats.cordon(host, random.choice(WORK)), beats.take_over(host, why)],
        [beats.uncordon_in_vain(host, why), beats.resume(host)],
    )


def _retired(host: str, random: Random) -> Trouble:
    del random
    return Trouble(
        [_workload(host), beats.retire(host, "scale down")],
        [beats.end_jobs(host), beats.delete_pod(host), beats.renew_pod(host)],
    )


def _workload(host: str) -> Beat:
    def act(on: Stage) -> None:
        on.worlds.cancel_jobs(host)
        on.worlds.run_job(host, user=USERS[0])

    return Beat(
        said=f"A user submits a job that wants {host}",
        act=act,
        promise=f"a job runs on {host}",
        kept=lambda on: on.worlds.slurm_node(host).running > 0,
        within_s=beats.LISTED_S,
    )


def _lost(host: str, random: Random) -> Trouble:
    del random
    return Trouble([beats.lose_node(host)], [beats.find_node(host)])


def _ill(host: str, random: Random) -> Trouble:
    del random
    return Trouble([beats.fall_ill(host)], [beats.recover(host)])


TROUBLES: Sequence[Callable[[str, Random], Trouble]] = (
    _cordoned, _drained, _taken_over, _retired, _lost, _ill,
)  # fmt: skip


def submit_job(stage: Stage, random: Random) -> None:
    """Users bring what they always bring: a job here or there, while not many wait."""
    waiting = sum(job.state == "PENDING" for job in stage.worlds.slurm.jobs.values())
    if waiting >= WAITING_MAX:
        return
    duration_s = random.uniform(*JOB_S)
    cpus = random.choice((2, 4, CPUS))
    host, user = random.choice(PLAIN_HOSTS), random.choice(USERS)
    stage.worlds.run_job(host, user=user, cpus=cpus, duration_s=duration_s)
