"""Each check of Pods and jobs fails for a defect in the production code."""

from typing import Any

import pytest
from msgspec import structs

from sunk_sync.core import decide, policy
from sunk_sync.core.model import names
from sunk_sync.core.model.actions import Bind, EndPod
from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.facts import Job, Pod, reference_of
from sunk_sync.core.model.names import JOB_ID
from sunk_sync.core.model.verdict import QUIET, Ruling
from sunk_sync.core.model.volume_actions import ReserveVolume
from sunk_sync.core.model.volumes import Volume, VolumeClaim
from sunk_sync.core.rules.host import gate
from sunk_sync.core.rules.workload import bind, evict, release, stop, submit, wait
from sunk_sync.core.tables.feasible_hosts import FeasibleHosts
from sunk_sync.core.translate import pod_rules
from sunk_sync.core.translate.fences import Fence
from sunk_sync.core.translate.volume_fit import can_take
from sunk_sync.core.views import conclusions
from sunk_sync.core.views.parts import Placement
from sunk_sync.core.views.workload import NO_VOLUMES, Workload
from sunk_sync.core.workloads import members
from sunk_sync.core.workloads.index import WorkloadIndex
from sunk_sync.core.workloads.neighbours import Neighbours
from sunk_sync.core.workloads.other_kinds import OtherKinds
from sunk_sync.core.workloads.storage_room import StorageRoom
from sunk_sync.core.workloads.volume_limits import VolumeLimits
from sunk_sync.core.workloads.volumes import VolumeIndex
from sunk_sync.kube.write import volumes as volume_writes
from sunk_sync.slurm.decode.jobs import JobRecord
from sunk_sync.slurm.read import job_owners
from tests.sim import crashes
from tests.sim.history import BrokenPromiseError
from tests.sim.stage import play
from tests.sim.workloads.scenarios import SCENARIOS

_bind = bind.bind


def first_failure(name: str) -> str:
    """Return the check that fails first, or the row that does not hold after convergence."""
    try:
        play(SCENARIOS[name])
    except BrokenPromiseError as error:
        check, _, rest = str(error).partition(": ")
        return rest.partition(":")[0] if check == "rest" else check
    return ""


def _anybody_proves(record: JobRecord, *_: object, **__: object) -> JobRecord | None:
    return record if record.identity is not None else None


def _ends_after_a_while(workload: Workload, configuration: Configuration, now: float) -> Ruling:  # noqa: ARG001
    placed_s = workload.binding.placed_s
    pods = [pod for pod in workload.members.pods if pod.node_name and not pod.terminating]
    if not pods or placed_s is None:
        return QUIET
    if now < placed_s + 150:
        return Ruling(look_again_s=placed_s + 150)
    return Ruling((EndPod(reference_of(pods[0]), "SlurmJobEnded", "", weak=False),), "for nothing")


def _binds_one(workload: Workload, configuration: Configuration, now: float) -> Ruling:
    ruling = _bind(workload, configuration, now)
    wants = tuple(
        one for one in ruling.wants if isinstance(one, Bind) and one.reference.name == "a"
    )
    return Ruling(wants, ruling.because, ruling.look_again_s)


def _blindly(pod: Pod, job: Job, placement: Placement, **_: bool) -> Bind:
    return Bind(reference_of(pod), "k3", job.job_id, placement.slurm_node)


_reserve = volume_writes._reserve


def _reserves_any(action: ReserveVolume, volume: Volume) -> Any:
    return _reserve(action, structs.replace(volume, claim="", claim_uid="", available=True))


def _takes_any(index: VolumeIndex, claim: VolumeClaim) -> list[Volume]:
    free = [structs.replace(one, claim="", available=True) for one in index.volumes.rows()]
    return [volume for volume in free if can_take(claim, volume)]


def _is_leaving(workload: Workload) -> bool:
    return any(pod.terminating for pod in workload.members.pods)


def _silent(*_: object) -> Ruling:
    return QUIET


def _yes(*_: object) -> bool:
    return True


def _no(*_: object) -> bool:
    return False


_ANYWHERE = Fence("", frozenset(), False, "")  # noqa: FBT003


Broken = tuple[list[tuple[Any, str, Any]], str, set[str]]
RULES = decide.WORKLOAD_RULES
BROKEN: dict[str, Broken] = {
    "bound to another Node than its job's (P11)": (
        [(bind, "_bind", _blindly)], "a pod is bound", {"bound blindly"},
    ),
    "the job ends before its Pod (P14)": (
        [(release, "is_over", _is_leaving)], "a pod is deleted after it was bound", {"ended early"},
    ),
    "the job never ends (P14)": (
        [(release, "is_over", _no)], "a pod is deleted after it was bound", {"P21"},
    ),
    "the gate releases every job (L7)": (
        [(gate, "_stands_in_the_way", _no)], "preemption, held by the gate", {"overlap"},
    ),
    "a script is released too early (L6)": (
        [(stop, "is_over", _yes)], "a script is stopped while its pod is slow", {"overlap"},
    ),
    "a job of another cluster counts as ours (P22)": (
        [(job_owners, "proven", _anybody_proves)],
        "a job of another cluster", {"foreign job"},
    ),
    "a Pod is ended although its job runs (P16)": (
        [(RULES, "evict", _ends_after_a_while)], "a pod is bound and lives on", {"ended well"},
    ),
    "a Pod is not ended although its job has ended (P16)": (
        [(RULES, "evict", _silent)], "a human cancels the job of a bound pod", {"P16"},
    ),
    "an unbound Pod is ended (P17)": (
        [(evict, "evict", _silent),
         (RULES, "evict", lambda workload, *_: Ruling(tuple(
             EndPod(reference_of(pod), "SlurmJobEnded", "", weak=False)
             for pod in workload.members.pods)))],
        "a pod waits and says so", {"ended unbound"},
    ),
    "one member is bound (G1)": ([(RULES, "bind", _binds_one)], "a gang of two", {"G1", "P11"}),
    "a failed member that is made again waits beside the others (G8)": (
        [(members, "_replacement", lambda *_: None)],
        "a failed member is made again while another runs", {"G8"},
    ),
    "a Pod that comes earlier does not count (P28)": (
        [(WorkloadIndex, "ahead_of", lambda *_: [])],
        "two pods where a Node has room for one", {"turned away"},
    ),
    "two Pods with one port come to one Node (P8)": (
        [(Neighbours, "fences", lambda *_: ())], "three pods want one port", {"forbidden beside"},
    ),
    "a Node attaches more volumes than it may (P8)": (
        [(VolumeLimits, "fences", lambda *_: iter(()))],
        "two pods whose hosts attach one volume each", {"too many volumes"},
    ),
    "a volume is made where there is no room (P8)": (
        [(StorageRoom, "places", lambda _, __, storage_class: storage_class.terms)],
        "a volume is made where there is room", {"no room"},
    ),
    "a spread is not kept (P8)": (
        [(pod_rules, "_spread", lambda *_: _ANYWHERE)],
        "three pods are spread over two zones", {"forbidden domain"},
    ),
    "affinity between Pods is not kept (P8)": (
        [(pod_rules, "_beside", lambda *_, **__: ())],
        "pods follow the first one into its zone", {"forbidden domain"},
    ),
    "anti-affinity by zone is not kept (P8)": (
        [(pod_rules, "_apart", lambda *_: ())], "two groups apart by zone", {"forbidden domain"},
    ),
    "the anti-affinity of a Pod that is there is not kept (P8)": (
        [(pod_rules, "_apart_of_others", lambda *_: ())],
        "two groups apart by zone", {"forbidden domain"},
    ),
    "Pods of other schedulers do not count (P8)": (
        [(OtherKinds, "take", lambda *_: set())],
        "a pod of another scheduler keeps one away", {"forbidden domain"},
    ),
    "nobody is told of a Pod of another scheduler (P8)": (
        [(Neighbours, "others_changed", lambda self, taken: self._others.take(taken) and set())],
        "a pod follows one of another scheduler", {"P1"},
    ),
    "Pods of a group take no turns (P8)": (
        [(Neighbours, "is_its_turn", _yes)],
        "three pods are spread over two zones", {"given up again"},
    ),
    "the turn of a Pod never comes (P8)": (
        [(Neighbours, "is_its_turn", lambda self, key: not self.takes_turns(key))],
        "three pods are spread over two zones", {"P1"},
    ),
    "a user's cancel is ignored (P17)": (
        [(submit, "cancelled_job", lambda *_: "")],
        "a human cancels the job of a waiting pod", {"P17", "G1", ""},
    ),
    "no reason is shown (P2)": (
        [(RULES, "wait", _silent)], "a pod that is refused says so", {"P2"},
    ),
    "no job is submitted (P1)": ([(RULES, "submit", _silent)], "a pod is bound", {"P1"}),
    "a job that is given up is replaced at once (P32)": (
        [(submit, "_brake", lambda *_: None), (FeasibleHosts, "waits_for", lambda *_: ()),
         (conclusions, "TRIED_AGAIN_S", 0.0)],
        "no host is ready for a while", {"no brake"},
    ),
    "nothing is bound (P11)": ([(RULES, "bind", _silent)], "a pod is bound", {"P11"}),
    "a Pod is bound before its volume (P8)": (
        [(RULES, "bind", lambda workload, *rest: _bind(
            structs.replace(workload, volumes=NO_VOLUMES), *rest))],
        "a provisioner makes a volume", {"bound without volume"},
    ),
    "a Pod is bound where its volume is not (P8)": (
        [(VolumeIndex, "fences", lambda *_: ())],
        "a bound claim decides the host", {"bound without volume"},
    ),
    "a volume is taken from a claim (P8)": (
        [(VolumeIndex, "candidates", _takes_any), (volume_writes, "_reserve", _reserves_any)],
        "five pods want one local volume", {"volume taken"},
    ),
    "a Node is taken from a live job (P8)": (
        [(VolumeIndex, "_is_over", _yes)], "a provisioner makes a volume", {"selection taken"},
    ),
    "a Node stays selected (P8)": (
        [(decide.CLUSTER_RULES, "unselect", _silent)], "a provisioner makes a volume", {"P8"},
    ),
    "no Node is selected (P8)": (
        [(RULES, "provision", _silent)], "a provisioner makes a volume", {"P11"},
    ),
    "a mark of others is written to a claim": (
        [(names, "VOLUME_FOR", "example.com/other")],
        "a provisioner makes a volume", {"foreign claim"},
    ),
    "a mark of others is written to a volume": (
        [(names, "BOUND_BY_CONTROLLER", "example.com/other")],
        "two pods take local volumes", {"foreign volume"},
    ),
    "an annotation of others is written": (
        [(wait, "JOB_ID", "example.com/other")], "a pod waits and says so", {"foreign pod"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", BROKEN)
def test_each_broken_invariant_of_pods_is_detected(
    monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    changes, scenario, checks = BROKEN[what]
    for where, name, instead in changes:
        if isinstance(where, dict):
            monkeypatch.setitem(where, name, instead)
        else:
            monkeypatch.setattr(where, name, instead)
    assert first_failure(scenario) in checks


def test_a_second_job_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    """F1: a process that submits before it has listed its earlier jobs."""
    monkeypatch.setattr(policy, "_why_not_yet", lambda *_: "")
    monkeypatch.setattr(policy, "ON_JOBS", ())
    found = (crashes.run(one).why for one in crashes.singles("a pod is bound", every=3))
    assert any("twins" in why or "second job" in why for why in found)


def test_the_product_has_the_annotation_that_the_check_of_foreign_ones_replaces() -> None:
    assert JOB_ID.endswith("/job-id")
