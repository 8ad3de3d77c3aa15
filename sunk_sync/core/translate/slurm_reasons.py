"""Why Slurm does not start a job: its reasons, and what they mean to who wrote the Pod.

Spellings are those of `job_state_reason_string` of 24.11 and 26.05. Two thirds of them are limits
of accounting with names made of parts; those are read by their parts, which also reads a limit
that a later Slurm may add.
"""

import re
from collections.abc import Mapping
from typing import Final, Literal

from sunk_sync.core.model.names import PREFIX

Whose = Literal["user", "operator", "wait"]
"""Who can do something: who wrote the Pod, who runs Slurm, or nobody needs to."""
Row = tuple[Whose, str, str]
"""Whose turn it is, what it means, what to do: two clauses without a full stop."""

_ASK: Final = "ask who runs Slurm"
_LESS: Final = "delete the Pod and ask for less"
_COMES: Final = "nothing to do, it goes on by itself"
_RESERVATION: Final = f"correct annotation {PREFIX}reservation or take it away"
_PARTITION: Final = f"choose another partition by annotation {PREFIX}partition"
_ACCOUNT: Final = f"correct annotation {PREFIX}account or ask who runs Slurm for a right account"
_QOS: Final = f"correct annotation {PREFIX}qos or ask who runs Slurm for a right QOS"
_TIME: Final = f"ask for less time by annotation {PREFIX}timeout"
_HELD: Final = "a held job does not start until somebody releases it (`scontrol release`)"
_ENDED: Final = "look into the job's output and the log of slurmd on that node"

_WAITS: Final[Mapping[str, Row]] = {
    "None": ("wait", "Slurm has not looked at the job yet", _COMES),
    "Priority": (
        "wait",
        "jobs of higher priority wait for the same nodes",
        "it starts when its turn comes",
    ),
    "Resources": (
        "wait",
        "the nodes that could take it are in use, drained, down or reserved",
        "it starts when there is room; if that never comes, ask for less",
    ),
    "Constraints": (
        "wait",
        "no node with the features that it asks for is free now",
        f"it starts when there is one; or ask for others by annotation {PREFIX}constraints",
    ),
    "BeginTime": (
        "wait",
        "its earliest start time has not come yet, as for two minutes after it was requeued",
        _COMES,
    ),
    "Reservation": ("wait", "its reservation has not begun yet", _RESERVATION),
    "Licenses": ("wait", "licences that it asks for are in use", _COMES),
    "Dependency": (
        "wait",
        "it was made to wait for another job",
        f"it starts when that one has ended; {_ASK} if nobody should have asked for that",
    ),
    "JobArrayTaskLimit": (
        "wait",
        "as many tasks of its job array run as may run at once",
        "it starts when one of them ends",
    ),
    "Cleaning": ("wait", "what is left of its earlier run is still being cleaned up", _COMES),
    "Prolog": ("wait", "the node is being prepared for it (prolog)", _COMES),
    "BurstBufferResources": ("wait", "there is too little burst buffer space free", _COMES),
    "BurstBufferStageIn": ("wait", "its files are being copied into the burst buffer", _COMES),
    "FedJobLock": ("wait", "the clusters of the federation have not agreed on it yet", _COMES),
    "MpiPortsBusy": ("wait", "all ports for MPI are in use", _COMES),
    "NvidiaImexChannels": ("wait", "all NVIDIA IMEX channels are in use", _COMES),
    "MaxPoweredUpNodes": (
        "wait",
        "as many nodes are powered up as may be",
        "it starts when some are powered down",
    ),
    "SchedDefer": ("wait", "Slurm does not start jobs at once here", _COMES),
}

_ASKED_WRONG: Final[Mapping[str, Row]] = {
    "PartitionNodeLimit": (
        "user",
        "it asks for more or fewer nodes than its partition allows one job",
        _PARTITION,
    ),
    "PartitionTimeLimit": (
        "user",
        "it asks for more time than its partition allows",
        f"{_TIME}; or {_PARTITION}",
    ),
    "PartitionConfig": (
        "user",
        "its partition can never take it: too few nodes or CPUs, or closed to its user or account",
        f"{_LESS}; or {_PARTITION}",
    ),
    "ReqNodeNotAvail": (
        "user",
        "a node that it needs by name is in use, down, drained or reserved",
        f"it starts when that node is back; or name others by annotation {PREFIX}required-nodes",
    ),
    "BadConstraints": (
        "user",
        "no node can ever do what it asks for",
        f"correct annotation {PREFIX}constraints or the resources that the Pod asks for",
    ),
    "MaxMemPerLimit": (
        "user",
        "it asks for more memory on a node than its partition allows",
        f"{_LESS}; or {_PARTITION}",
    ),
    "InvalidAccount": ("user", "its account does not exist or is not its user's", _ACCOUNT),
    "AccountNotAllowed": (
        "user",
        "its account, user or group may not use its partition",
        f"{_PARTITION}; or {_ACCOUNT}",
    ),
    "InvalidQOS": ("user", "its QOS does not exist", _QOS),
    "QOSNotAllowed": ("user", "its account or partition may not use its QOS", _QOS),
    "QOSTimeLimit": ("user", "it asks for more time than its QOS allows", _TIME),
    "AssociationTimeLimit": ("user", "it asks for more time than its account allows", _TIME),
    "ReservationDeleted": ("user", "its reservation is gone", _RESERVATION),
    "ReservationInvalid": ("user", "its reservation is not one that it can use", _RESERVATION),
    "DeadLine": ("user", "it can no longer end before its deadline", _TIME),
    "QOSUsageThreshold": (
        "user",
        "its account has used too much to go on with this QOS",
        _QOS,
    ),
}

_STOPPED: Final[Mapping[str, Row]] = {
    "PartitionDown": ("operator", "its partition is switched off", f"{_ASK}; or {_PARTITION}"),
    "PartitionInactive": (
        "operator",
        "its partition takes and starts no jobs",
        f"{_ASK}; or {_PARTITION}",
    ),
    "JobHeldAdmin": (
        "operator",
        "an administrator holds it, or Slurm does: a node could not start it or knows no such user",
        f"{_HELD}; {_ASK}",
    ),
    "JobHeldUser": ("operator", "it was submitted or requeued to be held", _HELD),
    "JobHoldMaxRequeue": ("operator", "it was requeued too often and is held now", _HELD),
    "DependencyNeverSatisfied": (
        "operator",
        "it was made to wait for another job, and that one did not end as it should",
        f"it never starts; {_ASK} to cancel it, or make the Pod anew",
    ),
    "NodeDown": ("operator", "a node that it had or needs is down", _ASK),
    "FrontEndDown": ("operator", "no front end node is up", _ASK),
    "SystemFailure": ("operator", "Slurm itself, a file system or the network failed", _ASK),
    "BurstBufferOperation": ("operator", "its burst buffer failed", _ASK),
    "AccountingPolicy": ("operator", "it is over some limit of accounting", _ASK),
    "QOSJobLimit": ("wait", "its QOS is at its number of jobs", _COMES),
    "QOSResourceLimit": ("wait", "its QOS is at some limit of resources", _COMES),
    "AssociationJobLimit": ("wait", "its account is at its number of jobs", _COMES),
    "AssociationResourceLimit": ("wait", "its account is at some limit of resources", _COMES),
}

_OVER: Final[Mapping[str, Row]] = {
    "JobLaunchFailure": ("operator", "the node could not start it", _ENDED),
    "NonZeroExitCode": ("operator", "its script ended with an error", _ENDED),
    "RaisedSignal": ("operator", "its script was ended by a signal", _ENDED),
    "OutOfMemory": ("user", "it used more memory than it had asked for", "ask for more memory"),
    "TimeLimit": (
        "user",
        "its time is used up",
        f"ask for more by annotation {PREFIX}timeout of a new Pod",
    ),
    "InactiveLimit": ("operator", "Slurm ended it because nothing happened in it", _ASK),
}

REASONS: Final[Mapping[str, Row]] = {**_WAITS, **_ASKED_WRONG, **_STOPPED, **_OVER}
"""Every reason that is no limit of accounting."""

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
    "QOS": f"or choose another QOS by annotation {PREFIX}qos",
    "account": f"or choose another account by annotation {PREFIX}account",
}


def limit(reason: str) -> Row | None:
    """The meaning of a limit of accounting, or None where the name is none."""
    found = _LIMIT.fullmatch(reason)
    if not found:
        return None
    scope = "account" if found["scope"] == "Assoc" else "QOS"
    what = _WHAT[found["what"]]
    if found["time"]:
        what = f"minutes of {what}"
    if found["kind"] == "Min":
        return "user", f"its {scope} demands more {what} than it asks for", _OTHER[scope][3:]
    if found["kind"] == "Grp":
        return _shared(scope, what, used_up=found["time"] == "Minutes" or found["what"] == "Wall")
    return _maximum(found, scope, what=what)


def _shared(scope: str, what: str, *, used_up: bool) -> Row:
    """All jobs of one QOS or account are counted together."""
    together = f"the jobs of its {scope} together"
    if used_up:
        text = f"{together} have used up their {what}, or what is left is too little for it"
        return "operator", text, f"{_ASK} {_OTHER[scope]}"
    return "wait", f"with it {together} would have more {what} than they may", _some_end(scope)


def _maximum(found: re.Match[str], scope: str, *, what: str) -> Row:
    """One job, or all of one user or account, is counted."""
    per = found["per"].removeprefix("Per").lower()
    if per in ("user", "account") or "Job" in found["what"]:
        whose = per or "user"
        text = f"with it its {whose} would have more {what} than its {scope} allows one {whose}"
        return "wait", text, _some_end(scope)
    where = "on one node" if per == "node" else "one job"
    text = f"it asks for more {what} than its {scope} allows {where}"
    return "user", text, f"ask for less {_OTHER[scope]}"


def _some_end(scope: str) -> str:
    """Slurm gives one reason for others that hold it all and for one that can never have it."""
    enough = "it starts when enough of them have ended"
    return f"{enough}; if it alone asks for more than that, ask for less {_OTHER[scope]}"
