"""Defects of readers, writers and the outbox."""

from tests.sim.mutants.mutant import Mutant

PRECONDITION, PUSH = "slurm/write/precondition.py", "slurm/write/nodes.py"
PACING, SETTLING = "controller/pacing.py", "controller/settling.py"
SLOTS, WORK_QUEUE = "controller/slots.py", "controller/workqueue.py"
WATCH = "kube/read/watch.py"

MUTANTS = (
    Mutant(
        name="a foreign drain is overwritten",
        story="The drain reason of an administrator was replaced on a later reconcile"
        " (CHANGELOG 1.0.5 / 1.2.0).",
        path=PRECONDITION,
        old="        case _ if is_foreign_drain(node):",
        new="        case _ if is_foreign_drain(node) and not node.reason:",
    ),
    Mutant(
        name="a DOWN node is drained",
        story="Draining a DOWN node replaced slurmctld's own reason, and the undrain that"
        " followed returned a dead machine to service.",
        path=PRECONDITION,
        old="        case _ if is_frozen(node.state):",
        new='        case _ if "FUTURE" in node.state:',
    ),
    Mutant(
        name="RESUME instead of UNDRAIN",
        story="RESUME also clears DOWN: a node that had died meanwhile was declared healthy.",
        path=PRECONDITION,
        old='        case Undrain():\n            return NodeUpdate(state="UNDRAIN"',
        new='        case Undrain():\n            return NodeUpdate(state="RESUME"',
    ),
    Mutant(
        name="another cluster's mark",
        story="Two controllers of two clusters shared one Slurm and wrote over each other's marks"
        " every second.",
        path=PRECONDITION,
        old="    if node.comment and (current is None or current.cluster != wanted.cluster):",
        new="    if node.comment and current is None:",
    ),
    Mutant(
        name="stale cache read",
        story="The precondition was checked against what was written last instead of a read:"
        " a human's drain in between was lifted.",
        path=PUSH,
        old="        reads = await read_nodes_now(self._client, names, bulk=bulk,"
        " clock=self._clock)",
        new="        known = {\n            name: Seen(name,"
        " *self._written[name]) for name in names if name in self._written\n"
        "        }\n        unknown = names - known.keys()\n"
        "        reads = {**known, **await read_nodes_now(\n"
        "            self._client, unknown, bulk=bulk, clock=self._clock)}",
    ),
    Mutant(
        name="missing UID precondition",
        story="A Pod was made anew under its name between the decision and the write; the new"
        " one got the old one's conditions (operator#249).",
        path="kube/write/apply.py",
        old='"metadata": {"name": reference.name, "uid": reference.uid, **desired.metadata},',
        new='"metadata": {"name": reference.name, **desired.metadata},',
    ),
    Mutant(
        name="200 with errors",
        story="slurmrestd answered 200 with errors in the body, and that passed for success"
        " (operator PR#79).",
        path="slurm/api/answers.py",
        old="    if envelope.errors:\n",
        new="    if envelope.errors and len(envelope.errors) > 1:\n",
    ),
    Mutant(
        name="half a listing is a whole one",
        story="A connection broke in the middle of a listing; every node after that was gone.",
        path="slurm/read/nodes.py",
        old="        if isinstance(answer, SlurmError):\n            return answer\n"
        "        if not answer.unchanged:",
        new="        if isinstance(answer, SlurmError):\n"
        "            if telling._started:\n"
        "                await telling.end(self._time.clock())\n            return answer\n"
        "        if not answer.unchanged:",
    ),
    Mutant(
        name="lost wake-up",
        story="A wish came while everybody slept and nobody was woken: it waited for the next"
        " event of any kind (bridge#51).",
        path=WORK_QUEUE,
        old="        if released:\n",
        new="        if released and not self._ready:\n",
    ),
    Mutant(
        name="lost wish",
        story="Found by the simulator (seed 79): the event of our write came before its answer,"
        " the answer was remembered, and the same desired write was never carried out again.",
        path=SETTLING,
        old="    if slot.desired is not None:\n        _settle_answer(slot, slot.desired,",
        new="    if True:\n        _settle_answer(slot, slot.desired or action,",
    ),
    Mutant(
        name="undone before it was answered",
        story="The news that a human had undone our write was older than its answer, which then"
        " counted as the end of the matter.",
        path=SETTLING,
        old="    if slot.facts_changed and desired == action:",
        new="    if slot.facts_changed and desired is None:",
    ),
    Mutant(
        name="two at once",
        story="A second request for the same node was sent before the first was answered, and"
        " they arrived the other way round.",
        path=SLOTS,
        old="self.in_flight is None and self.desired != self.settled",
        new="self.desired != self.settled",
    ),
    Mutant(
        name="hammering",
        story="Every failed request was sent again at once; an API server that had just come back"
        " went down again (soperator SCHED-1214).",
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
        story="Found by the simulator (seed 40): in the second in which Slurm went blind a Node"
        " was written twice.",
        path=PACING,
        old="            return max(self._unknown_next_s, paced_s(slot, action))",
        new="            return self._unknown_next_s",
    ),
    Mutant(
        name="unbounded wait",
        story="A connection that nobody answered was waited for for ever; only a restart helped"
        " (operator#239).",
        path="slurm/api/http.py",
        old="        with anyio.fail_after(max(question.timeout_s, 0)):",
        new="        with anyio.fail_after(None):",
    ),
    Mutant(
        name="a silent watch",
        story="A load balancer forgot the connection of a watch; nothing came any more, and"
        " nobody noticed for hours.",
        path=WATCH,
        old="SILENCE_S = 100.0",
        new="SILENCE_S = 1e9",
    ),
    Mutant(
        name="410 taken lightly",
        story="After a compaction the watch was opened again and again at a version that was"
        " gone, instead of listing anew.",
        path=WATCH,
        old="            if error.status == GONE:\n                return error\n            lived",
        new="            lived",
    ),
    Mutant(
        name="token kept for good",
        story="The token was replaced in time, and the process went on with the old one until it"
        " was restarted (operator#240).",
        path="slurm/api/endpoint.py",
        old="            newer = self._context.token.reread()",
        new="            newer = token",
    ),
    Mutant(
        name="Retry-After ignored",
        story="Priority and fairness asked for a second of peace and got none.",
        path="kube/write/outcomes.py",
        old="        return Unsure(action, why, error.retry_after_s)\n    return Refused",
        new="        return Unsure(action, why)\n    return Refused",
    ),
    Mutant(
        name="deletions skipped in a slice",
        story="Events of one kind were dropped when they came together with others: a Pod that"
        " was gone stayed in the picture until the next listing.",
        path="kube/read/stream.py",
        old="                return self._deleted(event.observed)",
        new="                return None",
    ),
    Mutant(
        name="a 404 of somebody else",
        story="A proxy answered 404 for the API server, and every Pod counted as gone.",
        path="kube/write/push.py",
        old="    elif answer.status == 404 and answer.reason =="
        ' "NotFound" and answer.object_name == action.name:',
        new="    elif answer.status == 404:",
    ),
    Mutant(
        name="a condition that is not there any more",
        story="Our conditions could not be taken away from objects restored from a backup, for"
        " nobody owned them.",
        path="kube/write/apply.py",
        old="    if isinstance(action, SetConditions) and not action.conditions:",
        new="    if isinstance(action, SetConditions) and action.conditions is None:",
    ),
    Mutant(
        name="304 after a read of one node",
        story="The listing was late, and an answer of ours overruled what it showed: the host"
        " stayed undrained for a minute (simulator, 7710482).",
        path="slurm/read/nodes.py",
        old="        return None if due or self._touched_s > self._full_s else self._since_s",
        new="        return None if due else self._since_s",
    ),
    Mutant(
        name="a refused UID says nothing",
        story="etcd was restored unseen: every write was refused with an immutable metadata.uid,"
        " and nothing listed again (simulator, 7700275).",
        path="kube/write/outcomes.py",
        old="    return Refused(action, why, missing=is_missing(error))",
        new="    return Refused(action, why)",
    ),
    Mutant(
        name="a dead connection that breaks at last",
        story="etcd was restored behind it, and the watch went on in a history that was another.",
        path=WATCH,
        old="            return self._ambient.clock() - thread.heard_s > DEAD_S",
        new="            return False",
    ),
    Mutant(
        name="an answer from before the listing",
        story="It was of a history that etcd had lost, and its version overruled all that came"
        " after (simulator, 7712041).",
        path="core/graph/graph.py",
        old="        if answer.asked_s < kind.table.begun_s:",
        new="        if False:",
    ),
    Mutant(
        name="a write that waited for long is sent all the same",
        story="slurmctld took no token for 13 s, and a human's drain was written over (simulator,"
        " 8113111).",
        path=PUSH,
        old="            return self._clock() <= by_s",
        new="            return self._clock() >= 0.0",
    ),
    Mutant(
        name="a new reason drains anew",
        story="An undrain came first, and the limit on drains did not count the new drain"
        " (simulator, seed 8140443).",
        path=PRECONDITION,
        old="    if action.rewrites and not drained:",
        new="    if False:",
    ),
    Mutant(
        name="a read before a failed write is dropped",
        story="`drained=true` rested on a listing half a minute old, though later reads existed"
        " (simulator, seed 8140561).",
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
