"""The fixed story of half a minute."""

from collections.abc import Sequence

from sunk_sync.demo import beats, outages
from sunk_sync.demo.beats import Beat

DISK, FAN, GPU, KERNEL, SWITCH = (
    "disk replacement", "fan broken", "GPU 3 throws errors", "kernel update", "switch upgrade",
)  # fmt: skip
_BLIND = {"cordoned": "n10", "why": KERNEL, "uncordoned": "n9"}

STORY: Sequence[Beat] = (
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
    beats.uncordon("n10"),
    beats.resume("n8"),
    outages.end(),
)
