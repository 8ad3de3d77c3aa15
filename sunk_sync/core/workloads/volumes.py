"""Claims, volumes and classes: where each claim can be had, and whom a change concerns."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, Final

from sunk_sync.core.model.facts import VOLUME_SOURCES, Job, Pod, Source
from sunk_sync.core.model.keys import uids_of
from sunk_sync.core.model.pod_spec import Requirement
from sunk_sync.core.model.volumes import (
    ONE_NODE,
    CsiDriver,
    CsiNode,
    ProvisionerSaid,
    StorageCapacity,
    StorageClass,
    Volume,
    VolumeClaim,
)
from sunk_sync.core.tables.claims import Claims, pod_key
from sunk_sync.core.tables.table import Table
from sunk_sync.core.translate.fences import Fence, Fences, TermsFence, fences_within
from sunk_sync.core.translate.job_states import is_live
from sunk_sync.core.translate.volume_fit import (
    IN_USE,
    NO_ROOM,
    NONE_FREE,
    OUT_OF_REACH,
    SELECTED,
    can_take,
    claim_path,
    is_reserved_for,
    places_for,
)
from sunk_sync.core.views.parts import Selection
from sunk_sync.core.workloads.index import Index, WorkloadIndex, discard
from sunk_sync.core.workloads.storage_room import StorageRoom, has_room
from sunk_sync.core.workloads.volume_limits import VolumeLimits

UNREAD: Final = "its claims, volumes and classes of storage are not read yet"
SELECTIONS_MAX: Final = 100
"""Stale selections that the cluster's view names at a time."""

WISHES_KEPT: Final = 1024
NOTHING_SAID: Final = ProvisionerSaid("", "", 0.0)

Wish = tuple[str, bool, int, tuple[str, ...], tuple[Requirement, ...]]
"""What decides which free volumes a claim can take."""


class VolumeIndex:
    def __init__(
        self,
        *,
        tables: Mapping[Source, Table[Any]],
        index: WorkloadIndex,
        hosts: Claims,
        scheduler: str,
    ) -> None:
        self._room = StorageRoom(tables)
        self._limits = VolumeLimits(tables=tables, index=index, hosts=hosts)
        self.tables: Sequence[Table[Any]] = [tables[source] for source in VOLUME_SOURCES]
        self.claims: Table[VolumeClaim] = tables["volume_claims"]
        self.volumes: Table[Volume] = tables["volumes"]
        self.classes: Table[StorageClass] = tables["storage_classes"]
        self._jobs: Table[Job] = tables["jobs"]
        self._index = index
        self._owner = f"{scheduler}/"
        self.users: defaultdict[str, dict[str, Pod]] = defaultdict(dict)
        """Claim → UID → Pod that names it."""
        self._open: Index = defaultdict(set)
        """Class → claims without a volume."""
        self._free: defaultdict[str, dict[str, Volume]] = defaultdict(dict)
        """Class → name → volume that no claim owns."""
        self._named: Index = defaultdict(set)
        """Volume → claims that name it."""
        self._reserved: dict[str, str] = {}
        """Claim → volume that names it."""
        self._selected: dict[str, str] = {}
        """Claim → mark of the job on whose host sunk-sync selected its Node."""
        self.said: dict[str, ProvisionerSaid] = {}
        """UID of a claim → what its provisioner said; kept while the claim has no volume."""
        self._fences: dict[Wish, Fences] = {}
        """Where a volume can be had for such a claim; cleared when volumes or classes change."""

    @property
    def active(self) -> bool:
        """Whether some Pod has a claim."""
        return bool(self.users)

    def is_user(self, pods: Sequence[Pod]) -> bool:
        """Whether one of these Pods has a claim."""
        return self.active and any(pod.volume_claims for pod in pods)

    def mark_of(self, job_id: str) -> str:
        """Return what sunk-sync notes on a claim: several schedulers may share the cluster."""
        return self._owner + job_id

    # Whom a change concerns: keys of workloads

    def pod_changed(self, before: Pod | None, after: Pod | None) -> set[str]:
        """Return the workloads with claims of this Pod, and those that may have room for theirs."""
        paths: set[str] = set()
        for pod in (before, after):
            if pod is not None:
                paths.update(paths_of(pod))
        if not paths:
            return set()
        nodes = self._limits.pod_changed(before, after)
        for path in paths:
            if before is not None:
                self.users[path].pop(before.uid, None)
            if after is not None and path in paths_of(after):
                self.users[path][after.uid] = after
        keys = self._users_of(paths)
        for path in paths:
            if not self.users[path]:
                del self.users[path]
        return keys | self._short_of_room(nodes)

    def claim_changed(self, before: VolumeClaim | None, after: VolumeClaim | None) -> set[str]:
        if before is not None:
            path = claim_path(before)
            discard(self._open, before.storage_class, one=path)
            discard(self._named, before.volume, one=path)
            self._selected.pop(path, None)
            if after is None or after.bound:
                self.said.pop(before.uid, None)
        if after is not None:
            path = claim_path(after)
            if not after.volume:
                self._open[after.storage_class].add(path)
            else:
                self._named[after.volume].add(path)
            if after.selected_for.startswith(self._owner):
                self._selected[path] = after.selected_for
        return self._attached_otherwise(
            {claim_path(one) for one in (before, after) if one is not None}
        )

    def provisioner_said(self, said: ProvisionerSaid) -> set[str]:
        paths = [path for path in self._selected if self._uid_of(path) == said.uid]
        if paths:
            self.said[said.uid] = said
        return self._users_of(paths)

    def _uid_of(self, path: str) -> str:
        claim = self.claims.get(path)
        return claim.uid if claim is not None else ""

    def volume_changed(self, before: Volume | None, after: Volume | None) -> set[str]:
        paths: set[str] = set()
        for volume in (before, after):
            if volume is None:
                continue
            paths.update(self._named.get(volume.name, ()))
            paths.add(volume.claim)
            if not volume.claim:
                paths.update(self._open.get(volume.storage_class, ()))
        if before is not None:
            self._free[before.storage_class].pop(before.name, None)
            if self._reserved.get(before.claim) == before.name:
                del self._reserved[before.claim]
        if after is not None and after.claim:
            self._reserved[after.claim] = after.name
        elif after is not None:
            self._free[after.storage_class][after.name] = after
        self._fences.clear()
        return self._attached_otherwise(paths)

    def class_changed(self, before: StorageClass | None, after: StorageClass | None) -> set[str]:
        self._fences.clear()
        names = [one.name for one in (before, after) if one is not None]
        open_claims = {path for name in names for path in self._open.get(name, ())}
        return self._attached_otherwise(open_claims)

    def csi_node_changed(self, before: CsiNode | None, after: CsiNode | None) -> set[str]:
        if not self._limits.csi_node_changed(before, after) or self.unread():
            return set()
        return self._without_node()

    def driver_changed(self, before: CsiDriver | None, after: CsiDriver | None) -> set[str]:
        told = [one is not None and one.tells_room for one in (before, after)]
        if told[0] == told[1]:
            return set()
        self._fences.clear()
        if self.unread():
            return set()
        names = {one.name for one in (before, after) if one is not None}
        classes = [one.name for one in self.classes.rows() if one.provisioner in names]
        return self._users_of({path for one in classes for path in self._open.get(one, ())})

    def capacity_changed(
        self, before: StorageCapacity | None, after: StorageCapacity | None
    ) -> set[str]:
        """Return the workloads with a claim that has room there now, or has none any more."""
        self._room.capacity_changed(before, after)
        self._fences.clear()
        if self.unread():
            return set()
        rows = [one for one in (before, after) if one is not None]
        paths = {path for one in rows for path in self._open.get(one.storage_class, ())}
        moved = len({(one.storage_class, one.nodes) for one in rows}) > 1
        claims = [(path, claim) for path in paths if (claim := self.claims.get(path)) is not None]
        return self._users_of(
            [
                path
                for path, claim in claims
                if moved or has_room(before, claim) != has_room(after, claim)
            ]
        )

    def _attached_otherwise(self, paths: Iterable[str]) -> set[str]:
        """Return the users of these claims, and those who may have room where one of them is."""
        paths = set(paths)
        users = [pod for path in paths for pod in self.users.get(path, {}).values()]
        nodes = {name for pod in users for name in self._limits.nodes_of_pod(pod)}
        self._limits.forget(nodes)
        return self._users_of(paths) | self._short_of_room(nodes)

    def _short_of_room(self, nodes: Iterable[str]) -> set[str]:
        return self._without_node() if self._limits.are_short(nodes) else set()

    def _without_node(self) -> set[str]:
        """Return the workloads with claims of which a Pod has no Node yet."""
        pods = [pod for users in self.users.values() for pod in users.values()]
        key_of = self._index.key_of_uid
        return {key_of[pod.uid] for pod in pods if not pod.node_name and pod.uid in key_of}

    @property
    def any_selected(self) -> bool:
        """Whether some claim names the job for which its Node was selected."""
        return bool(self._selected)

    def _users_of(self, paths: Iterable[str]) -> set[str]:
        key_of = self._index.key_of_uid
        uids = [uid for path in paths for uid in self.users.get(path, ())]
        return {key_of[uid] for uid in uids if uid in key_of}

    # What Pods need

    def fences(self, pod: Pod) -> Fences:
        """Return where volumes let this Pod go; nothing if a problem must be solved first."""
        if not pod.volume_claims or self.unread():
            return ()
        found = [
            fence
            for path in paths_of(pod)
            if (claim := self.claims.get(path)) is not None
            for fence in self._fences_of(claim, pod)
        ]
        return (*found, *self._fences_of_all(pod), *self._limits.fences(pod))

    def _fences_of_all(self, pod: Pod) -> Iterator[Fence]:
        """A Node with a free volume for each claim alone may have too few for all together."""
        open_claims: defaultdict[str, list[VolumeClaim]] = defaultdict(list)
        for path in paths_of(pod) if len(pod.volume_claims) > 1 else ():
            claim = self.claims.get(path)
            if claim is not None and self._is_open(claim):
                open_claims[claim.storage_class].append(claim)
        for name, claims in open_claims.items():
            free = self._free.get(name, {}).values()
            places = places_for(claims, free) if len(claims) > 1 else None
            if places is not None:
                yield Fence(*places, inside=True, reason=NONE_FREE)

    def _is_open(self, claim: VolumeClaim) -> bool:
        """Whether only a free volume can serve the claim."""
        storage_class = self.classes.get(claim.storage_class)
        made = storage_class is not None and storage_class.provisions
        chosen = claim.volume or claim.selected_node or claim.selected_for
        return not (made or chosen) and self.volume_of(claim) is None

    def _fences_of(self, claim: VolumeClaim, pod: Pod) -> Iterator[Fence | TermsFence]:
        in_use = self.nodes_in_use(claim, pod)
        if in_use and claim.modes == (ONE_NODE,):
            yield Fence("", in_use, inside=True, reason=IN_USE)
        volume = self.volume_of(claim)
        if volume is not None:
            if volume.terms is not None:
                yield from fences_within(volume.terms, reason=OUT_OF_REACH)
        elif claim.selected_node and not claim.selected_for:
            yield Fence("", frozenset((claim.selected_node,)), inside=True, reason=SELECTED)
        elif not (claim.volume or claim.selected_for):
            yield from self.where_to_have(claim)

    def selected(self, pod: Pod, job_id: str, *, nodes: Set[str]) -> Iterator[Fence]:
        """Yield the Node, one of the job's, that was selected for a claim without a volume.

        Its provisioner may have begun there. So the members of a gang keep their hosts while their
        volumes are made, although a volume could be had elsewhere now.
        """
        for claim in filter(None, map(self.claims.get, paths_of(pod))):
            ours = claim.selected_for == self.mark_of(job_id) and not claim.volume
            if ours and claim.selected_node in nodes:
                yield Fence("", frozenset((claim.selected_node,)), inside=True, reason=SELECTED)

    def nodes_in_use(self, claim: VolumeClaim, pod: Pod) -> frozenset[str]:
        users = self.users.get(claim_path(claim), {}).values()
        others = [one for one in users if one.uid != pod.uid and not one.ended]
        return frozenset(one.node_name for one in others if one.node_name)

    def volume_of(self, claim: VolumeClaim) -> Volume | None:
        """Return the volume of the claim, or the one that is reserved for it."""
        if claim.volume:
            return self.volumes.get(claim.volume)
        volume = self.volumes.get(self._reserved.get(claim_path(claim), ""))
        return volume if volume is not None and is_reserved_for(volume, claim) else None

    def where_to_have(self, claim: VolumeClaim) -> Fences:
        wish = (claim.storage_class, claim.block, claim.size, claim.modes, claim.selector)
        known = self._fences.get(wish)
        if known is None:
            if len(self._fences) >= WISHES_KEPT:
                self._fences.clear()
            known = self._fences[wish] = self._new_fences(claim)
        return known

    def _new_fences(self, claim: VolumeClaim) -> Fences:
        terms = [volume.terms for volume in self.candidates(claim)]
        reason = NONE_FREE
        storage_class = self.classes.get(claim.storage_class)
        if storage_class is not None and storage_class.provisions:
            reason = NONE_FREE if terms or not self._room.is_told(storage_class) else NO_ROOM
            terms.append(self._room.places(claim, storage_class))
        if None in terms:
            return ()
        places = tuple(dict.fromkeys(one for several in terms for one in several or ()))
        if not places:
            return (Fence("", frozenset(), inside=True, reason=reason),)
        return fences_within(places, reason=reason)

    def candidates(self, claim: VolumeClaim) -> list[Volume]:
        free = self._free.get(claim.storage_class, {}).values()
        return [volume for volume in free if can_take(claim, volume)]

    def jobs_changed(self, jobs: Sequence[Job]) -> set[str]:
        """Return the workloads that share a claim with Pods of these jobs, or the room for it."""
        if not self.active:
            return set()
        uids = [uid for job in jobs for uid in uids_of(job.identity)]
        paths = {path for pod in map(self._index.pod_of, uids) if pod for path in paths_of(pod)}
        if not paths:
            return set()
        return self._users_of(paths) | self._short_of_room(self._limits.nodes_of(jobs))

    def unread(self) -> str:
        return "" if all(table.listed for table in self.tables) else UNREAD

    # Selections that nobody needs any more

    def stale_selections(self) -> tuple[Selection, ...]:
        """Return claims whose Node was selected for a job that has ended."""
        if not (self._selected and self._jobs.live):
            return ()
        stale = [path for path, mark in sorted(self._selected.items()) if self._is_over(path, mark)]
        entries = [self.claims.entries[path] for path in stale[:SELECTIONS_MAX]]
        return tuple(Selection(entry.row, entry.row.selected_for) for entry in entries)

    def _is_over(self, path: str, mark: str) -> bool:
        """Whether the job has ended, or its Pods that use the claim are bound already."""
        job = self._jobs.get(mark.removeprefix(self._owner))
        if job is None or not is_live(job):
            return self._jobs.listed_s > self.claims.entries[path].changed_s or job is not None
        return self.claims.entries[path].row.bound or self._is_of_others(path, job)

    def _is_of_others(self, path: str, job: Job) -> bool:
        """Whether no Pod of this job uses the claim: Slurm gave its id away again (P23)."""
        pods = [self._index.pod_of(uid) for uid in uids_of(job.identity)]
        return all(pod is not None and path not in paths_of(pod) for pod in pods)


def paths_of(pod: Pod) -> tuple[str, ...]:
    return tuple([pod_key(pod.namespace, name) for name in pod.volume_claims])
