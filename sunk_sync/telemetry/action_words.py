"""Actions and outcomes in words: the fields of their log lines, and a phrase for a person."""

import re
from functools import cache

from sunk_sync.core.model import actions as act
from sunk_sync.core.model import lock_actions, node_set_actions, topology_file
from sunk_sync.core.model.actions import Action
from sunk_sync.core.model.outcomes import Outcome

Fields = dict[str, object]


def name_of(struct: Action | Outcome) -> str:
    """`SetConditions` → `set-conditions`"""
    return _kebab(type(struct).__name__)


def authority_of(action: Action) -> str:
    queue = act.traits_of(action).queue
    return "slurm" if queue == "jobs" else queue


def fields_of(action: Action) -> Fields:
    """Return the log fields of an action: its object and its content."""
    fields: Fields = {"action": name_of(action)}
    if isinstance(action, act.SlurmAction | act.GetSlurmNode | node_set_actions.OnRecord):
        return fields | {"slurm_node": action.slurm_node} | _node_content(action)
    match action:
        case node_set_actions.SetReservation():
            return fields | {"reservation": action.name, "slurm_nodes": len(action.slurm_nodes)}
        case node_set_actions.GetJobEnds():
            return fields | {"nodeset": action.node_set, "slurm_nodes": len(action.slurm_nodes)}
        case act.GetObject() | act.GetGang():
            return fields | _place(action.kind, action.namespace, action.name)
        case act.Relist():
            return fields | {"source": action.source}
        case act.SubmitJob():
            return fields | {
                "workload": action.identity.workload,
                "job": action.name,
                "kind": action.kind,
            }
        case act.CancelJob() | act.UpdateJob():
            return fields | {"job_id": action.job_id, "job": action.name}
        case act.GetJob():
            return fields | {"job_id": action.job_id}
        case _ if isinstance(action, act.HookAction):
            return fields | _answer(action)
        case _:
            reference = action.reference
            fields |= _place(reference.kind, reference.namespace, reference.name)
            return fields | _content(action)


def phrase(action: Action) -> str:
    """`drain: slurm node n1, reason k8s: node cordoned`"""
    fields = fields_of(action)
    name = str(fields.pop("action")).replace("-", " ")
    words = [f"{key.replace('_', ' ')} {value}" for key, value in fields.items() if value != ""]
    return f"{name}: {', '.join(words)}"


def _answer(action: act.HookAction) -> Fields:
    match action:
        case act.AnswerGate() | lock_actions.AnswerLock():
            return {"slurm_node": action.slurm_node, "go": action.go, "waits_for": action.why}
        case topology_file.AnswerTopology():
            return {"digest": action.digest, "why": action.why}
        case act.AnswerStop():
            return {"verdict": action.verdict}


def _node_content(
    action: act.SlurmAction | act.GetSlurmNode | node_set_actions.OnRecord,
) -> Fields:
    match action:
        case act.Drain() | act.Undrain() | act.RewriteReason():
            return {"reason": action.reason}
        case act.SetFeatures():
            return {"features": ",".join(action.features)}
        case act.SetWeight():
            return {"weight": action.weight}
        case act.SetTopology():
            return {"topology": action.topology}
        case node_set_actions.RequeueJobs():
            return {"method": action.which.method}
        case _:
            return {}


def _content(action: Action) -> Fields:
    match action:
        case node_set_actions.CreatePod():
            return {"pod": action.name, "revision": action.plan.revision}
        case node_set_actions.Condemn() | node_set_actions.DeletePod():
            return {"pending_deletion": action.why}
        case lock_actions.Lock():
            return {"state": action.state}
        case node_set_actions.SetFinalizer():
            return {"held": action.held}
        case act.SetConditions():
            return {"conditions": ",".join(f"{c.type}={c.status}" for c in action.conditions)}
        case act.SetMetadata():
            pairs = (*action.labels, *action.annotations)
            return {"set": ",".join(f"{key}={value}" for key, value in pairs)}
        case act.RecordEvent():
            return {"event_reason": action.reason, "message": action.message}
        case act.Bind():
            return {"node": action.node_name, "job_id": action.job_id}
        case act.EndPod() | act.SetScheduled():
            return {"reason": action.reason, "message": action.message}
        case _:
            return {}


def _place(kind: str, namespace: str, name: str) -> Fields:
    return {kind.lower(): f"{namespace}/{name}" if namespace else name}


@cache
def _kebab(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "-", name).lower()
