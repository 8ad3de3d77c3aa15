"""Gangs that are tried again and gangs of another size: rows G8 and G9."""

import itertools
from typing import Any

import pytest
from msgspec.structs import replace

from sunk_sync.core.explain.account import Account
from sunk_sync.core.explain.explain import explain
from sunk_sync.core.model.actions import Bind, EndPod, GetGang, SetScheduled
from sunk_sync.core.model.facts import Job, Pod
from sunk_sync.core.model.gang_size import GangSize
from sunk_sync.core.model.job_identity import workload_id
from sunk_sync.core.model.pod_spec import Gang, GangKind
from tests.kit.build import Core, deleted, gang_pod, identity, job, pod, room, two_hosts

SIZE = 3
GANG = Gang("job", "train", owner="uid-train")


def rank(number: int, *, attempt: int = 1, gang: Gang = GANG, **fields: Any) -> Pod:
    """Make a Pod of an Indexed Job."""
    return pod(f"train-{number}-{attempt}", gang=gang, created_s=10 * attempt + number, **fields)


def ran(number: int, *, phase: str = "Running", **fields: Any) -> Pod:
    """Make a Pod of the first attempt that was bound by job 7."""
    at = {"node_name": f"kn{number}", "job_id": "7", "bound_for": "7"}
    return rank(number, **{**at, "phase": phase, "ended": phase != "Running", **fields})


def failed(number: int) -> Pod:
    return ran(number, phase="Failed")


def succeeded(number: int) -> Pod:
    return ran(number, phase="Succeeded")


def over(*pods: Pod) -> Job:
    """Make the job of an attempt that sunk-sync ended because no Pod lives."""
    return job(*pods, state="CANCELLED", slurm_nodes=("n0", "n1", "n2"))


def runs(*pods: Pod) -> Job:
    return job(*pods, state="RUNNING", slurm_nodes=("n0", "n1", "n2"))


def known(core: Core, size: int = SIZE, **fields: Any) -> None:
    """Answer the read of the Job."""
    core.now += 0.01
    core.see(GangSize("job", "ns", "train", size, "", core.now, owner="uid-train", **fields))


def happens(core: Core, *news: Any) -> None:
    """Let this happen a little later."""
    core.now += 0.01
    core.see(*news)


def cluster(*rows: Any) -> Core:
    core = two_hosts(*room("n0"), *rows)
    known(core)
    return core


def messages(core: Core, of: Pod) -> dict[str, str]:
    core.wait(1)
    return {one.reference.name: one.message for one in core.workload_wants(of, SetScheduled)}


@pytest.mark.parametrize("cleaned", [False, True], ids=["Pods stay", "Pods are cleaned up"])
@pytest.mark.parametrize(
    "first",
    [
        [failed(0), failed(1), failed(2)],
        [succeeded(0), failed(1), failed(2)],
        [succeeded(0), succeeded(1), failed(2)],
    ],
    ids=["all failed", "one succeeded", "two succeeded"],
)
def test_the_ranks_that_failed_are_a_new_gang_with_a_new_job_G8(
    first: list[Pod], *, cleaned: bool
) -> None:
    again = [rank(int(one.name[6]), attempt=2) for one in first if one.phase == "Failed"]
    core = cluster(*first, over(*first), *again)
    happens(core, *(deleted("pods", one) for one in first if cleaned))
    known(core, succeeded=len(first) - len(again))
    submission = core.submission(again[0])
    assert submission, messages(core, again[0])
    assert submission.identity.workload == workload_id([one.uid for one in again])
    assert submission.description.slurm_nodes == len(again)


def test_a_new_attempt_waits_until_all_its_ranks_exist_G8() -> None:
    first = [succeeded(0), failed(1), failed(2)]
    core = cluster(*first, over(*first), rank(1, attempt=2))
    assert not core.submission(first[0])
    says = messages(core, first[0])
    assert says == {"train-1-2": "1 of the 2 Pods of its gang exist; 1 has succeeded"}


def test_a_new_attempt_waits_while_a_pod_of_the_last_one_ends_G8() -> None:
    first = [failed(0), failed(1), ran(2, terminating=True)]
    again = [rank(number, attempt=2) for number in range(SIZE)]
    core = cluster(*first, runs(*first), *again)
    assert not core.submission(again[0])
    assert set(messages(core, again[0])) == {one.name for one in again}
    assert all("starts again when" in one for one in messages(core, again[0]).values())
    happens(core, replace(first[2], ended=True, phase="Failed"))
    assert core.cancels(again[0]) == [("7", False)]
    happens(core, deleted("pods", first[2]), over(*first))
    known(core)
    assert core.submission(again[0])


@pytest.mark.parametrize("how", ["terminating", "gone"])
@pytest.mark.parametrize("end", [failed(0), succeeded(0)], ids=["failed", "succeeded"])
def test_the_clean_up_of_an_ended_member_ends_no_other_G8(end: Pod, how: str) -> None:
    first = [end, ran(1), ran(2)]
    core = cluster(*first, runs(*first))
    happens(core, replace(end, terminating=True))
    if how == "gone":
        happens(core, deleted("pods", end))
    assert not core.workload_wants(end, EndPod)
    assert not core.cancels(end)
    happens(core, replace(first[1], terminating=True))
    assert core.ends(end) == ["train-2-1"]


def test_a_member_that_ends_because_it_was_deleted_ends_the_others_G3() -> None:
    first = [ran(0), ran(1), ran(2)]
    core = cluster(*first, runs(*first))
    gone = replace(first[0], terminating=True)
    happens(core, gone)
    happens(core, replace(gone, ended=True, phase="Failed"))
    assert core.ends(gone) == ["train-1-1", "train-2-1"]
    happens(core, deleted("pods", gone))
    assert core.ends(gone) == ["train-1-1", "train-2-1"]


@pytest.mark.parametrize("cleaned", [False, True])
def test_a_pod_in_the_place_of_a_failed_member_ends_the_members_that_run_G8(
    *, cleaned: bool
) -> None:
    first = [failed(0), ran(1), ran(2)]
    core = cluster(*first, runs(*first))
    assert not core.workload_wants(first[1], EndPod)
    if cleaned:
        happens(core, deleted("pods", first[0]))
    again = rank(0, attempt=2)
    happens(core, again)
    ends = core.workload_wants(again, EndPod)
    assert [one.reference.name for one in ends] == ["train-1-1", "train-2-1"]
    assert ends[0].message == (
        "a member of the gang of job 7 failed, and Pod train-0-2 takes its place"
    )
    assert not core.cancels(again)
    happens(core, *(replace(one, terminating=True) for one in first[1:]))
    happens(core, *(replace(one, ended=True, phase="Failed") for one in first[1:]))
    assert core.cancels(again) == [("7", False)]
    happens(core, *(deleted("pods", one) for one in first[1:]))
    happens(core, over(*first), rank(1, attempt=2), rank(2, attempt=2))
    known(core)
    assert core.submission(again).description.slurm_nodes == SIZE


def test_a_surplus_pod_ends_nobody_when_a_member_has_succeeded_G7() -> None:
    first = [succeeded(0), ran(1), ran(2)]
    core = cluster(*first, runs(*first), rank(0, attempt=2))
    assert not core.workload_wants(first[1], EndPod)
    assert "as many Pods as its size" in messages(core, first[1])["train-0-2"]


def test_a_member_is_bound_after_the_clean_up_of_one_that_has_ended_G8() -> None:
    first = [succeeded(0), ran(1), rank(2)]
    core = cluster(*first, runs(*first))
    happens(core, deleted("pods", first[0]))
    assert [bind.reference.name for bind in core.workload_wants(first[1], Bind)] == ["train-2-1"]


def test_a_member_that_ended_before_it_was_bound_ends_the_gang_G3() -> None:
    first = [rank(0, ended=True, phase="Failed"), ran(1), ran(2)]
    core = cluster(*first, runs(*first))
    assert core.ends(first[1]) == ["train-1-1", "train-2-1"]


def test_bare_pods_may_take_the_name_of_a_gang_that_is_over_G8() -> None:
    """Their ends say nothing about the new ones: nobody makes bare Pods again."""
    ring = Gang("annotation", "ring", 2)
    ended = [replace(succeeded(number), gang=ring) for number in range(2)]
    new = [rank(number, attempt=2, gang=ring) for number in range(2)]
    core = two_hosts(*ended, over(*ended), *new)
    assert core.submission(new[0]).description.slurm_nodes == 2


def test_pods_of_one_owner_count_those_that_succeeded_also_by_annotation_G8() -> None:
    ring = Gang("annotation", "ring", 2, owner="uid-job")
    first = [replace(one, gang=ring) for one in (succeeded(0), failed(1))]
    again = rank(1, attempt=2, gang=ring)
    core = two_hosts(*first, over(*first), again)
    assert core.submission(again).description.slurm_nodes == 1


def test_a_half_lost_gang_ends_when_a_failed_member_is_made_again_G8() -> None:
    first = [failed(0), ran(1), ran(2)]
    core = cluster(*first)
    core.lose_jobs()
    assert not core.workload_wants(first[1], EndPod)
    happens(core, rank(0, attempt=2))
    assert core.ends(first[1]) == ["train-1-1", "train-2-1"]


def test_a_job_of_the_same_name_is_another_gang_G9() -> None:
    """Two, deleted and applied again with three: the third waited for ever."""
    old = [ran(number, terminating=True) for number in range(2)]
    core = two_hosts(*room("n0"), *old, runs(*old))
    known(core, 2)
    new = [rank(number, attempt=2, gang=replace(GANG, owner="again")) for number in range(3)]
    happens(core, *new)
    (look,) = core.workload_wants(new[0], GetGang)
    assert (look.name, look.owner) == ("train", "again")
    happens(core, GangSize("job", "ns", "train", 3, "", core.now, owner="again"))
    assert core.submission(new[0]).description.slurm_nodes == 3


def test_the_size_is_read_again_when_the_pods_are_complete_G9() -> None:
    core = two_hosts(*room("n0"), rank(0))
    known(core, 2)
    happens(core, rank(1))
    assert not core.submission(rank(0))
    assert core.workload_wants(rank(0), GetGang)
    known(core, 3)
    assert not core.submission(rank(0))
    assert "2 of the 3" in messages(core, rank(0))["train-0-1"]
    happens(core, rank(2))
    assert not core.submission(rank(0))
    known(core, 3)
    assert core.submission(rank(0)).description.slurm_nodes == 3


def test_an_incomplete_gang_reads_its_size_at_growing_intervals_G9() -> None:
    core = two_hosts(rank(0))
    known(core)
    reads = []
    for _ in range(2000):
        core.wait(1)
        if core.workload_wants(rank(0), GetGang):
            reads.append(round(core.now - 1000))
            known(core)
    pauses = [round(later - earlier) for earlier, later in itertools.pairwise(reads)]
    assert pauses[0] in (30, 31)
    assert all(later > 1.9 * earlier for earlier, later in itertools.pairwise(pauses[:4]))
    assert set(pauses[4:]) <= {300, 301}


@pytest.mark.parametrize("size", [3, 2])
def test_a_gang_that_waits_gets_a_job_of_its_new_size_G9(size: int) -> None:
    """An elastic Indexed Job: completions and parallelism change together."""
    first = [rank(number) for number in range({3: 2, 2: 3}[size])]
    core = two_hosts(*room("n0"), *first, job(*first))
    known(core, len(first))
    if size == 3:
        happens(core, rank(2))
        assert core.workload_wants(first[0], GetGang)
        assert not core.cancels(first[0])
        known(core, size)
    else:
        happens(core, deleted("pods", first[2]))
    assert core.cancels(first[0]) == [("7", True)]
    replaced = identity(*first, replaced=True)
    happens(core, job(*first, state="CANCELLED", identity=replaced))
    if size == 2:
        core.wait(1)
        assert core.workload_wants(first[0], GetGang)
        known(core, size)
    core.wait(3)
    assert core.submission(first[0]).description.slurm_nodes == size


@pytest.mark.parametrize("size", [2, 4])
def test_a_waiting_job_stays_while_its_size_is_the_same_or_pods_are_missing_G9(size: int) -> None:
    first = [rank(0), rank(1)]
    core = two_hosts(*room("n0"), *first, job(*first))
    happens(core, rank(2))
    known(core, size)
    assert not core.cancels(first[0])
    assert "as many Pods as its size" in messages(core, first[0])["train-2-1"]


def test_a_gang_that_runs_keeps_its_size_G9() -> None:
    first = [ran(0), ran(1)]
    core = two_hosts(*room("n0"), *first, job(*first, state="RUNNING", slurm_nodes=("n0", "n1")))
    happens(core, rank(2))
    known(core)
    assert not core.workload_wants(first[0], EndPod, GetGang)
    assert not core.cancels(first[0])
    happens(core, succeeded(0), succeeded(1), over(*first))
    known(core, succeeded=2)
    assert core.submission(first[0]).description.slurm_nodes == 1


def test_min_member_of_a_pod_group_is_the_number_of_its_pods_G7() -> None:
    group = Gang("group", "pair")
    pods = [rank(number, gang=group) for number in range(3)]
    core = two_hosts(*room("n0"), *pods)
    happens(core, GangSize("group", "ns", "pair", 2, "", core.now))
    assert core.submission(pods[0]).description.slurm_nodes == 2
    full = "its gang already has as many Pods as its size"
    why = f"{full}: minMember of PodGroup pair is the number of its Pods"
    assert messages(core, pods[0])["train-2-1"] == why


@pytest.mark.parametrize("succeeded", [1, 0], ids=["it succeeded", "it was deleted"])
def test_after_a_restart_the_job_says_whether_a_missing_member_has_succeeded_G3_G8(
    succeeded: int,
) -> None:
    first = [succeeded_before, *others] = [ran(0), ran(1), ran(2)]
    core = two_hosts(*room("n0"), *others, runs(*first))
    core.now += 1
    core.answer(succeeded_before, "no")
    assert core.workload_wants(others[0], GetGang)
    assert not core.workload_wants(others[0], EndPod)
    known(core, succeeded=succeeded)
    assert core.ends(others[0]) == ["train-1-1", "train-2-1"] * (not succeeded)
    assert not core.cancels(others[0])


def explained(core: Core) -> Account:
    account = explain(core.reconciler, kind="gang", name="ns/train", now=core.now)
    assert isinstance(account, Account)
    return account


def test_explain_of_a_second_attempt_names_what_is_missing_and_no_earlier_job_G8() -> None:
    first = [failed(0), failed(1), failed(2)]
    core = cluster(*first, over(*first), rank(0, attempt=2))
    core.wait(1)
    cures = " / ".join(explained(core).cures)
    assert "Complete the gang: 1 of the 3" in cures
    assert "resubmit" not in cures


def test_explain_of_a_gang_says_why_a_further_pod_waits_G7_G8() -> None:
    first = [ran(0), ran(1), failed(2)]
    core = cluster(*first, runs(*first), rank(2, attempt=2))
    account = explained(core)
    assert [fact for fact in account.facts if fact.what == "Pod ns/train-2-2"]
    assert "Pod train-2-2 waits: its gang starts again when" in " / ".join(account.cures)


@pytest.mark.parametrize("kind", ["group", "annotation"])
def test_a_gang_applied_again_under_its_name_waits_for_the_earlier_pods_G9(kind: GangKind) -> None:
    """Their Pods do not say which PodGroup they meant, so both are one gang."""

    def sized(size: int) -> Gang:
        return Gang(kind, "pair", size if kind == "annotation" else 0)

    def read(core: Core, size: int) -> None:
        core.now += 0.01
        core.see(GangSize("group", "ns", "pair", size, "", core.now))

    old = [ran(number, gang=sized(2), terminating=True) for number in range(2)]
    held = job(*old, state="RUNNING", slurm_nodes=("n0", "n1"))
    new = [rank(number, attempt=2, gang=sized(3)) for number in range(3)]
    core = two_hosts(*room("n0"), *old, held, *new)
    read(core, 2)
    assert set(messages(core, new[0])) == {one.name for one in new}
    happens(core, *(deleted("pods", one) for one in old))
    read(core, 3)
    assert core.submission(new[0]).description.slurm_nodes == 3


def test_a_waiting_gang_whose_annotation_names_another_size_gets_another_job_G9() -> None:
    ring = [gang_pod("a"), gang_pod("b")]
    core = two_hosts(*room("n0"), *ring, job(*ring))
    larger = [gang_pod(name, size=3) for name in "abc"]
    happens(core, larger[2])
    assert not core.cancels(ring[0])
    happens(core, *larger)
    assert core.cancels(ring[0]) == [("7", True)]
