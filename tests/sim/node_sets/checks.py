"""Invariants of what sunk-sync does to NodeSets, their Pods and their records.

The checks see each change on both servers at the moment it is made, and use nothing of the product.
sunk-sync decides on what it has read, and others act meanwhile: `window_s` is the longest time for
which an older state excuses a write.
"""

from typing import Final

from msgspec import Struct

from sunk_sync.embedded.kubernetes.store.store import Change
from sunk_sync.embedded.slurm.model.job import ON_NODES, Job
from sunk_sync.embedded.slurm.model.node import Node
from sunk_sync.embedded.wire import Answer
from tests.sim import words
from tests.sim.history import History
from tests.sim.node_sets import truth
from tests.sim.node_sets.past import Past
from tests.sim.node_sets.requeue_checks import why_not
from tests.sim.node_sets.truth import NAMESPACE, name_of, owner_of
from tests.sim.packing import with_own_weight
from tests.sim.wire import Exchange
from tests.sim.words import Object
from tests.sim.worlds import US, Worlds

CALL_S: Final = 15.0
"""Longest time of the read before a write. What others set meanwhile may be lost."""
READY_S: Final = 10.0
"""A Pod is ready for so long before its missing record counts (N3)."""
BLIND_S: Final = 80.0
"""After this time without an answer of Slurm nothing is condemned (N24): a slow answer, the rest of
30 s after it, and the next request up to its timeout."""
PUSH_S: Final = 20.0
"""With faults, the reads before a write can last for so long."""
REMAKE_S: Final = 1.0
"""Shortest pause before a Pod that failed is made again (N21)."""


class NodeSetChecks:
    def __init__(
        self, worlds: Worlds, history: History, *, window_s: float, packs: bool = False
    ) -> None:
        self._packs = packs
        self._worlds = worlds
        self._history = history
        self._present: Exchange | None = None
        self._life = 0
        """The life whose request is performed, or was sent last."""
        self._past = Past(worlds, window_s=window_s)
        worlds.onlookers.append(self)

    def _break(self, check: str, why: object) -> None:
        self._history.break_promise(check, f"{why} [{self._present}]")

    def _excuse(self, what: str) -> None:
        self._history.count(f"exempt: {what}")
        self._history.note("exempt", what)

    # what the service sends and gets

    def sent(self, exchange: Exchange) -> None:
        """Note when a life sends its first request."""
        self._life = exchange.process.number
        self._past.begun_s.setdefault(exchange.process.number, self._worlds.now_s)

    def serving(self, exchange: Exchange) -> None:
        self._present = exchange
        self._life = exchange.process.number

    def served(self, exchange: Exchange) -> None:  # noqa: ARG002
        """Stop counting changes as those of sunk-sync."""
        self._present = None

    def taken(self, exchange: Exchange) -> None:
        """Note a listing of all nodes; one node alone says nothing about the others."""
        answer = exchange.answer
        if exchange.side != "slurm" or not isinstance(answer, Answer) or answer.status >= 400:
            return
        if exchange.question.path.endswith("/nodes/") and b'"errors":[{' not in answer.body:
            self._past.read_s[exchange.process.number] = exchange.sent_s

    def half_taken(self, exchange: Exchange, body: bytes) -> None:
        """Nothing to note."""

    def over(self, exchange: Exchange) -> None:
        """Nothing to note."""

    # what changes on the servers

    def kube_changed(self, change: Change, author: str) -> None:
        now = change.now.an_object
        before = change.before.an_object if change.before else None
        gone = change.type == "DELETED"
        if change.kind.name == "NodeSet":
            self._past.learn_spec(before, now, gone=gone)
            if author == US and before is not None:
                self._check_node_set(before, now, gone=gone)
        elif change.kind.name == "Pod" and now["metadata"]["namespace"] == NAMESPACE:
            if author == US:
                self._check_pod(before, now, gone=gone)
            self._past.learn_pod(before, now, gone=gone, author=author)

    def slurm_changed(self, before: Node | None, after: Node | None, author: str) -> None:
        row = after or before
        assert row is not None
        self._past.learn_record(before, after, author=author)
        if author == US and before is not None:
            if after is None:
                self._check_forgotten(before)
            else:
                self._check_fields(before, after)
        self._past.look_at(row.name)

    def job_changed(self, before: Job | None, after: Job | None, author: str) -> None:
        number = (after or before or _NO_JOB).job_id
        if before is None:
            self._past.submitted_s[number] = self._worlds.now_s
        if author != US or before is None or before.state not in ON_NODES:
            return
        if after is None or after.state not in (*ON_NODES, "PENDING"):
            self._break("job ended", f"job {number} ended with {after and after.state}")
        elif after.state == "PENDING":
            self._history.count("hosts: jobs requeued")
            if why := why_not(self._worlds, self._past, before):
                self._break("requeued", f"job {number} was requeued, but {why}")

    def kube_restored(self) -> None:
        """Versions of NodeSets that were lost excuse nothing: no seed restores etcd here."""

    # Pods

    def _check_pod(self, before: Object | None, now: Object, *, gone: bool) -> None:
        if before is None:
            self._check_made(now)
            return
        if (gone or words.is_terminating(now)) and not words.is_terminating(before):
            self._check_ended(before)
        key = words.PENDING_DELETION
        was, standing = (words.annotations_of(one).get(key) for one in (before, now))
        if was != standing:
            self._check_condemned(before, now)
            self._past.slots[name_of(now)].condemned_s = self._worlds.now_s

    def _check_made(self, pod: Object) -> None:
        """N1, N4, N21, N22: who may be made."""
        name, uid = name_of(pod), owner_of(pod)
        versions = self._past.versions(uid)
        if not versions:
            self._break("no owner", f"Pod {name} was made for NodeSet {uid}, which is not there")
            return
        if all(truth.is_deleting(one) for one in versions):
            self._break("no owner", f"Pod {name} was made for a NodeSet that is being deleted")
        prefix, _, ordinal = name.rpartition("-")
        if prefix != truth.prefix_of(versions[-1]) or not ordinal.isdigit():
            self._break("name", f"Pod {name} was made for {name_of(versions[-1])}")
        most = max(map(truth.replicas_of, versions))
        gone = self._past.without_heir
        pods = truth.pods_of(self._worlds, versions[-1])
        staying = [one for one in pods if one["metadata"]["uid"] not in gone]
        if len(staying) > most:
            self._break("too many", f"Pod {name} is one of {len(staying)}, wanted are {most}")
        self._check_name(pod)
        slot = self._past.slots[name]
        failed_s = slot.failed_s if slot.failed_of == uid else -1e9
        # The network may deliver a request that was sent long before the failure.
        if failed_s < self._sent_s < failed_s + REMAKE_S and self._has_seen(failed_s):
            self._break("hot loop", f"Pod {name} was made at once after one that failed")

    @property
    def _sent_s(self) -> float:
        """When the present request was sent."""
        return self._present.sent_s if self._present is not None else self._worlds.now_s

    def _has_read(self, at_s: float) -> bool:
        """Whether the present life has read Slurm since. New Pods do not wait for it (N24)."""
        return self._past.has_read(self._life, at_s)

    def _has_seen(self, at_s: float) -> bool:
        """Whether the present life was at work then. Failures are in its memory only."""
        return self._past.begun_s[self._life] < at_s - self._past.window_s / 2

    def _check_name(self, pod: Object) -> None:
        """N22: nobody else has the name, in Kubernetes or in Slurm."""
        name = name_of(pod)
        for other in self._worlds.kube.pods(NAMESPACE):
            rival = words.claimed_by(other) == name and other is not pod
            if rival and name_of(other) != name and not words.is_finished(other):
                made_s = self._past.slots[name_of(other)].ready_s
                if made_s is not None and not self._past.is_recent(made_s):
                    self._break("twins", f"Pod {name} beside {name_of(other)}")
        record = self._worlds.slurm.nodes.get(name)
        touched_s = self._past.touched_s.get(name, -1e9)
        if record is None or self._past.is_recent(touched_s) or not self._has_read(touched_s):
            return
        shape = truth.stamp_of(record)[1]
        if shape != words.labels_of(pod)[truth.SHAPE]:
            self._break("stale record", f"Pod {name} was made beside a record of shape {shape!r}")

    def _check_ended(self, pod: Object) -> None:
        """N3, N8, N21, N29: which Pods may be deleted, and in which state of Slurm."""
        name = name_of(pod)
        if not owner_of(pod):
            self._break("foreign pod", f"Pod {name} of others was deleted")
        if words.is_finished(pod):
            return
        if not pod["spec"].get("nodeName"):  # its slurmd never started
            self._check_unregistered(pod)
            return
        record = self._worlds.slurm.nodes.get(name)
        touched = self._past.is_recent(self._past.touched_s.get(name))
        if record is not None and truth.is_at_work(record):
            if not touched:
                self._break("job lost", f"Pod {name} was deleted while a job ran there")
            self._excuse("a person undrained the node inside the window")
        elif record is None:
            self._check_unregistered(pod)
        elif not touched and not (truth.condemned_for(pod) and "DRAIN" in record.flags):
            self._break("undrained", f"Pod {name} was deleted, its record is {record.flags}")

    def _check_unregistered(self, pod: Object) -> None:
        """N3: a Pod without a record goes if it is condemned, or ready for a while."""
        if truth.condemned_for(pod):
            return
        name = name_of(pod)
        ready_s = self._past.slots[name].ready_s
        if ready_s is None or self._worlds.now_s < ready_s + READY_S:
            self._break("impatient", f"Pod {name} was deleted before it could register")
        if self._past.is_first_minute(self._sent_s):
            self._break("first minute", f"Pod {name} was deleted soon after slurmctld's start")

    def _check_condemned(self, before: Object, now: Object) -> None:
        """N6, N7, N9, N12, N24: who must go, and why."""
        name = name_of(now)
        asked = words.PENDING_DELETION in words.annotations_of(before)
        recent = self._past.is_recent(self._past.slots[name].asked_s)
        if asked and not truth.mark_on(before) and not recent:
            self._break("foreign", f"Pod {name}: the pending deletion of a user was changed")
        if words.PENDING_DELETION not in words.annotations_of(now):
            return
        if not owner_of(now) and self._past.is_recent(self._past.slots[name].left_s):
            return
        cause, versions = truth.condemned_for(now), self._past.versions(owner_of(now))
        if not cause or not versions:
            self._break("no cause", f"Pod {name} is condemned for {cause!r}")
            return
        self._check_sight(name)
        if cause == "scale-in":
            self._check_surplus(before, versions)
        elif cause == "deletion":
            if not any(truth.is_deleting(one) for one in versions):
                self._break("no cause", f"Pod {name} is condemned, but its NodeSet stays")
        else:
            self._check_replaced(now, cause, versions)
            was = truth.condemned_for(before)
            if was in ("", "scale-in") and self._past.was_useful(name):
                self._check_budget(now, versions)

    def _check_sight(self, name: str) -> None:
        if not self._past.has_read(self._life, self._sent_s - BLIND_S):
            self._break("blind", f"Pod {name} is condemned while Slurm cannot be read")

    def _check_surplus(self, pod: Object, versions: list[Object]) -> None:
        """N6: there are too many, and no idle one is left while a busy one goes."""
        if words.is_finished(pod):
            return  # it was of no use already
        fewest = min(map(truth.replicas_of, versions))
        pods = truth.pods_of(self._worlds, versions[-1])
        stay = [one for one in pods if _stays(one) and not words.is_terminating(one)]
        slots = self._past.named_as(versions[-1]).values()
        lately = sum(
            self._past.is_recent(max(one.left_s, one.remade_s)) or self._past.is_in_doubt(one)
            for one in slots
        )
        busy_s = self._past.slots[name_of(pod)].busy_s
        is_free = not self._is_at_work(pod) or self._past.is_recent(busy_s)
        traded = sum(map(self._may_be_traded, pods)) if is_free else 0
        if len(stay) + lately + traded < fewest:
            self._break("too few", f"Pod {name_of(pod)} goes, {len(stay)} of {fewest} stay")
        self._check_order(pod, pods, fewest=fewest)

    def _may_be_traded(self, pod: Object) -> bool:
        """Whether it goes until an idle one is drained in its place."""
        idle_s = self._past.slots[name_of(pod)].idle_s
        lately = self._is_at_work(pod) or self._past.is_recent(idle_s)
        return truth.condemned_for(pod) == "scale-in" and lately

    def _is_at_work(self, pod: Object) -> bool:
        record = self._worlds.slurm.nodes.get(name_of(pod))
        return record is not None and truth.is_at_work(record)

    def _check_order(self, pod: Object, pods: list[Object], *, fewest: int) -> None:
        """N6: a busy one goes only if all others must go too, in whatever order."""
        name, past = name_of(pod), self._past
        record = self._worlds.slurm.nodes.get(name)
        if record is None or not record.running or not past.was_useful(name):
            return
        if "DRAIN" in record.flags or past.is_recent(past.touched_s.get(name)):
            return
        if past.is_recent(past.slots[name].busy_s):
            return
        if truth.condemned_for(pod):
            return  # it goes in any case
        living = [one for one in pods if not words.is_terminating(one)]
        cheaper = [one for one in living if name_of(one) != name and not self._is_busy(one)]
        if len(living) - fewest > len(cheaper):
            return
        for other in filter(_is_unasked, cheaper):
            idle_s = past.slots[name_of(other)].idle_s
            if idle_s is not None and not past.is_recent(idle_s):
                self._break("order", f"{name} goes with a job, {name_of(other)} is idle")

    def _is_busy(self, pod: Object) -> bool:
        record = self._worlds.slurm.nodes.get(name_of(pod))
        return record is not None and truth.is_at_work(record) and not truth.condemned_for(pod)

    def _check_replaced(self, pod: Object, cause: str, versions: list[Object]) -> None:
        """N4, N12: it is outdated or stale."""
        name = name_of(pod)
        record = self._worlds.slurm.nodes.get(name)
        if cause == "update" and all(
            truth.is_current(pod, one) or not truth.rolls(one) for one in versions
        ):
            self._break("no cause", f"Pod {name} is condemned, though it is up to date")
        if cause == "registration" and not self._past.is_recent(self._past.touched_s.get(name)):
            shape = words.labels_of(pod).get(truth.SHAPE)
            if record is None or truth.stamp_of(record)[1] in ("", shape):
                self._break("no cause", f"Pod {name} is condemned, though its record fits")

    def _check_budget(self, pod: Object, versions: list[Object]) -> None:
        """N12: with this one gone, at most `maxUnavailable` Pods are unavailable.

        Beside those that are until somebody lifts a drain.
        """
        past, names = self._past, self._past.named_as(versions[-1])
        left = [one for one in names if past.was_available(one) or past.was_held_by_drain(one)]
        least = min(truth.replicas_of(one) - truth.budget_of(one) for one in versions)
        if len(left) < least:
            self._break(
                "budget", f"{name_of(pod)} goes, and only {left} of at least {least} are left"
            )

    # records

    def _check_forgotten(self, record: Node) -> None:
        """N10: which records may be deleted."""
        name, present = record.name, self._present
        digests = {
            truth.digest_of(self._worlds, one) for uid in self._past.specs_known() for one in
            self._past.versions(uid)
        }  # fmt: skip
        if truth.DYNAMIC not in record.flags or truth.stamp_of(record)[0] not in digests:
            self._break("foreign record", f"the record {name} of others was deleted")
        if truth.is_at_work(record):
            self._break("job lost", f"the record {name} was deleted while a job ran there")
        waiting = truth.requiring(self._worlds, name)
        if any(not self._past.is_recent(self._past.submitted_s.get(one.job_id)) for one in waiting):
            self._break("required", f"the record {name} was deleted, waiting jobs require it")
        pod = self._past.pod(name)
        if pod is None or not owner_of(pod) or present is None:
            return
        slot, push_s = self._past.slots[name], PUSH_S if self._past.lossy else 0.05
        ready = slot.ready_s is not None and slot.ready_s < present.sent_s
        if ready and slot.made_s < present.sent_s - push_s:
            self._break("living pod", f"the record {name} was deleted under its Pod")
        self._excuse("a late deletion of a record")

    def _check_fields(self, before: Node, after: Node) -> None:
        """T1-T3: features, weight and topology change only on records of NodeSets."""
        if self._packs:
            before, after = with_own_weight(before), with_own_weight(after)
        fields = ("features", "active_features", "weight", "topology")
        if all(getattr(before, one) == getattr(after, one) for one in fields):
            return
        name = before.name
        if not truth.stamp_of(before)[0] and not self._past.is_recent(
            self._past.touched_s.get(name)
        ):
            self._break("foreign record", f"{name} is of others, and got {after.features}")
            return
        ours = truth.features_in_mark(before) | truth.features_in_mark(after)
        read_s = CALL_S if self._past.lossy else 0.05
        marked, until_s = self._past.unmarked.get(name, (set(), -1e9))
        if self._sent_s < until_s + read_s:
            ours |= marked
        for was, now in (
            (before.features, after.features),
            (before.active_features, after.active_features),
        ):
            gone = set(was) - set(now) - ours
            if gone and self._sent_s < self._past.features_s.get(name, -1e9) + read_s:
                self._excuse("features of others set during the read")
            elif gone:
                self._break("foreign features", f"{name} lost {sorted(gone)}")
        if not set(after.active_features) <= set(after.features):
            self._break("foreign features", f"{name}: {after.active_features} are active")

    # NodeSets

    def _check_node_set(self, before: Object, now: Object, *, gone: bool) -> None:
        """N23, N26: only the status and one finalizer change."""
        name = name_of(now)
        was, held = (set(one["metadata"].get("finalizers") or ()) for one in (before, now))
        if gone:
            held = was - {truth.FINALIZER}
        if before["spec"] != now["spec"] or (was ^ held) - {truth.FINALIZER}:
            self._break("foreign", f"NodeSet {name}: fields of others changed")
        # The garbage collector may have done its part while our write was on its way.
        orphaned = any(map(truth.is_orphaned, self._past.versions(now["metadata"]["uid"])))
        if truth.FINALIZER in was - held and not orphaned:
            pods = [
                name
                for name in map(name_of, truth.pods_of(self._worlds, now))
                if not self._past.is_recent(self._past.slots[name].made_s)
            ]
            left = [one.name for one in truth.records_of(self._worlds, now)]
            records = [
                name
                for name in left
                if self._past.pod(name) is None
                and not self._past.is_recent(self._past.slots[name].left_s)
                # A late write of features can put our stamp on a record of others.
                and not self._past.is_recent(self._past.touched_s.get(name))
            ]
            if pods or records:
                self._break("finalizer", f"NodeSet {name} was let go with {pods} and {records}")


class _Job(Struct, frozen=True):
    job_id: int = 0


_NO_JOB = _Job()


def _stays(pod: Object) -> bool:
    return not truth.leaves(pod)


def _is_unasked(pod: Object) -> bool:
    return words.PENDING_DELETION not in words.annotations_of(pod)
