"""The fixed story: first hosts, then Pods scheduled by Slurm, then a NodeSet."""

from collections.abc import Sequence

from sunk_sync.demo.story import host_steps, node_set_steps, outages, pod_steps
from sunk_sync.demo.story.node_set_steps import NEW, OLD
from sunk_sync.demo.story.pod_incidents import RING, USERS
from sunk_sync.demo.story.step import Step

DISK, FAN, GPU, KERNEL, SWITCH = (
    "disk replacement", "fan broken", "GPU 3 throws errors", "kernel update", "switch upgrade",
)  # fmt: skip
_CHANGES = {"cordoned": "n5", "why": KERNEL, "uncordoned": "n9"}

OF_HOSTS: Sequence[Step] = (
    outages.begin(),
    host_steps.cordon("n1", DISK),
    host_steps.uncordon("n1"),
    host_steps.drain_by_hand("n3", FAN),
    host_steps.resume("n3"),
    host_steps.mark_for_deletion("n4", "scale down"),
    host_steps.end_jobs("n4"),
    host_steps.delete_pod("n4"),
    host_steps.create_pod("n4"),
    host_steps.delete_node("n6"),
    host_steps.create_node("n6"),
    host_steps.become_not_ready("n7"),
    host_steps.become_ready("n7"),
    host_steps.cordon("n8", KERNEL),
    host_steps.take_over("n8", GPU),
    host_steps.uncordon_after_take_over("n8", GPU),
    outages.stop_slurmctld("n9", SWITCH),
    outages.start_slurmctld("n9", SWITCH),
    outages.kill_service(**_CHANGES),
    outages.start_service(**_CHANGES),
    host_steps.uncordon("n5"),
    host_steps.resume("n8"),
)

ADA, ALAN, *_ = USERS

OF_PODS: Sequence[Step] = (
    pod_steps.apply("train"),
    pod_steps.refuse("eval"),
    pod_steps.correct("eval"),
    pod_steps.preempt("eval", ADA),
    pod_steps.end_preempted("eval", ADA),
    pod_steps.cancel("train"),
    pod_steps.fill(ALAN),
    pod_steps.compete("low", "high"),
    pod_steps.overtake("high", "low", user=ADA),
    pod_steps.replace("high", "low"),
    pod_steps.apply_gang(RING),
    pod_steps.free_machines(RING, "low", user=ALAN),
    pod_steps.kill_service(RING, "next"),
    pod_steps.start_service(RING, "next"),
    pod_steps.break_gang(RING, "next"),
    pod_steps.delete("next"),
)

OF_NODE_SETS: Sequence[Step] = (
    node_set_steps.grow(OLD),
    node_set_steps.run_job(),
    node_set_steps.update(OLD, NEW),
    node_set_steps.end_job(NEW),
    node_set_steps.go_to_zero(NEW),
)

STORY: Sequence[Step] = (*OF_HOSTS, *OF_PODS, *OF_NODE_SETS, outages.end())
