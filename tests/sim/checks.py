"""Invariants of the writes of sunk-sync, checked from outside at each change and each call.

The checks use nothing of the product except the requests that it sends.
"""

from collections import defaultdict
from typing import Final

import msgspec

from sunk_sync.embedded.kubernetes.store.store import Change
from sunk_sync.embedded.slurm.model.job import Job
from sunk_sync.embedded.slurm.model.node import Node
from tests.sim import words
from tests.sim.history import History
from tests.sim.judging import (
    Place,
    causes_of_node,
    causes_of_pod,
    is_about_jobs,
    is_drained_and_idle,
    is_mark,
    label_names,
    mark_of,
    may,
    other_fields,
    places,
    rest_of,
    succeeded,
    uncounted,
    why_not,
)
from tests.sim.packing import with_own_weight
from tests.sim.reads import Reads, Row, row_of
from tests.sim.wire import Exchange, Process
from tests.sim.words import Object
from tests.sim.worlds import US, Worlds

WINDOW_S: Final = 50.0
"""Longest time from the start of a read to the write that depends on it.

The read, the wait for a connection and a refused request for several nodes take up to 15 s each.
"""
PACE_S: Final = 1.0
"""M1."""
ROUNDING_S: Final = 1e-6
MINUTE_S: Final = 60.0
CALL_S: Final = 15.0
"""Longest time of the request before a count, which reads the Event."""
FRESH_S: Final = 22.0
"""Longest time of a listing and the pause before it. Older data counts as stale."""


OF_WORKLOADS: Final = ("Event", "PersistentVolumeClaim", "PersistentVolume")
"""Kinds that say nothing about hosts."""


class Checks:
    def __init__(
        self, worlds: Worlds, history: History, *, drains_a_minute: int, packs: bool = False
    ) -> None:
        self._packs = packs
        self._worlds = worlds
        self._history = history
        self._limit = drains_a_minute
        self._present: Exchange | None = None
        """The call of sunk-sync that a server performs now."""
        self._reads: dict[int, Reads] = {}
        self._leader = 0
        """Number of the life that writes."""
        self._flying: dict[Place, Exchange] = {}
        self._paced: dict[Place, float] = {}
        """Object whose conditions sunk-sync wrote → time of the answer."""
        self._begun_s: dict[int, float] = {}
        self._absences: defaultdict[int, int] = defaultdict(int)
        """Life → new drains because of an absence or NotReady."""
        self._asked_s: dict[tuple[int, str], float] = {}
        """Life and Slurm node → send time of the last successful request of such a drain."""
        self._undone_s: dict[str, float] = {}
        """Slurm node → when another client last changed it while it was drained."""
        self._counted_s: dict[tuple[int, str], float] = {}
        """Life and UID of an Event → when the last count was sent."""
        self._caused: defaultdict[str, set[str]] = defaultdict(set)
        """Slurm node → causes that ever applied, without their variable part."""
        self._node_causes: defaultdict[str, set[str]] = defaultdict(set)
        """Node → the same. The view of a Node can be older than the one of its Pod."""
        self._pods: defaultdict[str, set[tuple[str, str, str]]] = defaultdict(set)
        """Slurm node → namespace, name and UID of slurmd Pods that ever claimed it."""
        self._slurmd_uids: set[str] = set()
        """Pods that the selector ever matched. A late response about one still counts."""
        self._nodes: defaultdict[str, set[str]] = defaultdict(set)
        """Slurm node → Nodes that ever belonged to it."""
        self._cordoned_by_others: set[str] = set()
        self.sent_writes = 0
        self.others_changed = 0
        worlds.onlookers.append(self)
        self._learn_all()

    def begin(self, process: Process) -> Reads:
        """Start a new life, which has read nothing yet."""
        reads = Reads(self._worlds, process)
        self._reads[process.number] = reads
        self._begun_s[process.number] = self._worlds.now_s
        self.lead(process)
        return reads

    def lead(self, process: Process) -> None:
        """From now on this life writes. It does not know when an earlier one wrote last."""
        self._leader = process.number
        self._paced.clear()

    def _break(self, check: str, why: object) -> None:
        self._history.break_promise(check, f"{why} [{self._present}]")

    def sent(self, exchange: Exchange) -> None:
        """Check: one write in flight per target, none before the listings end, the pace of M1."""
        if not exchange.writes:
            return
        self.sent_writes += 1
        if not self._reads[exchange.process.number].ready:
            self._break("unlisted", f"{exchange} before everything was listed")
        for place in places(exchange):
            other = self._flying.get(place)
            if other is not None and other.process is exchange.process:
                self._break("flight", f"{exchange} while {other} is under way")
            self._flying[place] = exchange
            if place[-1] == "conditions":
                self._check_pace(place, exchange)

    def _check_pace(self, place: Place, exchange: Exchange) -> None:
        last_s = self._paced.get(place)
        if last_s is not None and exchange.sent_s < last_s + PACE_S - ROUNDING_S:
            self._break("pace", f"{exchange} {exchange.sent_s - last_s:.3f} s after the last one")

    def serving(self, exchange: Exchange) -> None:
        self._present = exchange

    def served(self, exchange: Exchange) -> None:
        """Stop counting changes as those of sunk-sync."""
        self._present = None
        if exchange.served_s is not None:
            self._reads[exchange.process.number].served(exchange)

    def taken(self, exchange: Exchange) -> None:
        self._reads[exchange.process.number].taken(exchange)
        if exchange.writes and exchange.served_s is not None:
            for place in places(exchange):
                if place[-1] == "conditions" and succeeded(exchange):
                    self._paced[place] = self._worlds.now_s

    def half_taken(self, exchange: Exchange, body: bytes) -> None:
        self._reads[exchange.process.number].half_taken(exchange, body)

    def over(self, exchange: Exchange) -> None:
        """Note that the service no longer waits for the answer."""
        self._reads[exchange.process.number].over(exchange)
        for place in places(exchange) if exchange.writes else ():
            if self._flying.get(place) is exchange:
                del self._flying[place]

    def kube_changed(self, change: Change, author: str) -> None:
        kind, now = change.kind.name, change.now.an_object
        before = change.before.an_object if change.before else None
        if kind == "Event" and author == US and before is not None:
            self._check_counted(before, now)
        if kind in OF_WORKLOADS or (kind == "Pod" and words.is_workload(now)):
            return
        if author == US:
            self._check_object(kind, before, None if change.type == "DELETED" else now)
        if kind == "Node":
            self._note_cordon(before, now, author=author)
        if change.type != "DELETED":
            self._learn(now, kind)

    def _check_object(self, kind: str, before: Object | None, after: Object | None) -> None:
        if before is None or after is None:
            self._break("foreign", f"a {kind} was created or deleted")
            return
        ours = self._our_annotations(kind)
        name = f"{kind} {before['metadata']['name']}"
        for was, now, allowed in (
            (words.annotations_of(before), words.annotations_of(after), ours),
            (words.labels_of(before), words.labels_of(after), self._our_labels(kind)),
        ):
            for key in was.keys() | now.keys():
                if was.get(key) != now.get(key) and key not in allowed:
                    self._break("foreign", f"{name}: {key} {was.get(key)} -> {now.get(key)}")
        self._check_conditions(kind, before, after)
        if rest_of(before) != rest_of(after):
            self._break("foreign", f"{name}: fields of others changed")
        if kind == "Node":
            self._check_cordon(before, after)
        told = words.DRAINED in words.annotations_of(after)
        if told and words.DRAINED not in words.annotations_of(before):
            self._check_drained(after)

    def _check_counted(self, before: Object, after: Object) -> None:
        """An Event changes only by a count, of which each life makes one a minute."""
        name = before["metadata"]["name"]
        if after["count"] != before["count"] + 1 or uncounted(before) != uncounted(after):
            self._break("counted", f"Event {name}: {before} -> {after}")
        if self._present is None:
            return
        sent_s = self._present.sent_s
        counted = (self._present.process.number, before["metadata"]["uid"])
        last_s = self._counted_s.get(counted)
        if last_s is not None and sent_s < last_s + MINUTE_S - CALL_S:
            self._break("counted", f"Event {name} {sent_s - last_s:.3f} s after the last count")
        self._counted_s[counted] = sent_s

    def _our_annotations(self, kind: str) -> frozenset[str]:
        return words.OUR_ANNOTATIONS[kind]

    def _our_labels(self, kind: str) -> frozenset[str]:
        return label_names(kind)

    def _other_fields(self, node: Node) -> Node:
        """Return the fields of a Slurm node that sunk-sync never changes."""
        return other_fields(with_own_weight(node) if self._packs else node)

    def _check_conditions(self, kind: str, before: Object, after: Object) -> None:
        was, now = words.conditions_of(before), words.conditions_of(after)
        for type_ in was.keys() | now.keys():
            if was.get(type_) != now.get(type_) and not words.is_our_condition(kind, type_):
                self._break("foreign", f"condition {type_} of {before['metadata']['name']} changed")

    def _check_cordon(self, before: Object, after: Object) -> None:
        """M7: the cordon and our mark come in one write, and a user's cordon is not removed."""
        was, now = (bool(one["spec"].get("unschedulable")) for one in (before, after))
        name = before["metadata"]["name"]
        if now and not was and words.CORDONED_FOR_DRAIN not in words.annotations_of(after):
            self._break("cordon", f"Node {name} cordoned without our mark")
        if was and not now and name in self._cordoned_by_others:
            self._break("cordon", f"Node {name} uncordoned, although others cordoned it")

    def _note_cordon(self, before: Object | None, after: Object, *, author: str) -> None:
        name = after["metadata"]["name"]
        was = before is not None and bool(before["spec"].get("unschedulable"))
        now = bool(after["spec"].get("unschedulable"))
        if now and not was and author != US:
            self._cordoned_by_others.add(name)
        elif not now:
            self._cordoned_by_others.discard(name)

    def _check_drained(self, pod: Object) -> None:
        """S6: drained=true follows a read that shows DRAIN without a job.

        The Pod may have claimed another Slurm node when the write was sent.
        """
        if self._present is None:
            return
        slurm = self._reads[self._present.process.number].slurm
        metadata = pod["metadata"]
        its = (metadata["namespace"], metadata["name"], metadata["uid"])
        claimed = {words.claimed_by(pod)} | {
            name for name, pods in self._pods.items() if its in pods
        }
        reads = [one for name in claimed for one in slurm[name]]
        sent_s = self._present.sent_s
        known = [one for one in reads if one.taken_s <= sent_s]
        fresh = [one for one in known if one.served_s >= sent_s - FRESH_S] or known[-1:]
        if not any(is_drained_and_idle(one) for one in fresh):
            self._break(
                "drained",
                f"{pod['metadata']['name']} has drained=true, but no read showed DRAIN and no job",
            )

    def kube_restored(self) -> None:
        """Note a restore; changes of Nodes with our mark do not count as changes by others."""
        self._learn_all()
        self._cordoned_by_others = {
            node["metadata"]["name"]
            for node in self._worlds.kube.nodes()
            if node["spec"].get("unschedulable")
            and words.CORDONED_FOR_DRAIN not in words.annotations_of(node)
        }

    def _learn_all(self) -> None:
        for node in self._worlds.kube.nodes():
            self._learn(node, "Node")
        for pod in self._worlds.kube.pods():
            self._learn(pod, "Pod")

    def _learn(self, an_object: Object, kind: str) -> None:
        if kind == "Pod":
            uid = an_object["metadata"]["uid"]
            if words.is_slurmd(an_object) or uid in self._slurmd_uids:
                self._slurmd_uids.add(uid)
                self._learn_pod(an_object)
        elif kind == "Node":
            self._learn_node(an_object)

    def _learn_pod(self, pod: Object) -> None:
        metadata, name = pod["metadata"], words.claimed_by(pod)
        self._pods[name].add((metadata["namespace"], metadata["name"], metadata["uid"]))
        node_name = pod["spec"].get("nodeName", "")
        if node_name:
            self._nodes[name].add(node_name)
        self._caused[name] |= causes_of_pod(pod)

    def _learn_node(self, node: Object) -> None:
        name = node["metadata"]["name"]
        own = words.annotations_of(node).get(words.SLURM_NODE) or name
        self._nodes[own].add(name)
        self._nodes[name].add(name)
        self._node_causes[name] |= causes_of_node(node)

    def job_changed(self, before: Job | None, after: Job | None, author: str) -> None:
        """Ignore jobs: WorkloadChecks checks them."""

    def slurm_changed(self, before: Node | None, after: Node | None, author: str) -> None:
        if self._present is not None and is_about_jobs(self._present):
            return  # changes by a job
        if author != US:
            self.others_changed += 1
            if before is not None and "DRAIN" in before.flags:
                self._undone_s[before.name] = self._worlds.now_s
            return
        if before is None or after is None:
            self._break("foreign", "a Slurm node was created or deleted")
            return
        if self._other_fields(before) != self._other_fields(after):
            self._break("foreign", f"{before} -> {after}")
        was, now = row_of(before), row_of(after)
        if was.comment != now.comment:
            self._check_comment(was, now)
        if before.flags != after.flags or was.reason != now.reason:
            self._check_state(was, now)

    def _check_comment(self, was: Row, now: Row) -> None:
        if not self._is_free(now.comment) or now.comment == "":
            self._break("mark", f"{was} gets a comment that is not our mark")
        reads = self._basis(was.name)
        if reads and not self._is_free(was.comment):
            fine = any(row is None or self._is_free(row.comment) for row in reads)
            self._excuse("comment", (was, now), fine=fine)

    def _is_free(self, comment: str) -> bool:
        if not comment:
            return True
        try:
            mark = msgspec.json.decode(comment)["sunk-sync"]
            return bool(mark["cluster"] == self._worlds.cluster_uid)
        except (msgspec.DecodeError, KeyError, TypeError):
            return False

    def _check_state(self, was: Row, now: Row) -> None:
        """S0, S2, S11-S15."""
        reads = self._basis(was.name)
        wrong = why_not(was, now)
        if wrong and not now.reason and self._present is not None and is_mark(self._present):
            # 26.05 drops a reason that no state needs at any write.
            fine = any(row is not None and not row.state & words.FROZEN for row in reads)
            self._excuse("stray reason", (was, now), fine=fine)
        elif wrong:
            fine = any(row is not None and may(row, now) for row in reads)
            self._excuse(wrong, (was, now), fine=fine)
        if now.drained and not was.drained:
            self._check_cause(now)
            self._count_absence(now)
        elif now.drained and now.reason != was.reason and words.is_our_text(now.reason):
            self._check_cause(now)

    def _basis(self, name: str) -> list[Row | None]:
        """Return the Slurm node as the reads by name before this write show it.

        These are the latest read, and earlier ones that were sent at the same time and end only
        now: one push reads several nodes and waits for the slowest.
        """
        assert self._present is not None
        sent_s = self._present.sent_s
        evidence = self._reads[self._present.process.number]
        together = evidence.asked_with_what_ended_at(sent_s)
        known = [one for one in evidence.slurm[name] if one.by_name and one.taken_s <= sent_s]
        found = [one for one in known[:-1] if one.asked_s in together] + known[-1:]
        if not found or found[-1].asked_s < sent_s - WINDOW_S:
            self._break("unread", f"Slurm node {name} was not read before it was written")
        return [one.row for one in found]

    def _excuse(self, check: str, change: tuple[Row, Row], *, fine: bool) -> None:
        """S0: a write of another client between our read and our write is lost. Count it."""
        if fine:
            self._history.count(f"exempt: {check} inside one read-to-write window")
            self._history.note("exempt", check, *change)
        else:
            self._break(check, f"{change[0]} -> {change[1]}")

    def _check_cause(self, now: Row) -> None:
        """Check that the cause exists, and that an absence was read by name."""
        assert self._present is not None
        reads = self._reads[self._present.process.number]
        sent_s = self._present.sent_s
        if now.reason == "k8s: pod terminated":
            asked = [
                absence
                for namespace, name, uid in self._pods_of(now)
                for absence in reads.named[("Pod", namespace, name)]
                if absence.uid != uid and absence.taken_s <= sent_s
            ]
            if not asked:
                self._break("evidence", f"{now} although its Pod was not read by name")
        elif now.reason == "k8s: node gone":
            asked = [
                absence
                for name in self._nodes_of(now)
                for absence in reads.named[("Node", "", name)]
                if not absence.uid and absence.taken_s <= sent_s
            ]
            if not asked:
                self._break("evidence", f"{now} although its Node was not read by name")
        elif now.reason not in words.LINGERING and not any(
            now.reason.startswith(cause) for cause in self._causes_of(now.name)
        ):
            self._break("cause", f"{now} although its cause never existed")

    def _causes_of(self, name: str) -> set[str]:
        return self._caused[name].union(*(self._node_causes[one] for one in self._nodes[name]))

    def _pods_of(self, now: Row) -> set[tuple[str, str, str]]:
        mark = mark_of(now.comment)
        marked = {(mark["namespace"], mark["pod"], mark["uid"])} if mark.get("pod") else set()
        return self._pods[now.name] | marked

    def told_pods(self, slurm_node: str) -> list[tuple[str, str, str]]:
        """Return the slurmd Pods of this Slurm node that the current life read."""
        told = self._reads[self._leader].told
        return [pod for pod in self._pods[slurm_node] if pod[2] in told]

    def _nodes_of(self, now: Row) -> set[str]:
        mark = mark_of(now.comment)
        return self._nodes[now.name] | ({mark["node"]} if mark.get("node") else set())

    def _count_absence(self, now: Row) -> None:
        """S19: count the new drains of one life in each minute.

        A drain that another client just undid is not new. Nor is a late request that was repeated.
        """
        assert self._present is not None
        undone_s = self._undone_s.get(now.name, -MINUTE_S)
        if now.reason not in words.ABSENCES or self._worlds.now_s - undone_s < MINUTE_S:
            return
        number = self._present.process.number
        again_s = self._asked_s.get((number, now.name), 0.0)
        if self._present.sent_s < again_s:
            return
        self._asked_s[number, now.name] = self._present.sent_s
        self._absences[number] += 1
        minutes = (self._worlds.now_s - self._begun_s[number]) // MINUTE_S + 1
        if self._absences[number] > self._limit * minutes:
            self._break("rate", f"{self._absences[number]} drains within {minutes} minutes")
