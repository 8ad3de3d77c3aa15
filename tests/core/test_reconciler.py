"""Decisions of dirty keys: timers, the audit, keys out of service (F7), conflicting rules."""

from collections.abc import Callable

import pytest

from sunk_sync.core import decide as deciding
from sunk_sync.core.decide import ConflictError, RuleError, decide
from sunk_sync.core.graph.graph import Graph
from sunk_sync.core.model.actions import Bind, Drain, SubmitJob, Undrain
from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.facts import Lost
from sunk_sync.core.model.job_identity import workload_id
from sunk_sync.core.model.keys import CLUSTER, host_key, workload_key
from sunk_sync.core.model.restraint import Holding
from sunk_sync.core.model.verdict import Ruling
from sunk_sync.core.reconciler import OUT_OF_SERVICE
from sunk_sync.core.views.host import Host
from sunk_sync.core.views.parts import Cluster
from sunk_sync.core.views.workload import Workload
from tests.kit.build import (
    Core,
    deleted,
    node,
    observed,
    pod,
    room,
    running,
    slurm_node,
    slurmd_pod,
    source_of,
    two_hosts,
)

N1, N2 = host_key("n1"), host_key("n2")


def raises_for(name: str) -> Callable[[Host, Configuration, float], Ruling]:
    whole = deciding.HOST_RULES["mark"]

    def rule(host: Host, configuration: Configuration, now: float) -> Ruling:
        if host.name == name:
            raise KeyError("odd")
        return whole(host, configuration, now)

    return rule


def test_a_rule_that_raises_stops_one_key_F7(monkeypatch: pytest.MonkeyPatch) -> None:
    """The key wants nothing. The others go on, and a changed fact tries it again."""
    monkeypatch.setitem(deciding.HOST_RULES, "mark", raises_for("n1"))
    core = two_hosts()
    core.see(node("kn1", unschedulable=True), node("kn2", unschedulable=True))
    assert core.verdict("n1") == OUT_OF_SERVICE
    assert core.wants("n2", Drain)
    assert core.reconciler.failures[N1].rule == "mark"
    monkeypatch.undo()
    core.see(node("kn1", unschedulable=True, cordon_reason="x"))
    assert core.wants("n1", Drain)
    assert not core.reconciler.failures


def test_a_cluster_rule_that_raises_stops_no_host_F7(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(cluster: Cluster, configuration: Configuration) -> Ruling:
        raise ValueError(cluster, configuration)

    monkeypatch.setitem(deciding.CLUSTER_RULES, "hold", breaks)
    core = two_hosts()
    assert CLUSTER in core.reconciler.failures
    core.see(node("kn1", unschedulable=True))
    assert core.wants("n1", Drain)


def test_a_workload_rule_that_raises_stops_one_workload_F7(monkeypatch: pytest.MonkeyPatch) -> None:
    odd, even = pod("odd"), pod("even")
    whole = deciding.WORKLOAD_RULES["submit"]

    def breaks(workload: Workload, configuration: Configuration, now: float) -> Ruling:
        pods = workload.members.pods
        if pods and pods[0].name == odd.name:
            raise KeyError("odd")
        return whole(workload, configuration, now)

    monkeypatch.setitem(deciding.WORKLOAD_RULES, "submit", breaks)
    core = Core(*room(), odd, even)
    assert core.workload_verdict(odd) == OUT_OF_SERVICE
    assert core.workload_wants(even, SubmitJob)
    (failure,) = core.reconciler.failures.values()
    assert failure.rule == "submit"
    monkeypatch.undo()
    core.see(pod("odd", created_s=odd.created_s + 1))
    assert core.workload_wants(odd, SubmitJob)


def test_two_rules_that_want_one_field_stop_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    fights = Ruling((Undrain("n1", "no"),))
    monkeypatch.setitem(deciding.HOST_RULES, "mark", lambda *_: fights)
    core = Core(node(unschedulable=True), slurmd_pod(), slurm_node())
    assert core.verdict() == OUT_OF_SERVICE
    with pytest.raises(RuleError, match="merge") as caught:
        decide(core.graph, N1, core.now)
    assert isinstance(caught.value.__cause__, ConflictError)


def test_a_verdict_without_a_sentence_says_in_sync() -> None:
    assert Core(slurm_node()).verdict().because == "in sync"
    graph = Graph(Configuration())
    assert decide(graph, N1, 0.0).because == "in sync"
    assert decide(graph, CLUSTER, 0.0).because == "in sync"


def test_a_verdict_is_decided_again_at_its_first_time() -> None:
    """S4 after 5 s, S8 after 40 s."""
    core = Core(node(ready="False"), slurmd_pod(ready=False), slurm_node())
    assert core.reconciler.next_timer_s() == core.now + 5
    assert not core.wants("n1", Drain)
    core.wait(5)
    assert core.wants("n1", Drain) == [Drain("n1", "k8s: pod not ready", absence=True)]
    core.wait(35)
    assert core.wants("n1", Drain) == [Drain("n1", "k8s: node not ready", absence=True)]
    assert core.reconciler.next_timer_s() is None


@pytest.mark.parametrize("gone", [False, True], ids=["ready again", "forgotten"])
def test_a_timer_without_a_purpose_decides_nothing(gone: bool) -> None:
    core = Core(node(), slurmd_pod(ready=False), slurm_node())
    assert core.reconciler.next_timer_s() is not None
    for row in (slurmd_pod(), slurm_node(), node()):
        core.see(deleted(source_of(row), row) if gone else row)
    assert core.wait(10) == []
    assert (N1 in core.reconciler.standing) is not gone


def audited(core: Core) -> list[object]:
    """Return the keys that a whole round of the audit finds wrong."""
    wrong: list[object] = []
    for _ in range(20):
        surprises, finished = core.reconciler.audit(now=core.now, limit=3)
        wrong += [key for key, _, _ in surprises]
        if finished and wrong:
            break
    return wrong


def test_the_audit_finds_nothing_when_every_edge_is_there_or_nothing_was_observed() -> None:
    core = two_hosts()
    core.see(node("kn1", unschedulable=True), slurmd_pod("n2", ready=False))
    assert audited(core) == []
    assert audited(Core(listed=False)) == []


def test_the_audit_finds_a_missing_edge_and_decides_the_key_again() -> None:
    core = two_hosts()
    core.graph.nodes.entries["kn1"].row = node("kn1", unschedulable=True)
    assert audited(core) == [N1]
    core.settle()
    assert core.wants("n1", Drain)


def test_the_audit_of_a_workload_drops_what_is_cached_of_its_hosts() -> None:
    one, other = pod(), pod("other", node_name="kn1", job_id="8")
    runs = [running(its, job_id=job_id) for its, job_id in ((one, "7"), (other, "8"))]
    core = Core(*room(), one, other, *runs)
    assert core.workload_wants(one, Bind)
    assert core.graph.workloads.residents._cached["kn1"]
    core.graph.forget_cached(workload_key(workload_id((one.uid,))))
    assert "kn1" not in core.graph.workloads.residents._cached


def test_the_audit_skips_hosts_that_were_forgotten_since_its_round_began() -> None:
    core = two_hosts()
    core.reconciler.audit(now=core.now, limit=1)
    core.reconciler.audit(now=core.now, limit=1)
    for name in ("n1", "n2"):
        core.see(deleted("slurm_nodes", slurm_node(name)))
        core.see(deleted("slurmd_pods", slurmd_pod(name)))
        core.see(deleted("nodes", node(f"k{name}")))
    assert core.reconciler.audit(now=core.now, limit=100) == ([], True)


def test_the_audit_finds_a_key_that_was_never_decided() -> None:
    core = two_hosts()
    del core.reconciler.standing[N1]
    assert audited(core) == [N1]


def test_the_audit_finds_a_rule_that_raises_now(monkeypatch: pytest.MonkeyPatch) -> None:
    core = two_hosts()
    monkeypatch.setitem(deciding.HOST_RULES, "mark", raises_for("n1"))
    assert audited(core) == [N1]
    core.settle()
    assert core.verdict("n1") == OUT_OF_SERVICE
    assert audited(core) == []


def test_the_audit_leaves_due_and_pending_keys_alone() -> None:
    core = two_hosts()
    core.see(slurmd_pod("n1", ready=False))
    core.reconciler.observe([observed(node("kn2", unschedulable=True))], now=core.now)
    core.now += 6
    assert audited(core) == []


def test_a_key_with_kept_actions_is_screened_again_when_a_source_changes() -> None:
    ours = slurm_node("n1", "IDLE+DRAIN", reason="k8s: node cordoned")
    core = Core(node(), slurmd_pod(), ours)
    decisions = core.see(Lost("nodes", "x"))
    assert N1 in {decision.key for decision in decisions}
    assert all(not isinstance(a, Undrain) for d in decisions for a in d.allowed)


def test_the_reconciler_reports_what_the_breaker_holds_S19() -> None:
    core = two_hosts()
    core.see(Holding(3, core.now))
    assert core.graph.holding is None, "the reconciler tells what the breaker really holds"
    assert core.graph.reference(CLUSTER).kind == "Namespace"


def test_a_step_ends_earlier_when_its_keys_want_much() -> None:
    """Handing over an action costs more than a decision."""
    names = [f"n{number}" for number in range(10)]
    core = Core(*map(node, names), *map(slurm_node, names))
    core.reconciler.pending = dict.fromkeys(map(host_key, names))
    decisions = core.reconciler.step(now=core.now, limit=5)
    wants = [len(decision.allowed) for decision in decisions]
    assert min(wants) > 1
    assert sum(wants[:-1]) < 5 <= sum(wants)


def test_a_key_that_wants_nothing_counts_in_a_step() -> None:
    core = Core()
    core.reconciler.pending = {host_key(f"gone{number}"): None for number in range(10)}
    assert len(core.reconciler.step(now=core.now, limit=5)) == 5
