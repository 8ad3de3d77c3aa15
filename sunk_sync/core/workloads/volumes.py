"""Volumes of Pods: what each claim needs, where it can be had, and whom a change concerns."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from sunk_sync.core.model.facts import Job, Node, Pod, Source
from sunk_sync.core.model.keys import uids_of
from sunk_sync.core.model.pod_spec import Requirement
from sunk_sync.core.model.volumes import (
    ONE_NODE,
    ONE_POD,
    ProvisionerSaid,
    StorageClass,
    Volume,
    VolumeClaim,
)
from sunk_sync.core.tables.claims import pod_key
from sunk_sync.core.tables.entries import Entry
from sunk_sync.core.tables.table import Table
from sunk_sync.core.translate.fences import Fence, Fences, TermsFence, fences_within
from sunk_sync.core.translate.job_states import is_live, is_running, number_of
from sunk_sync.core.translate.volume_fit import (
    IN_USE,
    NONE_FREE,
    OUT_OF_REACH,
    SELECTED,
    can_take,
    choose,
    claim_path,
    is_reserved_for,
)
from sunk_sync.core.views.parts import Selection
from sunk_sync.core.views.workload import NO_VOLUMES, VolumeNeeds, WantedVolume
from sunk_sync.core.workloads.index import Index, WorkloadIndex, discard

UNREAD: Final = "its claims, volumes and classes of storage are not read yet"
SELECTIONS_MAX: Final = 100
"""Stale selections that the cluster's view names at a time."""

WISHES_KEPT: Final = 1024
NOWHERE: Final = Fence("", frozenset(), inside=True, reason=NONE_FREE)
NOTHING_SAID: Final = ProvisionerSaid("", "", 0.0)

Wish = tuple[str, bool, int, tuple[str, ...], tuple[Requirement, ...]]
"""What decides which free volumes a claim can take."""


class VolumeIndex:
    def __init__(
        self,
        *,
        tables: Mapping[Source, Table[Any]],
        index: WorkloadIndex,
        scheduler: str,
    ) -> None:
        self._claims: Table[VolumeClaim] = tables["volume_claims"]
        self._volumes: Table[Volume] = tables["volumes"]
        self._classes: Table[StorageClass] = tables["storage_classes"]
        self._jobs: Table[Job] = tables["jobs"]
        self._index = index
        self._owner = f"{scheduler}/"
        self._users: defaultdict[str, dict[str, Pod]] = defaultdict(dict)
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
        return bool(self._users)

    def is_user(self, pods: Sequence[Pod]) -> bool:
        """Whether one of these Pods has a claim."""
        return self.active and any(pod.volume_claims for pod in pods)

    def mark_of(self, job_id: str) -> str:
        """Return what sunk-sync notes on a claim: several schedulers may share the cluster."""
        return self._owner + job_id

    # Whom a change concerns: keys of workloads

    def pod_changed(self, before: Pod | None, after: Pod | None) -> set[str]:
        """Return the other workloads with claims of this Pod."""
        paths: set[str] = set()
        for pod in (before, after):
            if pod is not None:
                paths.update(_paths(pod))
        if not paths:
            return set()
        for path in paths:
            if before is not None:
                self._users[path].pop(before.uid, None)
            if after is not None and path in _paths(after):
                self._users[path][after.uid] = after
        keys = self._users_of(paths)
        for path in paths:
            if not self._users[path]:
                del self._users[path]
        return keys

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
        return self._users_of(claim_path(one) for one in (before, after) if one is not None)

    def provisioner_said(self, said: ProvisionerSaid) -> set[str]:
        paths = [path for path in self._selected if self._uid_of(path) == said.uid]
        if paths:
            self.said[said.uid] = said
        return self._users_of(paths)

    def _uid_of(self, path: str) -> str:
        claim = self._claims.get(path)
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
        return self._users_of(paths)

    def class_changed(self, before: StorageClass | None, after: StorageClass | None) -> set[str]:
        self._fences.clear()
        names = [one.name for one in (before, after) if one is not None]
        return self._users_of(path for name in names for path in self._open.get(name, ()))

    @property
    def any_selected(self) -> bool:
        """Whether some claim names the job for which its Node was selected."""
        return bool(self._selected)

    def _users_of(self, paths: Iterable[str]) -> set[str]:
        key_of = self._index.key_of_uid
        uids = [uid for path in paths for uid in self._users.get(path, ())]
        return {key_of[uid] for uid in uids if uid in key_of}

    # What Pods need

    def fences(self, pods: Sequence[Pod]) -> Fences:
        """Return where volumes let these Pods go; nothing if a problem must be solved first."""
        if self._unread():
            return ()
        return tuple(
            fence
            for pod in pods
            for path in _paths(pod)
            if (claim := self._claims.get(path)) is not None
            for fence in self._fences_of(claim, pod)
        )

    def _fences_of(self, claim: VolumeClaim, pod: Pod) -> Iterator[Fence | TermsFence]:
        in_use = self._nodes_in_use(claim, pod)
        if in_use and claim.modes == (ONE_NODE,):
            yield Fence("", in_use, inside=True, reason=IN_USE)
        volume = self._volume_of(claim)
        if volume is not None:
            if volume.terms is not None:
                yield from fences_within(volume.terms, reason=OUT_OF_REACH)
        elif claim.selected_node and not claim.selected_for:
            yield Fence("", frozenset((claim.selected_node,)), inside=True, reason=SELECTED)
        elif not (claim.volume or claim.selected_for):
            yield from self._where_to_have(claim)

    def _nodes_in_use(self, claim: VolumeClaim, pod: Pod) -> frozenset[str]:
        users = self._users.get(claim_path(claim), {}).values()
        others = [one for one in users if one.uid != pod.uid and not one.ended]
        return frozenset(one.node_name for one in others if one.node_name)

    def _volume_of(self, claim: VolumeClaim) -> Volume | None:
        """Return the volume of the claim, or the one that is reserved for it."""
        if claim.volume:
            return self._volumes.get(claim.volume)
        volume = self._volumes.get(self._reserved.get(claim_path(claim), ""))
        return volume if volume is not None and is_reserved_for(volume, claim) else None

    def _where_to_have(self, claim: VolumeClaim) -> Fences:
        wish = (claim.storage_class, claim.block, claim.size, claim.modes, claim.selector)
        known = self._fences.get(wish)
        if known is None:
            if len(self._fences) >= WISHES_KEPT:
                self._fences.clear()
            known = self._fences[wish] = self._new_fences(claim)
        return known

    def _new_fences(self, claim: VolumeClaim) -> Fences:
        terms = [volume.terms for volume in self._candidates(claim)]
        storage_class = self._classes.get(claim.storage_class)
        if storage_class is not None and storage_class.provisions:
            terms.append(storage_class.terms)
        if None in terms:
            return ()
        places = tuple(dict.fromkeys(one for several in terms for one in several or ()))
        if not places:
            return (NOWHERE,)
        return fences_within(places, reason=NONE_FREE)

    def _candidates(self, claim: VolumeClaim) -> list[Volume]:
        free = self._free.get(claim.storage_class, {}).values()
        return [volume for volume in free if can_take(claim, volume)]

    def decide_place(self, pod: Pod) -> bool:
        """Whether the volumes of the Pod leave it no choice of hosts, or no host at all."""
        if not self.is_user((pod,)):
            return False
        if self._unread() or any(self._unusable(pod, name) for name in pod.volume_claims):
            return True
        claims = filter(None, map(self._claims.get, _paths(pod)))
        return any(self._is_fixed(claim) for claim in claims)

    def _is_fixed(self, claim: VolumeClaim) -> bool:
        volume = self._volume_of(claim)
        if volume is not None:
            return volume.terms is not None
        if claim.volume or claim.selected_node or claim.selected_for:
            return True
        return NOWHERE in self._where_to_have(claim)

    def needs(
        self, pods: Sequence[Pod], *, live: Entry[Job] | None, places: Sequence[Node]
    ) -> VolumeNeeds:
        """Return what the claims of these unbound Pods need.

        `places`: the Node of each, where the job runs.
        """
        unread = self._unread()
        if unread:
            return VolumeNeeds(waits=unread)
        mark = self.mark_of(live.row.job_id) if live is not None else ""
        named = [(pod, name) for pod in pods for name in pod.volume_claims]
        problem = next(filter(None, (self._problem(pod, name) for pod, name in named)), "")
        for_others = (self._made_for_another(pod, name, mark) for pod, name in named)
        waits = problem or next(filter(None, for_others), "")
        if live is None or not is_running(live.row):
            unseen = (self._unseen(pod, name) for pod, name in named)
            return VolumeNeeds(waits=waits or next(filter(None, unseen), ""))
        if waits:
            return VolumeNeeds(waits=waits, failed=problem)
        before = next(filter(None, (self._comes_first(pod, name, live) for pod, name in named)), "")
        if before:
            return VolumeNeeds(waits=before)
        return self._wanted(zip(pods, places, strict=False), live, mark=mark)

    def _comes_first(self, pod: Pod, name: str, live: Entry[Job]) -> str:
        """Of Pods that may use a claim on one Node only, that of the oldest running job is first.

        The others follow it to its Node once it is bound.
        """
        path = pod_key(pod.namespace, name)
        claim = self._claims.get(path)
        if claim is None or not (claim.modes == (ONE_NODE,) or ONE_POD in claim.modes):
            return ""
        if not claim.bound and claim.selected_for == self.mark_of(live.row.job_id):
            return ""  # the others wait for its volume
        for uid, other in self._users.get(path, {}).items():
            if uid == pod.uid or other.node_name or other.ended:
                continue
            jobs = [self._jobs.entries[one] for one in self._index.jobs_of_uid.get(uid, ())]
            if any(is_running(one.row) and _age(one) < _age(live) for one in jobs):
                return f'Pod {other.name}, which uses persistentvolumeclaim "{name}" too, is first'
        return ""

    def sharing(self, uids: Iterable[str]) -> set[str]:
        """Return the workloads that share a claim with these Pods."""
        pods = filter(None, map(self._index.pod_of, uids)) if self.active else ()
        return self._users_of({path for pod in pods for path in _paths(pod)})

    def _unread(self) -> str:
        tables: tuple[Table[Any], ...] = (self._claims, self._volumes, self._classes)
        return "" if all(table.listed for table in tables) else UNREAD

    def _problem(self, pod: Pod, name: str) -> str:
        """Return why the Pod can run nowhere because of this claim, in kube-scheduler's words."""
        claim = self._claims.get(pod_key(pod.namespace, name))
        named = f'persistentvolumeclaim "{name}"'
        if claim is None:
            return f"{named} not found"
        if claim.terminating:
            return f"{named} is being deleted"
        if ONE_POD in claim.modes and self._nodes_in_use(claim, pod):
            return f"another Pod uses {named}, and its mode is {ONE_POD}"
        if claim.volume or self._volume_of(claim) is not None:
            return ""
        storage_class = self._classes.get(claim.storage_class)
        if storage_class is None and claim.storage_class:
            return f'storageclass "{claim.storage_class}" of {named} not found'
        if storage_class is None or not storage_class.waits:
            return f"pod has unbound immediate PersistentVolumeClaims: {named}"
        return ""

    def _unseen(self, pod: Pod, name: str) -> str:
        """Return that the claim has a volume that is not there; it may only come later."""
        claim = self._claims.get(pod_key(pod.namespace, name))
        if claim is None or not claim.volume or claim.volume in self._volumes.entries:
            return ""
        return f'persistentvolume "{claim.volume}" of persistentvolumeclaim "{name}" not found'

    def _unusable(self, pod: Pod, name: str) -> str:
        return self._problem(pod, name) or self._unseen(pod, name)

    def _made_for_another(self, pod: Pod, name: str, mark: str) -> str:
        claim = self._claims.get(pod_key(pod.namespace, name))
        if claim is None or claim.bound or claim.selected_for in ("", mark):
            return ""
        job_id = claim.selected_for.rpartition("/")[2]
        return f'persistentvolumeclaim "{name}" gets its volume where Slurm job {job_id} runs'

    def _wanted(
        self, placed: Iterable[tuple[Pod, Node]], live: Entry[Job], *, mark: str
    ) -> VolumeNeeds:
        """Of a gang that shares a claim, the Node of the first Pod gets its volume."""
        wanted: dict[str, WantedVolume] = {}
        taken: set[str] = set()
        for pod, node in placed:
            for path in _paths(pod):
                claim = self._claims.get(path)
                if claim is None or path in wanted:
                    continue
                if claim.bound and claim.volume in self._volumes.entries:
                    continue
                one = self._choice(claim, node, mark=mark, taken=taken)
                if isinstance(one, str):
                    return VolumeNeeds(failed=one)
                wanted[path] = replace(one, since_s=max(one.since_s, live.changed_s))
                taken.update([one.volume.name] if one.volume is not None else ())
        return VolumeNeeds(wanted=tuple(wanted.values())) if wanted else NO_VOLUMES

    def _choice(
        self, claim: VolumeClaim, node: Node, *, mark: str, taken: set[str]
    ) -> WantedVolume | str:
        """Return the volume for a claim on this Node, or why there is none."""
        since_s = self._claims.entries[claim_path(claim)].changed_s
        volume = self._volume_of(claim)
        if volume is None and claim.volume:
            return WantedVolume(claim, node.name, None, since_s, mark)
        if volume is not None:
            since_s = max(since_s, self._volumes.entries[volume.name].changed_s)
            return WantedVolume(claim, node.name, volume, since_s, mark)
        said = self.said.get(claim.uid, NOTHING_SAID)
        if claim.selected_for == mark and not claim.selected_node:
            return self._given_up(claim, node, WantedVolume(
                claim, node.name, None, since_s, mark, said.words, said.asked_s, is_given_up=True
            ))  # fmt: skip
        if not claim.selected_node:
            volume = choose(self._candidates(claim), node, taken=taken)
            if volume is not None:
                return WantedVolume(claim, node.name, volume, math.inf, mark)
        storage_class = self._classes.get(claim.storage_class)
        if storage_class is None or not storage_class.provisions:
            return f'no free volume for claim "{claim.name}" on Node {node.name}'
        if claim.selected_node != node.name:
            since_s = math.inf
        return WantedVolume(claim, node.name, None, since_s, mark, said.words, said.asked_s)

    def _given_up(self, claim: VolumeClaim, node: Node, one: WantedVolume) -> WantedVolume | str:
        """The provisioner gave up: its words are read before the job goes."""
        if one.asked_s <= one.since_s:
            return one
        why = f'the provisioner of claim "{claim.name}" makes no volume on Node {node.name}'
        return f"{why}: {one.said}" if one.said else why

    # Selections that nobody needs any more

    def stale_selections(self) -> tuple[Selection, ...]:
        """Return claims whose Node was selected for a job that has ended."""
        if not (self._selected and self._jobs.live):
            return ()
        stale = [path for path, mark in sorted(self._selected.items()) if self._is_over(path, mark)]
        entries = [self._claims.entries[path] for path in stale[:SELECTIONS_MAX]]
        return tuple(Selection(entry.row, entry.row.selected_for) for entry in entries)

    def _is_over(self, path: str, mark: str) -> bool:
        """Whether the job has ended, or its Pods that use the claim are bound already."""
        job = self._jobs.get(mark.removeprefix(self._owner))
        if job is None or not is_live(job):
            return self._jobs.listed_s > self._claims.entries[path].changed_s or job is not None
        return self._claims.entries[path].row.bound or self._is_of_others(path, job)

    def _is_of_others(self, path: str, job: Job) -> bool:
        """Whether no Pod of this job uses the claim: Slurm gave its id away again (P23)."""
        pods = [self._index.pod_of(uid) for uid in uids_of(job.identity)]
        return all(pod is not None and path not in _paths(pod) for pod in pods)


def _age(entry: Entry[Job]) -> tuple[float, tuple[int, int]]:
    """Return since when the job is as it is: a binding for the older one may be on its way."""
    return entry.changed_s, number_of(entry.row)


def _paths(pod: Pod) -> tuple[str, ...]:
    return tuple([pod_key(pod.namespace, name) for name in pod.volume_claims])
