"""The plan of the faults: from the seed alone, and everything is tried."""

import random

from tests.chaos.faults import CHOICES, Fault, draw


def drawn(seed: int, *, replicas: int = 2, times: int = 400) -> list[list[Fault]]:
    rng = random.Random(seed)
    return [draw(rng, replicas=replicas) for _ in range(times)]


def test_a_seed_gives_the_same_faults_again() -> None:
    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)


def test_two_faults_at_once_are_of_different_groups() -> None:
    together = [faults for faults in drawn(1) if len(faults) == 2]
    assert together
    assert all(one.group != two.group for one, two in together)


def test_every_fault_is_tried_on_every_replica() -> None:
    every = [fault for faults in drawn(1, times=4000) for fault in faults]
    assert {(one.group, one.kind) for one in every} == {(one.group, one.kind) for one in CHOICES}
    targets = {one.target for one in every}
    ways = {f"replica-{number} {way}" for number in (1, 2) for way in ("to_kube", "to_slurm")}
    assert {"replica-1", "replica-2", "slurmd-n1", "slurmd-n9", "to_hooks", *ways} <= targets


def test_a_single_replica_has_no_second_one() -> None:
    every = [fault for faults in drawn(1, replicas=1) for fault in faults]
    assert not [one for one in every if "replica-2" in one.target]
