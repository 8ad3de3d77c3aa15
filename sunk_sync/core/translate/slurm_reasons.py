"""Slurm's reasons why a job waits, and their meaning for the author of the Pod.

The spellings are those of `job_state_reason_string` in 24.11 and 26.05. Two thirds of them are
accounting limits whose names consist of parts. `limit` reads the parts, so it also reads limits
that a later Slurm adds.
"""

import re
from collections.abc import Mapping
from typing import Final, Literal

from sunk_sync.core.model.names import PREFIX

Whose = Literal["user", "operator", "wait"]
"""Who can act: the author of the Pod, the operator of Slurm, or nobody needs to."""
Row = tuple[Whose, str, str]
"""Who can act, the meaning, and the advice: two clauses without a full stop."""

_ASK: Final = "ask the operator of Slurm"
_LESS: Final = "delete the Pod and create one that requests less"
_COMES: Final = "no action is needed"
_RESERVATION: Final = f"correct or remove annotation {PREFIX}reservation"
_PARTITION: Final = f"choose another partition with annotation {PREFIX}partition"
_ACCOUNT: Final = f"correct annotation {PREFIX}account, or {_ASK} which account to use"
_QOS: Final = f"correct annotation {PREFIX}qos, or {_ASK} which QOS to use"
_TIME: Final = f"request less time with annotation {PREFIX}timeout"
_HELD: Final = "a held job does not start until somebody releases it (`scontrol release`)"
_ENDED: Final = "read the job's output and the log of slurmd on that node"

_WAITS: Final[Mapping[str, Row]] = {
    "None": ("wait", "slurmctld has not considered the job yet", _COMES),
    "Priority": (
        "wait",
        "jobs of higher priority wait for the same nodes",
        "it starts after those jobs",
    ),
    "Resources": (
        "wait",
        "the nodes that could take it are in use, drained, down or reserved",
        "it starts when enough nodes are free; if that never happens, request less",
    ),
    "Constraints": (
        "wait",
        "no node with the features that it requests is free",
        f"it starts when one is free; or request others with annotation {PREFIX}constraints",
    ),
    "BeginTime": (
        "wait",
        "its earliest start time has not come yet, as for two minutes after it was requeued",
        _COMES,
    ),
    "Reservation": ("wait", "its reservation has not begun yet", _RESERVATION),
    "Licenses": ("wait", "licences that it requests are in use", _COMES),
    "Dependency": (
        "wait",
        "it depends on another job",
        f"it starts when that job has ended; {_ASK} if nobody should have set the dependency",
    ),
    "JobArrayTaskLimit": (
        "wait",
        "its job array already runs its maximum number of tasks",
        "it starts when one of them ends",
    ),
    "Cleaning": ("wait", "Slurm still cleans up after its earlier run", _COMES),
    "Prolog": ("wait", "Slurm prepares the node for it (prolog)", _COMES),
    "BurstBufferResources": ("wait", "too little burst buffer space is free", _COMES),
    "BurstBufferStageIn": ("wait", "Slurm copies its files into the burst buffer", _COMES),
    "FedJobLock": ("wait", "the clusters of the federation have not agreed on it yet", _COMES),
    "MpiPortsBusy": ("wait", "all ports for MPI are in use", _COMES),
    "NvidiaImexChannels": ("wait", "all NVIDIA IMEX channels are in use", _COMES),
    "MaxPoweredUpNodes": (
        "wait",
        "the maximum number of nodes is powered up",
        "it starts when some are powered down",
    ),
    "SchedDefer": ("wait", "this Slurm starts no job at its submission (defer)", _COMES),
}

_ASKED_WRONG: Final[Mapping[str, Row]] = {
    "PartitionNodeLimit": (
        "user",
        "it requests more or fewer nodes than its partition allows for one job",
        _PARTITION,
    ),
    "PartitionTimeLimit": (
        "user",
        "it requests more time than its partition allows",
        f"{_TIME}; or {_PARTITION}",
    ),
    "PartitionConfig": (
        "user",
        "its partition can never run it: too few nodes or CPUs, or its user or account is excluded",
        f"{_LESS}; or {_PARTITION}",
    ),
    "ReqNodeNotAvail": (
        "user",
        "a node that it needs by name is in use, down, drained or reserved",
        f"it starts when that node is back; or name others with annotation {PREFIX}required-nodes",
    ),
    "BadConstraints": (
        "user",
        "no node can ever satisfy what it requests",
        f"correct annotation {PREFIX}constraints or the requests of the Pod",
    ),
    "MaxMemPerLimit": (
        "user",
        "it requests more memory on a node than its partition allows",
        f"{_LESS}; or {_PARTITION}",
    ),
    "InvalidAccount": ("user", "its account does not exist, or its user is not in it", _ACCOUNT),
    "AccountNotAllowed": (
        "user",
        "its account, user or group may not use its partition",
        f"{_PARTITION}; or {_ACCOUNT}",
    ),
    "InvalidQOS": ("user", "its QOS does not exist", _QOS),
    "QOSNotAllowed": ("user", "its account or partition may not use its QOS", _QOS),
    "QOSTimeLimit": ("user", "it requests more time than its QOS allows", _TIME),
    "AssociationTimeLimit": ("user", "it requests more time than its account allows", _TIME),
    "ReservationDeleted": ("user", "its reservation was deleted", _RESERVATION),
    "ReservationInvalid": ("user", "it cannot use its reservation", _RESERVATION),
    "DeadLine": ("user", "it can no longer end before its deadline", _TIME),
    "QOSUsageThreshold": (
        "user",
        "its account has used too much to continue with this QOS",
        _QOS,
    ),
}

_STOPPED: Final[Mapping[str, Row]] = {
    "PartitionDown": (
        "operator",
        "its partition is down and starts no jobs",
        f"{_ASK}; or {_PARTITION}",
    ),
    "PartitionInactive": (
        "operator",
        "its partition is inactive: it accepts and starts no jobs",
        f"{_ASK}; or {_PARTITION}",
    ),
    "JobHeldAdmin": (
        "operator",
        "an administrator holds it, or Slurm does: a node failed to start it or has no such user",
        f"{_HELD}; {_ASK}",
    ),
    "JobHeldUser": ("operator", "it was submitted or requeued as a held job", _HELD),
    "JobHoldMaxRequeue": ("operator", "Slurm requeued it too often and now holds it", _HELD),
    "DependencyNeverSatisfied": (
        "operator",
        "it depends on another job that did not end as required",
        f"it never starts; {_ASK} to cancel it, or create the Pod again",
    ),
    "NodeDown": ("operator", "a node that it used or needs is down", _ASK),
    "FrontEndDown": ("operator", "no front end node is up", _ASK),
    "SystemFailure": ("operator", "Slurm itself, a file system or the network failed", _ASK),
    "BurstBufferOperation": ("operator", "its burst buffer failed", _ASK),
    "AccountingPolicy": ("operator", "it exceeds an accounting limit", _ASK),
    "QOSJobLimit": ("wait", "its QOS has its maximum number of jobs", _COMES),
    "QOSResourceLimit": ("wait", "its QOS has reached a resource limit", _COMES),
    "AssociationJobLimit": ("wait", "its account has its maximum number of jobs", _COMES),
    "AssociationResourceLimit": ("wait", "its account has reached a resource limit", _COMES),
}

_OVER: Final[Mapping[str, Row]] = {
    "JobLaunchFailure": ("operator", "the node could not start it", _ENDED),
    "NonZeroExitCode": ("operator", "its script ended with an error", _ENDED),
    "RaisedSignal": ("operator", "a signal ended its script", _ENDED),
    "OutOfMemory": ("user", "it used more memory than it requested", "request more memory"),
    "TimeLimit": (
        "user",
        "it reached its time limit",
        f"request more with annotation {PREFIX}timeout on a new Pod",
    ),
    "InactiveLimit": ("operator", "Slurm ended it because it was inactive", _ASK),
}

REASONS: Final[Mapping[str, Row]] = {**_WAITS, **_ASKED_WRONG, **_STOPPED, **_OVER}
"""Every reason except accounting limits."""

_FOR_NODES: Final = frozenset({
    "", "None", "Resources", "Priority", "Constraints", "NodeDown", "Node_Down", "ReqNodeNotAvail",
    "Nodes_required_for_job_are_DOWN", "Partition_Config", "PartitionConfig", "PartitionNodeLimit",
    "BadConstraints",
})  # fmt: skip
"""BadConstraints: no node has the features yet. Two versions of Slurm spell some in two ways."""


def more_nodes_help(reason: str) -> bool:
    """Return whether a job that waits for this reason may start once Slurm has more nodes."""
    return reason.partition(",")[0] in _FOR_NODES


_WHAT: Final[Mapping[str, str]] = {
    "BB": "burst buffer space",
    "Billing": "billing units",
    "CPU": "CPUs",
    "Cpu": "CPUs",
    "Energy": "energy",
    "GRES": "GPUs or other generic resources",
    "Job": "running jobs",
    "Jobs": "running jobs",
    "License": "licences",
    "Mem": "memory",
    "Memory": "memory",
    "Node": "nodes",
    "SubmitJob": "waiting and running jobs",
    "SubmitJobs": "waiting and running jobs",
    "Unknown": "a resource without a name",
    "Wall": "run time",
    "WallDuration": "run time",
}
_LIMIT: Final = re.compile(
    r"(?P<scope>QOS|Assoc|)(?P<kind>Grp|Max|Min)"
    rf"(?P<what>{'|'.join(sorted(_WHAT, reverse=True))})"
    r"(?P<time>Minutes|RunMinutes|RunMins|)(?P<per>PerJob|PerNode|PerUser|PerAccount|)"
    r"(?:Limit|NotSatisfied|)"
)
_OTHER: Final = {
    "QOS": f"or choose another QOS with annotation {PREFIX}qos",
    "account": f"or choose another account with annotation {PREFIX}account",
}


def limit(reason: str) -> Row | None:
    """Return the meaning of an accounting limit; None: the name is not one."""
    found = _LIMIT.fullmatch(reason)
    if not found:
        return None
    scope = "account" if found["scope"] == "Assoc" else "QOS"
    what = _WHAT[found["what"]]
    if found["time"]:
        what = f"minutes of {what}"
    if found["kind"] == "Min":
        return "user", f"its {scope} requires more {what} than it requests", _OTHER[scope][3:]
    if found["kind"] == "Grp":
        return _shared(scope, what, used_up=found["time"] == "Minutes" or found["what"] == "Wall")
    return _maximum(found, scope, what=what)


def _shared(scope: str, what: str, *, used_up: bool) -> Row:
    """Explain a limit for all jobs of one QOS or account together."""
    if used_up:
        text = f"the jobs of its {scope} have used up their {what}, or too little is left for it"
        return "operator", text, f"{_ASK} {_OTHER[scope]}"
    return (
        "wait",
        f"with it, the jobs of its {scope} would together exceed their limit of {what}",
        _some_end(scope),
    )


def _maximum(found: re.Match[str], scope: str, *, what: str) -> Row:
    """A limit for one job, or for all jobs of one user or account."""
    per = found["per"].removeprefix("Per").lower()
    if per in ("user", "account") or "Job" in found["what"]:
        whose = per or "user"
        text = (
            f"with it, its {whose} would have more {what} than its {scope} allows for one {whose}"
        )
        return "wait", text, _some_end(scope)
    where = "on one node" if per == "node" else "for one job"
    text = f"it requests more {what} than its {scope} allows {where}"
    return "user", text, f"request less {_OTHER[scope]}"


def _some_end(scope: str) -> str:
    """Explain one reason for two causes: other jobs fill the limit, or this job exceeds it."""
    enough = "it starts when enough of them have ended"
    return f"{enough}; if it alone exceeds the limit, request less {_OTHER[scope]}"
