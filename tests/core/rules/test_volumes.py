"""Volumes of Pods: hosts that reach them, volumes that are bound where the job runs (row P8)."""

from typing import Any

import pytest
from msgspec.structs import replace

from sunk_sync.core.model.actions import Bind, SetScheduled
from sunk_sync.core.model.facts import Pod, Row, reference_of
from sunk_sync.core.model.keys import CLUSTER
from sunk_sync.core.model.pod_spec import PodRules, PodTerm, Requirement, Term
from sunk_sync.core.model.volume_actions import (
    GetProvisioning,
    ReserveVolume,
    SelectNode,
    UnselectNode,
)
from sunk_sync.core.model.volumes import ProvisionerSaid, StorageClass, Volume, VolumeClaim
from tests.kit.build import (
    OFFER,
    SCHEDULER,
    SMALL,
    Core,
    deleted,
    gang_pod,
    job,
    node,
    pod,
    room,
    running,
)

HOSTNAME, ZONE = "kubernetes.io/hostname", "zone"
LOCAL = StorageClass(name="local", uid="c1", waits=True)
MADE = StorageClass(name="made", uid="c2", waits=True, provisioner="example.com/disk")
MADE_IN_A = replace(MADE, terms=(Term((Requirement(ZONE, "In", ("a",)),)),))
AT_ONCE = StorageClass(name="at-once", uid="c3", provisioner="example.com/disk")
CLASSES = (LOCAL, MADE, AT_ONCE)
OURS = f"{SCHEDULER}/7"
"""What a claim notes of job 7, the standard one."""
ONE_MODE = ("ReadWriteOnce",)
LABELS = (("app", "web"),)
APART = replace(
    SMALL, rules=PodRules(apart=(PodTerm(HOSTNAME, (Requirement("app", "In", ("web",)),)),))
)


def host(name: str, zone: str = "a") -> list[Row]:
    labels = ((HOSTNAME, f"k{name}"), (ZONE, zone))
    rows = room(name)
    return [node(f"k{name}", offer=replace(OFFER, labels=labels)), *rows[1:]]


def user(name: str = "p1", *claims: str, **fields: Any) -> Pod:
    """Return a Pod with these claims, by default one of its own name."""
    given = {"spec": SMALL, "volume_claims": claims or (f"c-{name}",)}
    return pod(name, **{**given, **fields})


def claim(name: str = "c-p1", storage_class: str = "made", **fields: Any) -> VolumeClaim:
    standard = {"namespace": "ns", "uid": f"u-{name}", "modes": ONE_MODE, "size": 10}
    return VolumeClaim(name=name, storage_class=storage_class, **{**standard, **fields})


def volume(name: str, *nodes: str, storage_class: str = "local", **fields: Any) -> Volume:
    """Return a volume that these Nodes reach; none named: all."""
    terms = (Term((Requirement(HOSTNAME, "In", nodes),)),) if nodes else None
    standard: dict[str, Any] = {
        "uid": f"u-{name}", "size": 10, "modes": ONE_MODE, "available": not fields.get("claim"),
    }  # fmt: skip
    return Volume(name=name, storage_class=storage_class, terms=terms, **{**standard, **fields})


def bound(name: str = "c-p1", to: str = "v1", **fields: Any) -> VolumeClaim:
    return claim(name, "local", volume=to, bound=True, **fields)


def cluster(*rows: Row, **chosen: Any) -> Core:
    """Return hosts n1 and n2 in zone a, n3 in zone b, the classes, and these rows."""
    return Core(*host("n1"), *host("n2"), *host("n3", "b"), *CLASSES, *rows, **chosen)


def wants_of_volumes(core: Core, of: Pod) -> list[Any]:
    return core.workload_wants(of, ReserveVolume, SelectNode)


@pytest.mark.parametrize(
    ("rows", "excluded"),
    [
        ([bound(), volume("v1", "kn2", claim="ns/c-p1")], ("n1", "n3")),
        ([bound(), volume("v1", claim="ns/c-p1")], ()),
        ([bound(), replace(volume("v1", claim="ns/c-p1"), terms=MADE_IN_A.terms)], ("n3",)),
        ([claim(storage_class="local"), volume("v1", "kn3")], ("n1", "n2")),
        ([claim(storage_class="local"), volume("v1", "kn3"), volume("v2", "kn1")], ("n2",)),
        ([claim(storage_class="local"), volume("v1", "kn3"), volume("v2", "kn1", size=9)],
         ("n1", "n2")),
        ([claim(storage_class="local", size=11), volume("v1", "kn3", size=12), volume("v2", "kn1")],
         ("n1", "n2")),
        ([claim(storage_class="local", selector=(Requirement("disk", "In", ("ssd",)),)),
          volume("v1", "kn1"), volume("v2", "kn2", labels=(("disk", "ssd"),))], ("n1", "n3")),
        ([claim(storage_class="local"), volume("v1", "kn1"),
          volume("v2", "kn2", claim="ns/c-p1", claim_uid="u-c-p1")], ("n1", "n3")),
        ([claim(storage_class="local", attributes_class="fast"), volume("v1", "kn1"),
          volume("v2", "kn2", attributes_class="fast")], ("n1", "n3")),
        ([claim()], ()),
        ([claim(), MADE_IN_A], ("n3",)),
        ([claim(selected_node="kn3")], ("n1", "n2")),
    ],
    ids=[
        "bound", "reached from everywhere", "bound in a zone", "the one free volume",
        "two free volumes", "too small", "the only one that is large enough", "by its selector",
        "reserved for it", "of its VolumeAttributesClass", "made anywhere", "made in one zone",
        "made for another scheduler",
    ],
)  # fmt: skip
def test_a_job_excludes_hosts_that_reach_no_volume_of_its_pod_P8(
    rows: list[Row], excluded: tuple[str, ...]
) -> None:
    mine = user()
    classes = [one for one in rows if isinstance(one, StorageClass)]
    core = cluster(mine, *[one for one in rows if one not in classes])
    for one in classes:
        core.see(one)
    assert core.submission(mine).excluded == excluded


@pytest.mark.parametrize(
    ("volumes", "excluded"),
    [
        ([volume("v1", "kn1"), volume("v2", "kn2"), volume("v3", "kn2")], ("n1", "n3")),
        ([volume("v1", "kn1"), volume("v2", "kn2"), volume("v3", "kn2", size=5)], None),
        ([volume("v1", "kn1", "kn2"), volume("v2", "kn2")], ("n1", "n3")),
        ([volume("v1", "kn1"), volume("v2")], ("n2", "n3")),
    ],
    ids=["two on one Node", "one is too small", "one that two Nodes reach", "one from everywhere"],
)
def test_a_host_needs_a_free_volume_for_each_claim_of_a_pod_P8(
    volumes: list[Row], excluded: tuple[str, ...] | None
) -> None:
    mine = user("p1", "c-p1", "c-p2")
    claims = [claim(name, storage_class="local") for name in mine.volume_claims]
    core = cluster(mine, *claims, *volumes)
    submission = core.submission(mine)
    assert (submission.excluded if submission is not None else None) == excluded


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], 'persistentvolumeclaim "c-p1" not found'),
        ([claim(terminating=True)], 'persistentvolumeclaim "c-p1" is being deleted'),
        ([claim(storage_class="at-once")],
         'pod has unbound immediate PersistentVolumeClaims: persistentvolumeclaim "c-p1"'),
        ([claim(storage_class="")],
         'pod has unbound immediate PersistentVolumeClaims: persistentvolumeclaim "c-p1"'),
        ([claim(storage_class="none")],
         'storageclass "none" of persistentvolumeclaim "c-p1" not found'),
        ([bound()], 'persistentvolume "v1" of persistentvolumeclaim "c-p1" not found'),
        ([bound(modes=("ReadWriteOncePod",)), volume("v1", claim="ns/c-p1"),
          user("p2", "c-p1", node_name="kn1")],
         'another Pod uses persistentvolumeclaim "c-p1", and its mode is ReadWriteOncePod'),
        ([claim(storage_class="local")],
         "0/3 nodes are available: 3 node(s) didn't find available persistent volumes to bind"),
    ],
    ids=["missing", "terminating", "at once", "no class", "unknown class", "unknown volume",
         "one Pod at a time", "no free volume"],
)  # fmt: skip
def test_a_pod_without_its_volumes_gets_no_job_and_is_told_why_P8(
    rows: list[Row], message: str
) -> None:
    mine = user()
    core = cluster(mine, *rows)
    core.wait(2)
    assert core.submission(mine) is None
    (shown,) = core.workload_wants(mine, SetScheduled)
    assert shown.message == message


def test_a_pod_waits_until_its_claims_were_read_P8() -> None:
    mine = user()
    core = Core(*host("n1"), mine, listed=False)
    for source in ("nodes", "slurmd_pods", "slurm_nodes", "pods", "jobs"):
        core.see_listing(source, *(one for one in (*host("n1"), mine) if _is_of(one, source)))
    assert core.submission(mine) is None
    core.see_listing("volume_claims", claim())
    core.see_listing("volumes")
    assert core.submission(mine) is None
    core.see_listing("storage_classes", MADE)
    assert core.submission(mine) is None
    core.see_listing("csi_nodes")
    core.see_listing("csi_drivers")
    assert core.submission(mine) is None
    core.see_listing("storage_capacities")
    assert core.submission(mine) is not None


def _is_of(row: Row, source: str) -> bool:
    kinds = {"Node": "nodes", "SlurmdPod": "slurmd_pods", "SlurmNode": "slurm_nodes", "Pod": "pods"}
    return kinds.get(type(row).__name__) == source


def test_a_missing_claim_that_appears_lets_the_pod_go_on_P8() -> None:
    mine = user()
    core = cluster(mine)
    assert core.submission(mine) is None
    core.see(claim())
    assert core.submission(mine) is not None


@pytest.mark.parametrize(
    ("rows", "wants"),
    [
        ([claim()], [SelectNode(reference_of(claim()), "kn1", OURS)]),
        ([claim(storage_class="local"), volume("v1", "kn1")],
         [ReserveVolume(reference_of(volume("v1")), reference_of(claim()))]),
        ([claim(storage_class="local"), volume("v1", "kn1", size=12), volume("v2", "kn1")],
         [ReserveVolume(reference_of(volume("v2")), reference_of(claim()))]),
        ([claim(selected_node="kn1", selected_for=OURS)], []),
        ([claim(selected_node="kn2", selected_for=OURS)],
         [SelectNode(reference_of(claim()), "kn1", OURS)]),
        ([claim(storage_class="local"),
          volume("v1", "kn1", claim="ns/c-p1", claim_uid="u-c-p1")], []),
        ([claim(storage_class="local"), volume("v1", "kn1", claim="ns/c-p1", available=True)],
         [ReserveVolume(reference_of(volume("v1")), reference_of(claim()))]),
    ],
    ids=["made there", "a free one", "the smallest", "being made", "moved with its job",
         "reserved already", "reserved by name"],
)  # fmt: skip
def test_a_claim_gets_its_volume_where_the_job_runs_before_the_pod_is_bound_P8(
    rows: list[Row], wants: list[Any]
) -> None:
    mine = user()
    core = cluster(mine, running(mine), *rows)
    assert wants_of_volumes(core, mine) == wants
    assert not core.binds(mine)


def test_the_pod_is_bound_once_kubernetes_has_completed_the_binding_P8() -> None:
    mine = user()
    core = cluster(mine, running(mine), claim(storage_class="local"), volume("v1", "kn1"))
    reserved = volume("v1", "kn1", claim="ns/c-p1", claim_uid="u-c-p1")
    core.see(reserved)
    assert not core.workload_wants(mine, Bind)
    core.see(claim(storage_class="local", volume="v1"))
    assert not core.workload_wants(mine, Bind)
    core.see(bound())
    assert core.binds(mine) == [("p1", "kn1")]


def test_two_claims_of_a_pod_get_two_volumes_P8() -> None:
    mine = user("p1", "a", "b")
    claims = [claim("a", "local"), claim("b", "local")]
    core = cluster(mine, running(mine), *claims, volume("v1", "kn1"), volume("v2", "kn1"))
    assert [want.reference.name for want in wants_of_volumes(core, mine)] == ["v1", "v2"]


def test_where_one_of_two_claims_finds_no_volume_nothing_is_reserved_P8() -> None:
    mine = user("p1", "a", "b")
    core = cluster(mine, running(mine), claim("a", "local"), claim("b", "local"),
                   volume("v1", "kn1"))  # fmt: skip
    assert not wants_of_volumes(core, mine)
    assert core.cancels(mine) == [("7", True)]


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ([claim(storage_class="local"), volume("v1", "kn2")],
         "n1 cannot take it: node(s) didn't find available persistent volumes to bind"),
        ([bound(), volume("v1", "kn2", claim="ns/c-p1")],
         "n1 cannot take it: node(s) didn't match PersistentVolume's node affinity"),
        ([], 'persistentvolumeclaim "c-p1" not found'),
    ],
    ids=["taken by another", "bound elsewhere", "deleted"],
)  # fmt: skip
def test_a_job_where_the_volumes_cannot_be_had_is_given_up_P8(rows: list[Row], why: str) -> None:
    mine = user()
    core = cluster(mine, running(mine), *rows)
    assert core.cancels(mine) == [("7", True)]
    assert why in core.workload_verdict(mine).because
    assert not core.binds(mine)


def test_a_volume_that_is_seen_after_its_claim_was_bound_is_awaited_P8() -> None:
    mine = user()
    core = cluster(mine, running(mine), bound(selected_node="kn1", selected_for=OURS))
    assert not core.cancels(mine)
    assert not core.binds(mine)
    assert core.workload_verdict(mine).because == "waits for volumes: c-p1 on kn1"
    core.see(volume("v1", "kn1", claim="ns/c-p1"))
    assert core.binds(mine)


def test_a_volume_that_never_is_seen_ends_the_wait_P8() -> None:
    mine = user()
    core = cluster(mine, running(mine), bound(), volume_timeout_s=60.0)
    core.wait(60.0)
    assert core.cancels(mine) == [("7", True)]
    assert 'claim "c-p1" got no volume on Node kn1 within' in core.workload_verdict(mine).because


def asks(core: Core, of: Pod) -> list[Any]:
    return core.workload_wants(of, GetProvisioning)


@pytest.mark.parametrize("words", ["", "no space left in pool a"])
def test_the_words_of_a_provisioner_that_gives_up_are_read_before_its_job_goes_P8(
    words: str,
) -> None:
    mine = user()
    refused = claim(selected_for=OURS)
    core = cluster(mine, running(mine), refused)
    assert asks(core, mine) == [GetProvisioning(reference_of(refused), 0.0)]
    assert not core.cancels(mine)
    core.now += 0.1
    core.see(ProvisionerSaid(refused.uid, words, core.now))
    why = 'the provisioner of claim "c-p1" makes no volume on Node kn1'
    assert core.cancels(mine) == [("7", True)]
    assert core.workload_verdict(mine).because.endswith(f"{why}: {words}" if words else why)


def test_a_volume_that_takes_long_lets_the_pod_say_what_its_provisioner_says_P8() -> None:
    mine = user()
    selected = claim(selected_node="kn1", selected_for=OURS)
    core = cluster(mine, running(mine), selected)
    core.wait(2.9)
    assert not asks(core, mine)
    core.wait(0.2)
    assert asks(core, mine)
    core.see(ProvisionerSaid(selected.uid, "no space left", core.now))
    (shown,) = core.workload_wants(mine, SetScheduled)
    assert shown.message.endswith("on Node kn1; its provisioner says: no space left")
    core.wait(29)
    assert not asks(core, mine)
    core.wait(2)
    assert asks(core, mine)


def test_a_job_whose_volume_does_not_come_in_time_is_given_up_P8() -> None:
    mine = user()
    core = cluster(mine, running(mine), claim(), volume_timeout_s=60.0)
    core.see(claim(selected_node="kn1", selected_for=OURS))
    core.wait(59)
    assert not core.cancels(mine)
    core.wait(1)
    assert core.cancels(mine) == [("7", True)]


def test_a_job_keeps_its_hosts_while_the_volume_is_made_for_the_job_of_another_pod_P8() -> None:
    """Both use one claim: where its volume is decides for both."""
    mine = user()
    selected = claim(selected_node="kn2", selected_for=f"{SCHEDULER}/2")
    core = cluster(mine, running(mine), selected)
    assert not core.cancels(mine)
    assert not core.binds(mine)
    assert "where Slurm job 2 runs" in core.workload_verdict(mine).because


def test_a_second_pod_follows_the_first_to_a_volume_of_one_node_P8() -> None:
    first, second = user("p1", "shared", node_name="kn2", job_id="1"), user("p2", "shared")
    rows: list[Row] = [bound("shared"), volume("v1", claim="ns/shared")]
    core = cluster(first, running(first, at=("n2",)), second, *rows)
    assert core.submission(second).excluded == ("n1", "n3")
    core.see(replace(first, ended=True))
    assert core.submission(second).excluded == ()


@pytest.mark.parametrize(
    ("rows", "goes_on"),
    [
        ([claim("c-p1"), claim("c-p2")], False),
        ([claim("c-p2")], True),
        ([claim("c-p1", "local"), claim("c-p2")], True),
        ([bound("c-p1"), volume("v1", "kn3", claim="ns/c-p1"), claim("c-p2")], True),
    ],
    ids=["both have the choice", "a missing claim", "no volume for it", "bound to a host"],
)
def test_a_pod_whose_volumes_decide_its_host_takes_no_turn_P8(
    rows: list[Row], *, goes_on: bool
) -> None:
    first, second = (user(name, spec=APART, labels=LABELS) for name in ("p1", "p2"))
    core = cluster(first, second, *rows)
    assert (core.submission(second) is not None) == goes_on


def test_the_turn_comes_back_with_the_claim_P8() -> None:
    first, second = (user(name, spec=APART, labels=LABELS) for name in ("p1", "p2"))
    core = cluster(first, second, claim("c-p2"))
    assert core.submission(second) is not None
    core.see(claim("c-p1"))
    assert core.submission(second) is None
    assert core.submission(first) is not None


def test_a_gang_that_shares_a_claim_gets_one_volume_P8() -> None:
    pods = [gang_pod(name, volume_claims=("shared",)) for name in ("p1", "p2")]
    shared = claim("shared", modes=("ReadWriteMany",))
    core = cluster(*pods, running(*pods, at=("n1", "n2")), shared)
    assert [want.node_name for want in wants_of_volumes(core, pods[0])] == ["kn1"]


@pytest.mark.parametrize("change", ["volume", "claim"])
def test_a_waiting_job_follows_the_volumes_of_its_pod_P8(change: str) -> None:
    mine = user()
    waiting = job(mine)
    core = cluster(mine, waiting, claim(storage_class="local"), volume("v1", "kn1"))
    before = core.graph.workload(_key(core, mine)).hosts.excluded
    assert before == ("n2", "n3")
    if change == "volume":
        core.see(volume("v2", "kn2"))
        after: tuple[str, ...] = ("n3",)
    else:
        core.see(volume("v2", "kn3", claim="ns/c-p1"), claim(storage_class="local", volume="v2"))
        after = ("n1", "n2")
    assert core.graph.workload(_key(core, mine)).hosts.excluded == after


def _key(core: Core, of: Pod) -> str:
    return core.graph.workloads.index.key_of_uid[of.uid]


def selections(core: Core) -> list[Any]:
    return [want for want in core.decided(CLUSTER).wants if isinstance(want, UnselectNode)]


def test_a_claim_is_taken_back_from_an_ended_job_P8() -> None:
    mine = user()
    lives = running(mine)
    selected = claim(selected_node="kn1", selected_for=OURS)
    core = cluster(mine, lives, selected)
    assert not selections(core)
    core.see(replace(lives, state=frozenset({"CANCELLED"})))
    assert selections(core) == [UnselectNode(reference_of(selected), OURS)]
    assert core.submission(mine) is None
    core.see(claim())
    assert not selections(core)


def test_a_claim_is_taken_back_although_its_pod_is_gone_P8() -> None:
    mine = user()
    lives = running(mine)
    core = cluster(mine, lives, claim(selected_node="kn1", selected_for=OURS))
    core.see(deleted("pods", mine))
    core.see(deleted("jobs", lives))
    core.see_listing("jobs", after_s=5.0)
    assert [want.owner for want in selections(core)] == [OURS]


def test_a_selection_for_a_job_that_is_not_listed_yet_stays_P8() -> None:
    """The listing of jobs is older than the selection."""
    mine = user()
    core = cluster(mine)
    core.now += 5
    core.see(claim(selected_node="kn1", selected_for=f"{SCHEDULER}/7"))
    assert not selections(core)


def test_a_selection_of_another_scheduler_is_left_alone_P8() -> None:
    core = cluster(claim(selected_node="kn1", selected_for="theirs/1"))
    core.see_listing("jobs", after_s=5.0)
    assert not selections(core)


def test_the_mark_of_a_finished_claim_is_removed_P8() -> None:
    mine = user()
    done = replace(bound(), selected_node="kn1", selected_for=OURS)
    core = cluster(mine, running(mine), done, volume("v1", claim="ns/c-p1"))
    assert [want.owner for want in selections(core)] == [OURS]
    assert core.binds(mine) == [("p1", "kn1")]
