"""The choice of volumes: what the claims of Pods still need, and why they cannot have it."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from sunk_sync.core.model.facts import Job, Node, Pod
from sunk_sync.core.model.volumes import ONE_NODE, ONE_POD, VolumeClaim
from sunk_sync.core.tables.claims import pod_key
from sunk_sync.core.tables.entries import Entry
from sunk_sync.core.tables.table import Table
from sunk_sync.core.translate.counted import counted
from sunk_sync.core.translate.fences import Fences
from sunk_sync.core.translate.job_states import is_running
from sunk_sync.core.translate.volume_fit import choose, claim_path
from sunk_sync.core.views.workload import NO_VOLUMES, VolumeNeeds, WantedVolume
from sunk_sync.core.workloads.gang_hosts import ONE_EACH
from sunk_sync.core.workloads.index import WorkloadIndex
from sunk_sync.core.workloads.volume_limits import job_age
from sunk_sync.core.workloads.volumes import NOTHING_SAID, VolumeIndex, paths_of

UNREADABLE: Final = "its claims, volumes or classes of storage cannot be read now"


class VolumeChoice:
    def __init__(self, known: VolumeIndex, *, index: WorkloadIndex, jobs: Table[Job]) -> None:
        self._known = known
        self._claims, self._volumes, self._classes = known.claims, known.volumes, known.classes
        self._index, self._jobs = index, jobs

    def decide_place(self, pod: Pod) -> bool:
        """Whether a volume says where the Pod goes, or its claims must be mended first."""
        if not self._known.is_user((pod,)):
            return False
        if self._known.unread() or any(self._unusable(pod, name) for name in pod.volume_claims):
            return True
        claims = filter(None, map(self._claims.get, paths_of(pod)))
        return any(map(self._is_fixed, claims))

    def fences(self, pod: Pod) -> Fences:
        """Return where the volumes of an unbound Pod let it go."""
        return self._known.fences(pod) if self._known.active else ()

    def _is_fixed(self, claim: VolumeClaim) -> bool:
        volume = self._known.volume_of(claim)
        if volume is not None:
            return volume.terms is not None
        return bool(claim.volume or claim.selected_node or claim.selected_for)

    def needs(
        self, pods: Sequence[Pod], *, live: Entry[Job] | None, places: Sequence[Node]
    ) -> VolumeNeeds:
        """Return what the claims of these unbound Pods need.

        `places`: the Node of each, where the job runs.
        """
        unread = self._known.unread() or self._blind()
        if unread:
            return VolumeNeeds(waits=unread)
        mark = self._known.mark_of(live.row.job_id) if live is not None else ""
        named = [(pod, name) for pod in pods for name in pod.volume_claims]
        problems = (self._problem(pod, name) for pod, name in named)
        problem = next(filter(None, problems), "") or self._shared(pods)
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
        if claim is None or not _is_of_one_node(claim):
            return ""
        if not claim.bound and claim.selected_for == self._known.mark_of(live.row.job_id):
            return ""  # the others wait for its volume
        for uid, other in self._known.users.get(path, {}).items():
            if uid == pod.uid or other.node_name or other.ended:
                continue
            jobs = [self._jobs.entries[one] for one in self._index.jobs_of_uid.get(uid, ())]
            if any(is_running(one.row) and job_age(one) < job_age(live) for one in jobs):
                return f'Pod {other.name}, which uses persistentvolumeclaim "{name}" too, is first'
        return ""

    def _blind(self) -> str:
        """After an outage Pods and Nodes may be read before their claims are."""
        return UNREADABLE if any(table.blind for table in self._known.tables) else ""

    def _problem(self, pod: Pod, name: str) -> str:
        """Return why the Pod can run nowhere because of this claim, in kube-scheduler's words."""
        claim = self._claims.get(pod_key(pod.namespace, name))
        named = f'persistentvolumeclaim "{name}"'
        if claim is None:
            return f"{named} not found"
        if claim.terminating:
            return f"{named} is being deleted"
        if ONE_POD in claim.modes and self._known.nodes_in_use(claim, pod):
            return f"another Pod uses {named}, and its mode is {ONE_POD}"
        if claim.volume or self._known.volume_of(claim) is not None:
            return ""
        storage_class = self._classes.get(claim.storage_class)
        if storage_class is None and claim.storage_class:
            return f'storageclass "{claim.storage_class}" of {named} not found'
        if storage_class is None or not storage_class.waits:
            return f"pod has unbound immediate PersistentVolumeClaims: {named}"
        return ""

    def _shared(self, pods: Sequence[Pod]) -> str:
        """Return that members of a gang, which run on several Nodes, share a claim of one Node."""
        counts = Counter(path for pod in pods for path in paths_of(pod))
        for path, count in counts.items():
            claim = self._claims.get(path)
            if count > 1 and claim is not None and _is_of_one_node(claim):
                what = f'persistentvolumeclaim "{claim.name}" ({", ".join(claim.modes)})'
                return f"{counted(count, 'Pod')} of the gang use {what}, and {ONE_EACH}"
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
            for path in paths_of(pod):
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
        volume = self._known.volume_of(claim)
        if volume is None and claim.volume:
            return WantedVolume(claim, node.name, None, since_s, mark)
        if volume is not None:
            since_s = max(since_s, self._volumes.entries[volume.name].changed_s)
            return WantedVolume(claim, node.name, volume, since_s, mark)
        said = self._known.said.get(claim.uid, NOTHING_SAID)
        if claim.selected_for == mark and not claim.selected_node:
            return self._given_up(claim, node, WantedVolume(
                claim, node.name, None, since_s, mark, said.words, said.asked_s, is_given_up=True
            ))  # fmt: skip
        if not claim.selected_node:
            volume = choose(self._known.candidates(claim), node, taken=taken)
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


def _is_of_one_node(claim: VolumeClaim) -> bool:
    """Whether one Node at a time can use it."""
    return claim.modes == (ONE_NODE,) or ONE_POD in claim.modes
