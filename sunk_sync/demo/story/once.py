"""The fixed story, in two chapters: hosts, then Pods that Slurm schedules."""

from collections.abc import Sequence

from sunk_sync.demo.story import beats, outages, pod_beats
from sunk_sync.demo.story.beats import Beat
from sunk_sync.demo.story.tales import RING, USERS

DISK, FAN, GPU, KERNEL, SWITCH = (
    "disk replacement", "fan broken", "GPU 3 throws errors", "kernel update", "switch upgrade",
)  # fmt: skip
_BLIND = {"cordoned": "n5", "why": KERNEL, "uncordoned": "n9"}

OF_HOSTS: Sequence[Beat] = (
    outages.begin(),
    beats.cordon("n1", DISK),
    beats.uncordon("n1"),
    beats.drain_by_hand("n3", FAN),
    beats.resume("n3"),
    beats.retire("n4", "scale down"),
    beats.end_jobs("n4"),
    beats.delete_pod("n4"),
    beats.renew_pod("n4"),
    beats.lose_node("n6"),
    beats.find_node("n6"),
    beats.fall_ill("n7"),
    beats.recover("n7"),
    beats.cordon("n8", KERNEL),
    beats.take_over("n8", GPU),
    beats.uncordon_in_vain("n8", GPU),
    outages.stop_slurmctld("n9", SWITCH),
    outages.start_slurmctld("n9", SWITCH),
    outages.kill_service(**_BLIND),
    outages.start_service(**_BLIND),
    beats.uncordon("n5"),
    beats.resume("n8"),
)

ADA, ALAN, *_ = USERS

OF_PODS: Sequence[Beat] = (
    pod_beats.apply("train"),
    pod_beats.refuse("eval"),
    pod_beats.amend("eval"),
    pod_beats.preempt("eval", ADA),
    pod_beats.make_way("eval", ADA),
    pod_beats.cancel("train"),
    pod_beats.fill(ALAN),
    pod_beats.compete("low", "high"),
    pod_beats.overtake("high", "low", user=ADA),
    pod_beats.succeed("high", "low"),
    pod_beats.gather(RING),
    pod_beats.make_room(RING, "low", user=ALAN),
    pod_beats.kill_service(RING, "next"),
    pod_beats.start_service(RING, "next"),
    pod_beats.break_gang(RING, "next"),
    pod_beats.delete("next"),
)

STORY: Sequence[Beat] = (*OF_HOSTS, *OF_PODS, outages.end())
