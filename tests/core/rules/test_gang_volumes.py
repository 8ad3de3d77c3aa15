"""Gangs whose members have volumes in different places (rows G1, P7, P8)."""

import random
from collections.abc import Sequence
from itertools import permutations
from typing import Any

import pytest
from msgspec.structs import replace

from sunk_sync.core.model.actions import Bind, CancelJob, UpdateJob
from sunk_sync.core.model.facts import Job, Pod, Row
from sunk_sync.core.model.keys import workload_key_of
from sunk_sync.core.model.outcomes import Refused, shown_by
from sunk_sync.core.model.pod_spec import Requirement, Term
from sunk_sync.core.translate.volume_fit import OUT_OF_REACH
from sunk_sync.core.workloads.gang_hosts import NOT_TOGETHER, assign
from tests.core.rules.test_volumes import (
    MADE_IN_A,
    OURS,
    ZONE,
    bound,
    claim,
    cluster,
    host,
    volume,
    wants_of_volumes,
)
from tests.kit.build import SMALL, Core, gang_pod, job, running


def gang(*names: str, **fields: Any) -> list[Pod]:
    """Return the members, each with a claim of its own name."""
    size = len(names)
    return [
        gang_pod(name, size=size, spec=SMALL, volume_claims=(f"c-{name}",), **fields)
        for name in names
    ]


def placed(**nodes: str) -> list[Row]:
    """Return bound claims and their volumes; `nodes` has the one Node of each, or none."""
    rows: list[Row] = []
    for name, node_name in nodes.items():
        reached = (node_name,) if node_name else ()
        rows.append(bound(f"c-{name}", f"v-{name}"))
        rows.append(volume(f"v-{name}", *reached, claim=f"ns/c-{name}"))
    return rows


def in_zone(name: str, zone: str) -> list[Row]:
    of_zone = volume(f"v-{name}", claim=f"ns/c-{name}")
    terms = (Term((Requirement(ZONE, "In", (zone,)),)),)
    return [bound(f"c-{name}", f"v-{name}"), replace(of_zone, terms=terms)]


def five(*rows: Row) -> Core:
    """Return hosts n1, n2, n4 in zone a, and n3, n5 in zone b."""
    return cluster(*host("n4"), *host("n5", "b"), *rows)


def hosts_asked(core: Core, pods: Sequence[Pod]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the hosts that the submitted job requires, and those that it excludes."""
    submission = core.submission(pods[0])
    required = submission.description.required_nodes
    return tuple(filter(None, required.split(","))), submission.excluded


P1, P2, P3 = "p1", "p2", "p3"


@pytest.mark.parametrize(
    ("rows", "required", "excluded"),
    [
        (placed(p1="kn1", p2="kn3"), ("n1", "n3"), ("n2", "n4", "n5")),
        (placed(p1="kn3", p2=""), ("n3",), ()),
        ([*placed(p1="kn2"), claim("c-p2")], ("n2",), ()),
        ([*placed(p1="kn3"), *in_zone(P2, "a")], ("n3",), ("n5",)),
        ([*in_zone(P1, "a"), *in_zone(P2, "a")], (), ("n3", "n5")),
        ([*in_zone(P1, "a"), *placed(p2="")], (), ("n3", "n5")),
        (placed(p1="", p2=""), (), ()),
    ],
    ids=[
        "two hosts", "one host and anywhere", "one host and one not made yet",
        "one host and a zone", "the same zone", "a zone and anywhere", "anywhere",
    ],
)  # fmt: skip
def test_the_job_of_a_gang_gets_the_hosts_of_its_volumes_P8(
    rows: list[Row], required: tuple[str, ...], excluded: tuple[str, ...]
) -> None:
    pods = gang(P1, P2)
    assert hosts_asked(five(*pods, *rows), pods) == (required, excluded)


def test_hosts_that_the_user_requires_stay_required_P8() -> None:
    settings = (("required-nodes", "n2"),)
    pods = gang(P1, P2, settings=settings)
    core = five(*pods, *placed(p1="kn3", p2=""))
    assert hosts_asked(core, pods)[0] == ("n2", "n3")


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        (placed(p1="kn1", p2="kn1", p3="kn2"), "only n1 reaches the volumes of Pods p1 and p2"),
        (placed(p1="kn1", p2="kn1", p3="kn1"), "4 node(s) didn't match PersistentVolume's"),
        (
            [*in_zone(P1, "a"), *in_zone(P2, "b"), *placed(p3="kn1")],
            "in different places with several hosts each",
        ),
        (placed(p1="kn9", p2="kn1", p3="kn2"), "no host reaches the volumes of Pod p1"),
    ],
    ids=["one host for two", "one host for all", "two zones", "no host"],
)
def test_a_gang_that_no_job_can_hold_is_told_why_P8(rows: list[Row], why: str) -> None:
    pods = gang(P1, P2, P3)
    core = five(*pods, *rows)
    assert core.submission(pods[0]) is None
    assert why in str(core.workload_verdict(pods[0]).because)


@pytest.mark.parametrize(
    ("rows", "nodes"),
    [
        (placed(p1="kn3", p2="kn1"), ("kn3", "kn1")),
        (placed(p1="", p2="kn1"), ("kn3", "kn1")),
        (placed(p1="kn3", p2=""), ("kn3", "kn1")),
        (placed(p1="", p2=""), ("kn1", "kn3")),
        ([*in_zone(P1, "b"), *placed(p2="")], ("kn3", "kn1")),
    ],
    ids=["both", "the second", "the first", "anywhere", "by zone"],
)
def test_each_member_is_bound_where_its_volumes_are_P8(
    rows: list[Row], nodes: tuple[str, ...]
) -> None:
    pods = gang(P1, P2)
    core = five(*pods, running(*pods, at=("n1", "n3")), *rows)
    bindings = core.workload_wants(pods[0], Bind)
    assert {want.reference.name: want.node_name for want in bindings} == dict(
        zip((P1, P2), nodes, strict=True)
    )


def test_a_member_is_bound_beside_one_that_is_bound_already_P8() -> None:
    first, second, third = gang(P1, P2, P3)
    first = replace(first, node_name="kn3", job_id="7")
    core = five(
        first, second, third, running(first, second, third, at=("n1", "n2", "n3")),
        *placed(p1="", p2="kn2", p3="kn1"),
    )  # fmt: skip
    bindings = core.workload_wants(second, Bind)
    nodes = {want.reference.name: want.node_name for want in bindings}
    assert nodes == {P2: "kn2", P3: "kn1"}


def test_a_job_whose_hosts_do_not_reach_all_volumes_is_given_up_P8() -> None:
    pods = gang(P1, P2)
    core = five(*pods, running(*pods, at=("n1", "n2")), *placed(p1="kn1", p2="kn3"))
    (cancel,) = core.workload_wants(pods[0], CancelJob)
    assert cancel.replaced
    assert NOT_TOGETHER in str(core.workload_verdict(pods[0]).because)
    assert not core.workload_wants(pods[0], Bind)


def test_volumes_are_made_where_each_member_will_be_P8() -> None:
    pods = gang(P1, P2)
    core = five(*pods, running(*pods, at=("n1", "n3")), claim("c-p1"), *placed(p2="kn1"))
    assert [want.node_name for want in wants_of_volumes(core, pods[0])] == ["kn3"]


def test_members_keep_their_hosts_while_a_volume_is_made_P8() -> None:
    """Simulator: the provisioner had begun on the first Node when another one was selected."""
    pods = gang(P1, P2)
    core = five(
        *pods, MADE_IN_A, claim("c-p2"), *placed(p1=""), running(*pods, at=("n1", "n3"))
    )  # fmt: skip
    (select,) = wants_of_volumes(core, pods[0])
    assert (select.reference.name, select.node_name) == ("c-p2", "kn1")
    core.see(claim("c-p2", selected_node="kn1", selected_for=OURS))
    assert not wants_of_volumes(core, pods[0])


def test_a_gang_that_slurm_requeued_to_other_hosts_takes_its_selection_with_it_P8() -> None:
    pods = gang(P1, P2)
    core = five(
        *pods, MADE_IN_A, *placed(p1=""), running(*pods, at=("n2", "n4")),
        claim("c-p2", selected_node="kn1", selected_for=OURS),
    )  # fmt: skip
    (select,) = wants_of_volumes(core, pods[0])
    assert select.node_name in ("kn2", "kn4")


def test_a_gang_is_told_which_hosts_its_volumes_close_P8() -> None:
    pods = gang(P1, P2)
    core = five(*pods, *placed(p1="kn3"), *in_zone(P2, "a"))
    reasons = core.graph.workloads.reasons_of(workload_key_of(pods[0]), pods)
    assert {name for name, why in reasons.items() if not why} == {"n1", "n2", "n3", "n4"}
    assert reasons["n5"] == (OUT_OF_REACH,)


def waiting(core: Core, pods: Sequence[Pod]) -> Job:
    """Return the job that the core wants, as it waits in Slurm."""
    identity = core.submission(pods[0]).identity
    return job(*pods, identity=identity)


def test_a_waiting_job_of_a_gang_follows_its_volumes_P7() -> None:
    pods = gang(P1, P2)
    core = five(*pods, *placed(p1="kn1", p2=""))
    core.see(waiting(core, pods))
    assert not core.workload_wants(pods[0], UpdateJob)
    core.see(*placed(p1="kn3"))
    (update,) = core.workload_wants(pods[0], UpdateJob)
    assert update.description.required_nodes == "n3"
    assert update.change == "hosts"
    refused = Refused(update, "no such hosts", number=2014)
    assert not core.see(*shown_by(refused, asked_s=core.now)), "it would be sent again at once"


def test_a_required_host_is_required_again_after_a_job_was_given_up_P32() -> None:
    pods = gang(P1, P2)
    core = five(*pods, *placed(p1="kn1", p2=""))
    lost = running(*pods, at=("n1", "n2"), job_id="6")
    core.see(lost)
    gone = replace(lost.identity, replaced=True)
    core.see(replace(lost, state=frozenset({"CANCELLED"}), identity=gone))
    assert hosts_asked(core, pods)[0] == ("n1",)
    assert "n1" not in hosts_asked(core, pods)[1]


@pytest.mark.parametrize(
    ("hosts", "chosen"),
    [
        ([["a", "b"], ["a", "b"]], ["a", "b"]),
        ([["a", "b"], ["a"]], ["b", "a"]),
        ([["a", "b"], ["b", "c"], ["a", "c"]], ["a", "b", "c"]),
        ([["a", "b"], ["a", "b"], ["a", "b"]], None),
        ([["a", "b", "c"], ["a", "b"], ["a", "b"]], ["c", "a", "b"]),
        ([["b", "c"], ["a", "b"], ["a", "b"], ["c", "d"]], ["c", "a", "b", "d"]),
        ([["a"], []], None),
    ],
)
def test_members_get_a_host_each_if_that_is_possible_G1(
    hosts: list[list[str]], chosen: list[str] | None
) -> None:
    assert assign(hosts) == chosen


@pytest.mark.parametrize(
    ("mode", "has_job"),
    [("ReadWriteMany", True), ("ReadWriteOnce", False), ("ReadWriteOncePod", False)],
)
def test_members_of_a_gang_cannot_share_a_claim_of_one_node_P8(mode: str, *, has_job: bool) -> None:
    pods = [gang_pod(name, spec=SMALL, volume_claims=("shared",)) for name in (P1, P2)]
    core = five(*pods, claim("shared", modes=(mode,)))
    assert (core.submission(pods[0]) is not None) is has_job
    if not has_job:
        assert f'use persistentvolumeclaim "shared" ({mode})' in str(
            core.workload_verdict(pods[0]).because
        )


def test_an_assignment_is_found_exactly_if_there_is_one_G1() -> None:
    """Compared with all permutations, in 500 random cases; some members share a list."""
    rng = random.Random(1)
    found = 0
    for _ in range(500):
        lists = [sorted(rng.sample("abcde", rng.randint(1, 3))) for _ in range(3)]
        hosts = [rng.choice(lists) for _ in range(4)]
        chosen = assign(hosts)
        possible = any(
            all(host in of for host, of in zip(one, hosts, strict=True))
            for one in permutations("abcde", len(hosts))
        )
        assert (chosen is not None) is possible
        if chosen is not None:
            found += 1
            assert len(set(chosen)) == len(hosts)
            assert all(host in of for host, of in zip(chosen, hosts, strict=True))
    assert 100 < found < 400
