"""Hosts of a gang whose members have volumes in different places: who goes where (G1, P8)."""

from collections.abc import Collection, Mapping, Sequence, Set

from msgspec.structs import replace

from sunk_sync.core.model.facts import Pod
from sunk_sync.core.model.job_identity import hosts_digest
from sunk_sync.core.views.parts import Reach

NOT_TOGETHER = "the hosts of the job together do not reach the volumes of all its Pods"
ONE_EACH = "each Pod of a gang has a node of its own"
APART = (
    "volumes of its Pods are in different places with several hosts each, and Slurm cannot be "
    "asked for some hosts of each place"
)

HostsOfMembers = Sequence[tuple[Pod, Set[str]]]
"""Each member of a gang, and the hosts that can take it and reach its volumes."""


def reach_of_members(reach: Reach, members: HostsOfMembers) -> Reach:
    """Return the hosts that Slurm must give to a gang, and those that it may give.

    `reach`: the hosts that suit all members but for these volumes. Slurm takes a list of nodes that
    a job must get, and one of nodes that it must not get. So the host of a member that has only one
    is required. The others must all do with the same hosts: nobody knows which of them Slurm takes.
    """
    required = {name: pod for pod, hosts in members for name in _only(hosts)}
    loose = {frozenset(hosts) for _, hosts in members if len(hosts) != 1}
    rest = frozenset.intersection(*loose) if loose else frozenset()
    fit = tuple(sorted(rest | required.keys()))
    excluded = tuple(sorted({*reach.excluded, *reach.fit}.difference(fit)))
    return replace(
        reach,
        excluded=excluded,
        unfit=_why_none(members, required) or (APART if len(fit) < len(members) else ""),
        fit=fit,
        hosts=hosts_digest(excluded, required=sorted(required)),
        required=tuple(sorted(required)),
    )


def _only(hosts: Set[str]) -> Sequence[str]:
    return tuple(hosts) if len(hosts) == 1 else ()


def _why_none(members: HostsOfMembers, required: Mapping[str, Pod]) -> str:
    """Return which Pods cannot have a host each, or empty."""
    for pod, hosts in members:
        if not hosts:
            return f"no host reaches the volumes of Pod {pod.name} and can take it"
        for name in _only(hosts):
            if required[name] is not pod:
                both = f"{pod.name} and {required[name].name}"
                return f"only {name} reaches the volumes of Pods {both}, and {ONE_EACH}"
    return ""


def assign(hosts: Sequence[Collection[str]]) -> list[str] | None:
    """Return a host for each member, no host twice; None: there are not enough.

    `hosts`: those of each member; many members may share a set. Members with few hosts choose
    first, so the choice of the others stays the same after some of them are bound.
    """
    sets = {id(one): one for one in hosts}
    in_order = {key: sorted(one) for key, one in sets.items()}
    return _Assignment([in_order[id(one)] for one in hosts]).complete()


class _Assignment:
    """A matching of members and hosts, which grows by one member at a time."""

    def __init__(self, hosts: Sequence[Sequence[str]]) -> None:
        self._hosts = hosts
        self._holders: dict[str, int] = {}
        self._chosen: dict[int, str] = {}
        self._read: dict[int, int] = {}
        """Identity of a list of hosts → how many of its first hosts are held."""

    def complete(self) -> list[str] | None:
        members = range(len(self._hosts))
        for member in sorted(members, key=lambda member: len(self._hosts[member])):
            if not self._find_host(member):
                return None
        return [self._chosen[member] for member in members]

    def _find_host(self, first: int) -> bool:
        """Find a host for one more member; others may have to move, along the shortest path."""
        free = self._first_free(self._hosts[first])
        if free is not None:
            self._holders[free], self._chosen[first] = first, free
            return True
        asked_by: dict[str, int] = {}
        queue = [first]
        for member in queue:
            for host in self._hosts[member]:
                if host in asked_by:
                    continue
                asked_by[host] = member
                if host not in self._holders:
                    self._move_along(host, asked_by)
                    return True
                queue.append(self._holders[host])
        return False

    def _first_free(self, hosts: Sequence[str]) -> str | None:
        """A host that somebody holds stays held, so a list that many share is read once."""
        place = self._read.get(id(hosts), 0)
        while place < len(hosts) and hosts[place] in self._holders:
            place += 1
        self._read[id(hosts)] = place
        return hosts[place] if place < len(hosts) else None

    def _move_along(self, host: str, asked_by: Mapping[str, int]) -> None:
        """Give the free host to the member that asked for it, the host of that one to another."""
        free: str | None = host
        while free is not None:
            member = asked_by[free]
            left = self._chosen.get(member)
            self._holders[free], self._chosen[member] = member, free
            free = left
