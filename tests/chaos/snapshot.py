"""Everything that sunk-sync could change, at one moment, to compare it with a later one."""

from collections.abc import Iterator, Mapping
from typing import Any

from tests.real.testbed import Bed

LIVE = {"PENDING", "RUNNING", "SUSPENDED"}
OF_JOBS = ("name", "job_state", "nodes", "admin_comment", "submit_time", "start_time")
WRITTEN = ("reason", "comment")
PLANNED = "PLANNED"
"""Slurm's backfill sets this state of a node, and removes it some time later."""
Snapshot = Mapping[str, Any]
"""Object → what of it may not change by itself."""


def snapshot(bed: Bed, namespace: str) -> Snapshot:
    return {**dict(_of_kube(bed, namespace)), **dict(_of_slurm(bed))}


def _of_kube(bed: Bed, namespace: str) -> Iterator[tuple[str, Any]]:
    for path in ("/api/v1/nodes", f"/api/v1/namespaces/{namespace}/pods"):
        for one in bed.kube.rest.call("GET", path)["items"]:
            yield (
                f"{path.rpartition('/')[2]} {one['metadata']['name']} {one['metadata']['uid']}",
                {
                    "labels": one["metadata"].get("labels"),
                    "annotations": one["metadata"].get("annotations"),
                    "ends": one["metadata"].get("deletionTimestamp"),
                    "spec": one["spec"],
                    "conditions": _conditions(one),
                },
            )


def _conditions(one: Any) -> list[tuple[str, ...]]:
    found = one["status"].get("conditions", ())
    return sorted(
        (cond["type"], cond["status"], cond.get("reason", ""), cond.get("message", ""))
        for cond in found
        if cond["type"] != f"SlurmNodeState{PLANNED.capitalize()}"
    )


def _of_slurm(bed: Bed) -> Iterator[tuple[str, Any]]:
    for one in bed.slurm.rest.call("GET", bed.slurm.path("jobs/"))["jobs"]:
        if LIVE & set(one["job_state"]):
            yield f"job {one['job_id']}", {name: one[name] for name in OF_JOBS}
    for one in bed.slurm.slurm_nodes():
        states = sorted(set(one["state"]) - {PLANNED})
        yield (
            f"slurm node {one['name']}",
            {**{name: one[name] for name in WRITTEN}, "state": states},
        )


def differences(before: Snapshot, after: Snapshot) -> list[str]:
    """Name each object that came, went or changed, with the fields."""
    found = [f"{name} is gone" for name in sorted(before.keys() - after.keys())]
    found += [f"{name} is new" for name in sorted(after.keys() - before.keys())]
    for name in sorted(before.keys() & after.keys()):
        was, now = before[name], after[name]
        found += [
            f"{name}: {field} was {was[field]}, is {now[field]}"
            for field in was
            if was[field] != now[field]
        ]
    return found
