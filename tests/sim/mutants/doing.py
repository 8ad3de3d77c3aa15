"""Defects of readers, writers and the outbox."""

from tests.sim.mutants.mutant import Mutant

PRECONDITION, PUSH = "slurm/write/precondition.py", "slurm/write/nodes.py"
PACING, SETTLING = "controller/pacing.py", "controller/settling.py"
SLOTS, WORK_QUEUE = "controller/slots.py", "controller/workqueue.py"
WATCH = "kube/read/watch.py"

MUTANTS = (
    Mutant(
        name="a new own weight is overwritten",
        story="An administrator gave a node another weight, and a moment later it had the old one.",
        path=PRECONDITION,
        old="    if action.own not in (None, own):",
        new="    if False and action.own not in (None, own):",
    ),
    Mutant(
        name="a foreign drain is overwritten",
        story="An administrator's drain reason was replaced by a later reconcile (CHANGELOG 1.0.5"
        " / 1.2.0).",
        path=PRECONDITION,
        old="        case _ if is_foreign_drain(node):",
        new="        case _ if is_foreign_drain(node) and not node.reason:",
    ),
    Mutant(
        name="a DOWN node is drained",
        story="The drain of a DOWN node replaced slurmctld's own reason. The undrain that followed"
        " returned a dead machine to service.",
        path=PRECONDITION,
        old="        case _ if is_frozen(node.state):",
        new='        case _ if "FUTURE" in node.state:',
    ),
    Mutant(
        name="RESUME instead of UNDRAIN",
        story="RESUME also clears DOWN: a node that had failed meanwhile returned to service.",
        path=PRECONDITION,
        old='        case Undrain():\n            return NodeUpdate(state="UNDRAIN"',
        new='        case Undrain():\n            return NodeUpdate(state="RESUME"',
    ),
    Mutant(
        name="another cluster's mark",
        story="Controllers of two clusters shared one Slurm and overwrote each other's marks every"
        " second.",
        path=PRECONDITION,
        old="    if node.comment and (current is None or current.cluster != wanted.cluster):",
        new="    if node.comment and current is None:",
    ),
    Mutant(
        name="stale cache read",
        story="The precondition was checked against the last write instead of a read: a user's"
        " drain in between was lifted.",
        path=PUSH,
        old="        reads = await read_nodes_now(\n            self._client, names, bulk=bulk,"
        " clock=self._clock, usage=self._usage\n        )",
        new="        known = {\n            name: Seen(name,"
        " *self._written[name]) for name in names if name in self._written\n"
        "        }\n        unknown = names - known.keys()\n"
        "        reads = {**known, **await read_nodes_now(\n"
        "            self._client, unknown, bulk=bulk, clock=self._clock, usage=self._usage)}",
    ),
    Mutant(
        name="missing UID precondition",
        story="A Pod was created again under its name between the decision and the write. The new"
        " Pod got the conditions of the old one (operator#249).",
        path="kube/write/apply.py",
        old='"metadata": {"name": reference.name, "uid": reference.uid, **desired.metadata},',
        new='"metadata": {"name": reference.name, **desired.metadata},',
    ),
    Mutant(
        name="200 with errors",
        story="slurmrestd answered 200 with errors in the body, which counted as success (operator"
        " PR#79).",
        path="slurm/api/answers.py",
        old="    if envelope.errors:\n",
        new="    if envelope.errors and len(envelope.errors) > 1:\n",
    ),
    Mutant(
        name="half a listing is a whole one",
        story="A connection broke in the middle of a listing. All nodes after that point counted"
        " as gone.",
        path="slurm/read/nodes.py",
        old="        if isinstance(answer, SlurmError):\n            return answer\n"
        "        await self._tell_age()\n",
        new="        if isinstance(answer, SlurmError):\n"
        "            if telling._started:\n"
        "                await telling.end(self._time.clock())\n            return answer\n"
        "        await self._tell_age()\n",
    ),
    Mutant(
        name="lost wake-up",
        story="A write was wanted while all workers waited, and none was woken: it waited for the"
        " next event of any kind (bridge#51).",
        path=WORK_QUEUE,
        old="        if released:\n",
        new="        if released and not self._ready:\n",
    ),
    Mutant(
        name="lost write",
        story="The event of our write came before its answer. The answer was stored, and the same"
        " desired write was never sent again (simulator, seed 79).",
        path=SETTLING,
        old="    if slot.desired is not None:\n        _settle_answer(slot, slot.desired,",
        new="    if True:\n        _settle_answer(slot, slot.desired or action,",
    ),
    Mutant(
        name="undone before it was answered",
        story="A user had undone our write. The event was older than the answer, which then ended"
        " the matter.",
        path=SETTLING,
        old="    if slot.facts_changed and desired == action:",
        new="    if slot.facts_changed and desired is None:",
    ),
    Mutant(
        name="two writes in flight",
        story="A second request for the same node was sent before the first was answered. They"
        " arrived in reverse order.",
        path=SLOTS,
        old="self.in_flight is None and self.desired != self.settled",
        new="self.desired != self.settled",
    ),
    Mutant(
        name="retries without back-off",
        story="Every failed request was repeated at once. An API server that had just started"
        " failed again (soperator SCHED-1214).",
        path=SETTLING,
        old="        slot.not_before_s = now + backoff_s(\n",
        new="        slot.not_before_s = now + 0.0 * backoff_s(\n",
    ),
    Mutant(
        name="status thrash",
        story="Conditions of one node were written many times a second while jobs started and"
        " ended (operator CHANGELOG, status thrash).",
        path=PACING,
        old="PACE_S = 1.0",
        new="PACE_S = 0.001",
    ),
    Mutant(
        name="Unknown out of turn",
        story="In the second in which Slurm became unreachable a Node was written twice"
        " (simulator, seed 40).",
        path=PACING,
        old="            return max(self._unknown_next_s, paced_s(slot, action))",
        new="            return self._unknown_next_s",
    ),
    Mutant(
        name="unbounded wait",
        story="A request on a dead connection waited for ever. Only a restart helped"
        " (operator#239).",
        path="slurm/api/http.py",
        old="        with anyio.fail_after(max(question.timeout_s, 0)):",
        new="        with anyio.fail_after(None):",
    ),
    Mutant(
        name="a silent watch",
        story="A load balancer dropped the connection of a watch. No events came, and nobody"
        " noticed for hours.",
        path=WATCH,
        old="SILENCE_S = 100.0",
        new="SILENCE_S = 1e9",
    ),
    Mutant(
        name="410 ignored",
        story="After a compaction the watch was opened again and again at a version that no longer"
        " existed, without a new listing.",
        path=WATCH,
        old="            if error.status == GONE:\n                return error\n            lived",
        new="            lived",
    ),
    Mutant(
        name="token kept for good",
        story="The token was replaced in time, but the process used the old one until its restart"
        " (operator#240).",
        path="slurm/api/endpoint.py",
        old="            newer = self._context.token.reread()",
        new="            newer = token",
    ),
    Mutant(
        name="Retry-After ignored",
        story="Priority and fairness asked for a pause of a second. The client did not wait.",
        path="kube/write/outcomes.py",
        old="        return Unsure(action, why, error.retry_after_s)\n    return Refused",
        new="        return Unsure(action, why)\n    return Refused",
    ),
    Mutant(
        name="deletions skipped in a slice",
        story="Events of one kind were dropped if they came together with others: a deleted Pod"
        " was kept until the next listing.",
        path="kube/read/stream.py",
        old="                return self._deleted(event.observed)",
        new="                return None",
    ),
    Mutant(
        name="a 404 of a proxy",
        story="A proxy answered 404 instead of the API server, and every Pod counted as gone.",
        path="kube/write/push.py",
        old="    elif answer.status == 404 and answer.reason =="
        ' "NotFound" and answer.object_name == action.name:',
        new="    elif answer.status == 404:",
    ),
    Mutant(
        name="an unowned condition",
        story="Our conditions could not be removed from objects that were restored from a backup:"
        " nobody owned them.",
        path="kube/write/apply.py",
        old="    if isinstance(action, SetConditions) and not action.conditions:",
        new="    if isinstance(action, SetConditions) and action.conditions is None:",
    ),
    Mutant(
        name="304 after a read of one node",
        story="The listing was late, and an answer to our read overrode it: the host stayed"
        " undrained for a minute (simulator, 7710482).",
        path="slurm/read/nodes.py",
        old="        return None if due or self._touched_s > self._full_s else self._since_s",
        new="        return None if due else self._since_s",
    ),
    Mutant(
        name="a refused UID is ignored",
        story="etcd was restored without notice. Every write was refused with an immutable"
        " metadata.uid, and no listing followed (simulator, 7700275).",
        path="kube/write/outcomes.py",
        old="    return Refused(action, why, missing=is_missing(error))",
        new="    return Refused(action, why)",
    ),
    Mutant(
        name="a dead connection that breaks at last",
        story="etcd was restored while the connection was dead. The watch continued in another"
        " history.",
        path=WATCH,
        old="            return self._ambient.clock() - thread.heard_s > DEAD_S",
        new="            return False",
    ),
    Mutant(
        name="an answer from before the listing",
        story="The answer belonged to a history that etcd had lost. Its version overrode all later"
        " ones (simulator, 7712041).",
        path="core/graph/graph.py",
        old="        if answer.asked_s < kind.table.begun_s:",
        new="        if False:",
    ),
    Mutant(
        name="a write is sent after a long wait",
        story="slurmctld accepted no token for 13 s, and a user's drain was overwritten"
        " (simulator, 8113111).",
        path=PUSH,
        old="            return self._clock() <= by_s",
        new="            return self._clock() >= 0.0",
    ),
    Mutant(
        name="a new reason drains anew",
        story="An undrain came first. The limit on drains did not count the new drain (simulator,"
        " seed 8140443).",
        path=PRECONDITION,
        old="    if action.rewrites and not drained:",
        new="    if False:",
    ),
    Mutant(
        name="a read before a failed write is dropped",
        story="`drained=true` was based on a listing of half a minute ago, although later reads"
        " existed (simulator, seed 8140561).",
        path=PUSH,
        old="    return Unsure(action, str(failure), seen=tuple(news))",
        new="    return Unsure(action, str(failure))",
    ),
    Mutant(
        name="a read waits for the answer to its write",
        story="The write took ten seconds. Meanwhile `drained=true` rested on an older listing"
        " (simulator, seed 9021353).",
        path=PUSH,
        old="            await self._tell([news for one in seen for news in one.news])",
        new="            assert seen",
    ),
)
