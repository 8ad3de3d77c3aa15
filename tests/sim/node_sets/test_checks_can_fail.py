"""Each check of NodeSets fails for a defect in the production code."""

from typing import Any

import pytest
from msgspec.structs import replace

from sunk_sync.controller.mutual_exclusion import MutualExclusion
from sunk_sync.core import decide, policy
from sunk_sync.core.model.actions import SetFeatures
from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.facts import SlurmdPod, reference_of
from sunk_sync.core.model.node_set import Stamp
from sunk_sync.core.model.node_set_actions import (
    Condemn,
    CreatePod,
    DeleteNode,
    RemakePod,
    SetFinalizer,
)
from sunk_sync.core.model.outcomes import Done, Outcome
from sunk_sync.core.model.verdict import QUIET, Ruling
from sunk_sync.core.node_sets import index
from sunk_sync.core.rules.host import enrol, part, requeue
from sunk_sync.core.rules.node_set import condemn, populate, tally
from sunk_sync.core.views import node_set as views
from sunk_sync.core.views.host import Host
from sunk_sync.core.views.node_set import NodeSetView, condemnation
from sunk_sync.embedded.kubernetes.store.kinds import PODS
from sunk_sync.embedded.slurm.node_update import Update
from sunk_sync.kube.write import node_sets as writer
from sunk_sync.slurm.api.requests import delete_node
from sunk_sync.slurm.write import precondition, records
from tests.sim import words
from tests.sim.history import BrokenPromiseError
from tests.sim.node_sets import truth
from tests.sim.node_sets.host_checks import HostChecks
from tests.sim.node_sets.makers import patch
from tests.sim.node_sets.scenarios import IDLE, SCENARIOS, Doing, job, make, story
from tests.sim.stage import Stage, Step, play
from tests.sim.worlds import US

HOST, SET = decide.HOST_RULES, decide.NODE_SET_RULES
GROWS = "a NodeSet is made and grows"
BUSY = "replicas fall while a slot is busy"
ROLLS = "another image rolls"


def first_failure(name: str) -> str:
    """Return the check that fails first, or the row that does not hold after convergence."""
    try:
        play(SCENARIOS[name])
    except BrokenPromiseError as error:
        check, _, rest = str(error).partition(": ")
        return rest.partition(":")[0] if check == "rest" else check
    return ""


def _silent(*_: object) -> Ruling:
    return QUIET


def _no(*_: object, **__: object) -> bool:
    return False


def _yes(*_: object, **__: object) -> bool:
    return True


def _empty(*_: object, **__: object) -> str:
    return ""


def _makes_one_more(view: NodeSetView, *_: object) -> Ruling:
    names = [view.spec.pod_name(number) for number in range(view.spec.replicas + 1)]
    free = [name for name in names if name not in {slot.name for slot in view.slots}]
    wants = [CreatePod(reference_of(view.spec), name, view.spec, view.plan) for name in free]
    return Ruling(tuple(wants) if view.spec.held else ())


def _makes_another(view: NodeSetView, *_: object) -> Ruling:
    """Make a Pod with a name that belongs to nobody."""
    if not view.spec.held or view.slots:
        return QUIET
    return Ruling((CreatePod(reference_of(view.spec), "gpu-7", view.spec, view.plan),))


def _condemns_all(view: NodeSetView, _: Configuration, __: float) -> Ruling:
    cause: Any = "scale-in" if view.spec.replicas < len(view.slots) else None
    wants = [
        Condemn(reference_of(slot.pod), condemnation(cause, view.spec))
        for slot in view.slots
        if cause and slot.pod.pending_deletion is None
    ]
    return Ruling(tuple(wants))


def _condemns_for(cause: Any) -> Any:
    """Return a rule that condemns each ready Pod for this cause."""

    def rule(view: NodeSetView, *_: object) -> Ruling:
        text = condemnation(cause, view.spec)
        wants = [
            Condemn(reference_of(slot.pod), text)
            for slot in view.slots
            if slot.pod.ready and slot.pod.pending_deletion is None
        ]
        return Ruling(tuple(wants))

    return rule


def _ends_condemned(host: Host, *_: object) -> Ruling:
    """Delete a condemned Pod, whatever runs there."""
    pod = host.pod
    if pod is None or pod.terminating or pod.pending_deletion is None:
        return QUIET
    return Ruling((RemakePod(reference_of(pod)),))


def _ends_early(host: Host, *_: object) -> Ruling:
    """Delete a Pod that has not registered yet."""
    pod = host.pod
    if pod is None or pod.terminating or not pod.owner or host.slurm_node is not None:
        return QUIET
    return Ruling((RemakePod(reference_of(pod)),))


def _ends_any(host: Host, _: Configuration, now: float) -> Ruling:
    """Delete a Pod whose record is well, after a while."""
    pod = host.pod
    if (
        pod is None
        or pod.terminating
        or host.slurm_node is None
        or "DRAIN" in host.slurm_node.state
    ):
        return QUIET
    if now < host.pod_since_s + 20:
        return Ruling(look_again_s=host.pod_since_s + 20)
    return Ruling((RemakePod(reference_of(pod)),))


def _forgets_all(host: Host, *_: object) -> Ruling:
    """Delete each record that has a stamp."""
    record = host.slurm_node
    if record is None or record.stamp is None:
        return QUIET
    return Ruling((DeleteNode(record.name, record.stamp),))


def _takes_features(action: SetFeatures, node: Any) -> Any:
    del action
    stamp = [one for one in node.features if one.startswith("k8s.")]
    return precondition.NodeUpdate(features=tuple(stamp), active_features=tuple(stamp))


def _lets_go(view: NodeSetView, *_: object) -> Ruling:
    spec = view.spec
    held = not spec.deleting
    return QUIET if spec.held == held else Ruling((SetFinalizer(reference_of(spec), held=held),))


def _changes_spec(action: SetFinalizer) -> Any:
    """Write the number of replicas, which belongs to users."""
    request = _holding(action)
    assert request.body is not None
    body = request.body.replace(b'"metadata"', b'"spec":{"replicas":9},"metadata"', 1)
    return replace(request, body=body)


_holding = writer._holding


def _counts_condemned_as_gone(pod: SlurmdPod) -> bool:
    """Make new Pods beside condemned ones that are wanted again."""
    return views.cause_of(pod) in ("scale-in", "deletion")


def _condemns_blindly(view: NodeSetView, configuration: Configuration, now: float) -> Ruling:
    return condemn.condemn(replace(view, blind=False), configuration, now)


def _ends_of_others(host: Host, *_: object) -> Ruling:
    """Delete each Pod with a pending deletion, whoever owns it."""
    pod = host.pod
    if pod is None or pod.terminating or pod.pending_deletion is None or pod.owner:
        return QUIET
    return Ruling((RemakePod(reference_of(pod)),))


def _forgets_unstamped(host: Host, *_: object) -> Ruling:
    """Delete records of others that have the name of a slot."""
    record = host.slurm_node
    if record is None or record.stamp is not None or "DYNAMIC_NORM" not in record.state:
        return QUIET
    return Ruling((DeleteNode(record.name, Stamp("", "")),))


async def _deletes_all(push: Any, action: DeleteNode, *_: object) -> Outcome:
    await push._client.call(delete_node(action.slurm_node))
    return Done(action)


Broken = tuple[list[tuple[Any, str, Any]], str, set[str]]
BROKEN: dict[str, Broken] = {
    "no Pod is made (N1)": ([(SET, "populate", _silent)], GROWS, {"N1"}),
    "one Pod too many is made (N1)": ([(SET, "populate", _makes_one_more)], GROWS, {"too many"}),
    "a Pod gets another name (N1)": ([(SET, "populate", _makes_another)], GROWS, {"name"}),
    "new Pods are made beside condemned ones (N9)": (
        [(index, "leaves", _counts_condemned_as_gone)], "replicas rise again", {"too many"},
    ),
    "all go (N6)": (
        [(SET, "condemn", _condemns_all)], BUSY, {"too few", "order"},
    ),
    "the busy one goes (N6)": (
        [(condemn, "_rank", lambda slot: (slot.ordinal,))], BUSY, {"order"},
    ),
    "nobody goes (N6)": ([(SET, "condemn", _silent)], BUSY, {"N1"}),
    "a Pod goes while a job runs there (N8)": (
        [(HOST, "part", _ends_condemned)], "replicas fall while all are busy", {"job lost"},
    ),
    "a Pod goes without a drain (N8)": ([(HOST, "part", _ends_any)], GROWS, {"undrained"}),
    "a Pod goes while the lift of an older drain is on its way (N7)": (
        [(part, "_is_for_it", _yes), (MutualExclusion, "arrange", lambda *_, **__: None)],
        "a lift is on its way when its Pod is condemned", {"undrained"},
    ),
    "a drained Pod stays (N8)": ([(HOST, "part", _silent)], BUSY, {"N8"}),
    "a Pod that is young is made anew (N3)": (
        [(HOST, "enrol", _ends_early)], GROWS, {"impatient"},
    ),
    "a Pod whose record vanished stays (N3)": (
        [(HOST, "enrol", _silent)], "a record is deleted under its slurmd", {"N2"},
    ),
    "a Pod is made anew in slurmctld's first minute (N3)": (
        [(enrol, "FIRST_MINUTE_S", 0.0)], "slurmctld is killed after a registration",
        {"first minute"},
    ),
    "the record of a living Pod is deleted (N4)": (
        [(HOST, "forget", _forgets_all)], GROWS, {"living pod"},
    ),
    "a record stays (N10)": ([(HOST, "forget", _silent)], BUSY, {"N10"}),
    "a record that a job requires is deleted (N10)": (
        [(records, "_note", _silent)], "a waiting job requires a record", {"required"},
    ),
    "a Pod is made beside an older record (N4)": (
        [(populate, "_why_not", _empty), (HOST, "forget", _silent)],
        "a Pod is deleted and another shape waits", {"stale record"},
    ),
    "the budget is ignored (N12)": (
        [(condemn, "unavailable_max", lambda *_, **__: 100)], ROLLS, {"budget"},
    ),
    "Pods that never came up do not count (N12)": (
        [(condemn, "is_available", _yes)], "an image that never starts", {"budget", "scenario"},
    ),
    "jobs are requeued too early (N28)": (
        [(requeue, "_after_s", lambda *_: 0.0)],
        "a job is requeued for another image", {"requeued"},
    ),
    "no update (N12)": ([(condemn, "_reason", lambda *_: None)], ROLLS, {"N12"}),
    "a Pod is updated for nothing (N14)": (
        [(SET, "condemn", _condemns_for("update"))], GROWS, {"no cause", "budget"},
    ),
    "a record is made anew for nothing (N4)": (
        [(SET, "condemn", _condemns_for("registration"))], GROWS, {"no cause", "budget"},
    ),
    "a NodeSet is drained though it stays (N23)": (
        [(SET, "condemn", _condemns_for("deletion"))], GROWS, {"no cause"},
    ),
    "a NodeSet is let go too early (N23)": (
        [(SET, "finalize", _lets_go)], "a NodeSet is deleted while a slot is busy", {"finalizer"},
    ),
    "a NodeSet is never let go (N23)": (
        [(SET, "finalize", lambda view, *_: _lets_go(replace(view, spec=replace(
            view.spec, deleting=False))))],
        "a NodeSet is deleted while a slot is busy", {"N23"},
    ),
    "replicas are written (N26)": (
        [(writer, "_holding", _changes_spec)], GROWS, {"foreign"},
    ),
    "a Pod that failed is made again at once (N21)": (
        [(populate, "pause_ends_s", lambda _: 0.0)], "a Pod is evicted", {"hot loop"},
    ),
    "features of others are taken (T1)": (
        [(precondition, "_features", _takes_features)],
        "features, weight and topology follow", {"foreign features"},
    ),
    "features do not follow (T1)": (
        [(HOST, "feature", _silent)], "features, weight and topology follow", {"T1"},
    ),
    "the topology does not follow (T3)": (
        [(HOST, "topology", _silent)], "features, weight and topology follow", {"T3"},
    ),
    "the busy label does not follow (N27)": (
        [(HOST, "busy", _silent)], "a job runs on", {"N27"},
    ),
    "a Pod is condemned while Slurm cannot be read (N24)": (
        [(SET, "condemn", _condemns_blindly), (policy, "_why_not", _empty),
         (policy, "_all_may", _yes)],
        "Slurm cannot be read while replicas rise and fall", {"blind"},
    ),
    "a Pod is made beside one that has its name (N22)": (
        [(populate, "_why_not", _empty)],
        "others have the names of two slots", {"twins", "stale record"},
    ),
    "a Pod of others is deleted (N29)": (
        [(HOST, "part", _ends_of_others), (writer, "_why_not", _empty)],
        "a Pod of others is asked to leave", {"foreign pod"},
    ),
    "a record of others is deleted (N10)": (
        [(decide.HOST_RULES, "forget", _forgets_unstamped),
         (records.RecordPush, "_one", _deletes_all)],
        "others have the names of two slots", {"foreign record"},
    ),
    "the status is wrong (N2)": (
        [(tally, "is_registered", _no)], GROWS, {"status"},
    ),
}  # fmt: skip


def _made_by_us(stage: Stage) -> object:
    metadata = {
        "labels": {truth.SHAPE: "1"},
        "ownerReferences": [
            {"apiVersion": truth.API_VERSION, "kind": "NodeSet", "name": "gone", "uid": "gone",
             "controller": True},
        ],
    }  # fmt: skip
    return stage.kube.add_pod("gone-0", namespace=truth.NAMESPACE, metadata=metadata)


def _ends_a_job(stage: Stage) -> object:
    return stage.slurm.cancel(1, now_s=stage.now_s)


def _requeues_a_job(stage: Stage) -> object:
    return stage.slurm.requeue_job(1, now_s=stage.now_s)


def _changes_a_request(stage: Stage) -> None:
    metadata = {"annotations": {words.PENDING_DELETION: "update of NodeSet cpu"}}
    patch(stage.worlds, PODS, "cpu-0", {"metadata": metadata})


def _marks_for_nothing(stage: Stage) -> None:
    metadata = {"annotations": {words.PENDING_DELETION: "because"}}
    patch(stage.worlds, PODS, "cpu-0", {"metadata": metadata})


def _marks_a_foreign_record(stage: Stage) -> object:
    update = Update(features=("fast",), active_features=("fast",))
    return stage.slurm.update("others1", update, now_s=stage.now_s)


HISTORIES: dict[str, tuple[tuple[Step, ...], Doing, str]] = {
    "a Pod for a NodeSet that is not there": ((), _made_by_us, "no owner"),
    "the end of a job": (((20, job("cpu-0", seconds=900)),), _ends_a_job, "job ended"),
    "a job is requeued for nothing": (
        ((20, job("cpu-0", seconds=900)),), _requeues_a_job, "requeued",
    ),
    "a request of a user is changed": (
        ((20, lambda stage: stage.kube.annotate(
            "cpu-0", {words.PENDING_DELETION: "scale-down"}, namespace=truth.NAMESPACE)),),
        _changes_a_request, "foreign",
    ),
    "a Pod is marked without a cause": ((), _marks_for_nothing, "no cause"),
    "features on a Slurm node of others": ((), _marks_a_foreign_record, "foreign record"),
}  # fmt: skip
"""What happens before, what sunk-sync does as its last act, and the check that fails."""


@pytest.mark.parametrize("what", HISTORIES)
def test_a_history_with_one_wrong_act_is_detected(
    monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setattr(HostChecks, "slurm_changed", _silent)  # it would be first
    before, act, check = HISTORIES[what]
    steps = (
        (1.0, make(2)),
        *before,
        (30.0, lambda stage: stage.worlds.act(US, lambda: act(stage))),
    )
    with pytest.raises(BrokenPromiseError, match=f"^{check}: "):
        play(story("can fail", *steps, cpu_0=IDLE, cpu_1=IDLE))


@pytest.mark.parametrize("what", BROKEN)
def test_each_broken_invariant_of_node_sets_is_detected(
    monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    changes, scenario, checks = BROKEN[what]
    for where, name, instead in changes:
        if isinstance(where, dict):
            monkeypatch.setitem(where, name, instead)
        else:
            monkeypatch.setattr(where, name, instead)
    assert first_failure(scenario) in checks
