"""Which jobs may be requeued, and when (N28)."""

import re
from typing import Final

from sunk_sync.embedded.slurm.model.job import Job
from tests.sim.node_sets import truth
from tests.sim.node_sets.past import Past
from tests.sim.words import Object
from tests.sim.worlds import Worlds

OF_UPDATES: Final = ("update", "registration")
EARLY_S: Final = 0.5
"""sunk-sync reads the drain some milliseconds after its own write."""


def why_not(worlds: Worlds, past: Past, job: Job) -> str:
    """Return why this running job must not be requeued, or empty.

    An older state excuses it for a while: of the drain, of the Pod's mark, of the NodeSet.
    """
    (name,) = job.nodes
    if not job.request.requeue or job.request.kind != "batch":
        return "it must not be requeued"
    slot, pod, record = past.slots[name], past.pod(name), worlds.slurm.nodes.get(name)
    if any(map(past.is_recent, (past.touched_s.get(name), slot.asked_s, slot.left_s))):
        return ""
    if record is None or "DRAIN" not in record.flags:
        return f"{name} is not drained"
    cause = truth.condemned_for(pod) if pod is not None else ""
    if pod is None or not cause:
        return "" if past.is_recent(slot.condemned_s) else f"Pod {name} may stay"
    ran_s = worlds.now_s - past.drained_s(slot) + EARLY_S
    versions = past.versions(truth.owner_of(pod))
    if any(_allows(one, job, cause=cause, ran_s=ran_s) for one in versions):
        return ""
    return f"its NodeSet does not ask for it after {ran_s:.1f} s of {cause}"


def _allows(node_set: Object, job: Job, *, cause: str, ran_s: float) -> bool:
    asked = node_set["spec"].get("updateJobs") or {}
    if asked.get("method", "none") == "none":
        return False
    if asked["method"] == "partition" and job.partition not in asked["partitions"]:
        return False
    if cause in OF_UPDATES:
        return ran_s >= _seconds(asked.get("after", "0s"))
    timeout = node_set["spec"].get("scaleInTimeout")
    return timeout is not None and ran_s >= _seconds(timeout)


def _seconds(text: str) -> float:
    units = {"h": 3600, "m": 60, "s": 1}
    return float(sum(int(number) * units[unit] for number, unit in re.findall(r"(\d+)(.)", text)))
