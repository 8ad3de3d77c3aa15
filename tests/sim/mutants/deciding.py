"""Defects of rules, policy and the graph."""

from tests.sim.mutants.mutant import Mutant

HOST_IDENTITY = "core/tables/host_identity.py"
DRAIN, GRAPH, TABLE, POLICY = (
    "core/rules/host/drain.py",
    "core/graph/graph.py",
    "core/tables/table.py",
    "core/policy.py",
)
MIRROR = "core/rules/host/mirror.py"

MUTANTS = (
    Mutant(
        name="fail-open read of a Pod",
        story="A lookup that failed was read as 'already gone', so healthy Pods were drained"
        " and killed whenever the API server refused a read (operator PR#79).",
        path=DRAIN,
        old='        get_result.found == "no" or (get_result.found == "yes"'
        " and get_result.uid != last.uid)",
        new='        get_result.found != "yes" or get_result.uid != last.uid',
    ),
    Mutant(
        name="fail-open read of a Node",
        story="The same for Nodes: a 403 after a change of permissions drained the whole cluster.",
        path=DRAIN,
        old='    if get_result is not None and get_result.found == "no":',
        new='    if get_result is not None and get_result.found != "yes":',
    ),
    Mutant(
        name="an absence needs no question",
        story="A selector with a typo made every Pod vanish from the listing, and a controller"
        " that believed the listing drained every host.",
        path=DRAIN,
        old='    if get_result is None:\n        return Open(f"{words}, reading it by name", look)',
        new="    if get_result is None:\n        return Stands(words)",
    ),
    Mutant(
        name="wrong precedence",
        story="Two causes at once and the weaker one gave the reason: operators looked for a"
        " cordoned Pod while the Node was being replaced.",
        path=DRAIN,
        old='    Cause("k8s: node cordoned", _node_cordoned),\n'
        '    Cause("k8s: pod cordoned", _pod_cordoned),\n',
        new='    Cause("k8s: pod cordoned", _pod_cordoned),\n'
        '    Cause("k8s: node cordoned", _node_cordoned),\n',
    ),
    Mutant(
        name="reason echo loop",
        story="The text left after an undrain was taken for a drain of ours and lifted again and"
        " again; slurmctld's own later drain kept the text and was lifted too (24.11).",
        path=DRAIN,
        old="    lifted = sanitise_reason(LIFTED_PREFIX + reason)",
        new="    lifted = sanitise_reason(reason)",
    ),
    Mutant(
        name="auto-undrain",
        story="Nodes that an administrator had drained without a text came back by themselves"
        " (operator PR#3).",
        path="core/translate/node_states.py",
        old="    return reason.startswith(REASON_PREFIX)",
        new="    return not reason or reason.startswith(REASON_PREFIX)",
    ),
    Mutant(
        name="restart re-validation",
        story="A process that had just started judged before everything was listed: what it had"
        " not seen yet looked gone.",
        path=POLICY,
        old="    return not (graph.sources.stale or graph.configuration.dry_run)",
        new="    return not graph.configuration.dry_run",
    ),
    Mutant(
        name="lifted while blind",
        story="The watch of Nodes had been broken for minutes; a drain was lifted because the"
        " cause seen last had gone, while a new one had come unseen.",
        path=POLICY,
        old="(traits_of(action).lifts or _releases_pod(action))",
        new="_releases_pod(action)",
    ),
    Mutant(
        name="breaker off by one",
        story="The limit of drains a minute let one more through than the operator had set.",
        path=POLICY,
        old="len(self._passed) >= limit:",
        new="len(self._passed) > limit:",
    ),
    Mutant(
        name="breaker without a second listing",
        story="Held drains went on at the given rate though nobody had looked again: half the"
        " cluster was drained slowly instead of quickly.",
        path=POLICY,
        old="        waits = held_s is not None and listed_s < held_s",
        new="        waits = False",
    ),
    Mutant(
        name="forgotten dirty edge of a Node",
        story="A Node that was deleted marked nobody: its host kept its verdict until the next"
        " audit.",
        path=HOST_IDENTITY,
        old="        hosts.update(self.last_seen.hosts_last_at(node_place(row.name)))\n",
        new="",
    ),
    Mutant(
        name="the wrong rival remembered",
        story="Found by the simulator (seed 134): the place of a Pod that had gone was kept after"
        " a neighbour's conflict ended, so the loss of the Node was never noticed.",
        path=HOST_IDENTITY,
        old="before.slurm_node, *self.claims.hosts_on_node(before.node_name)",
        new="before.slurm_node",
    ),
    Mutant(
        name="older events win",
        story="A reordered event put an old state back; without its successor it stood for ever.",
        path=TABLE,
        old="        older = order < entry.order or ",
        new="        older = ",
    ),
    Mutant(
        name="an answer hides that a Pod left the selector",
        story="Found by the simulator (seed 2430): the answer to a write was newer than the event"
        " that took the Pod out of the listing, which was then ignored for ever.",
        path=TABLE,
        old="(other or order < entry.named_order):",
        new="(other or order < entry.order):",
    ),
    Mutant(
        name="a deletion of the one before",
        story="A Pod was deleted and made anew under its name; the late event of the old one's"
        " end took the new one out of the picture (stale-cache patches, operator#249).",
        path=TABLE,
        old="(other or order < entry.named_order):",
        new="(order < entry.named_order):",
    ),
    Mutant(
        name="drained before it was read",
        story="A Pod was told that its node is idle by the state read before the drain; a job"
        " had started in between (DRAINING taken for DRAINED, NVSentinel PR#918).",
        path="core/rules/host/retire.py",
        old="        and not slurm_node.assumed\n",
        new="",
    ),
    Mutant(
        name="echo loop of cordons",
        story="A drain in Slurm cordoned the Node, the cordon was taken for a cause, and neither"
        " was ever lifted again.",
        path=DRAIN,
        old="    if node is None or not node.unschedulable or node.cordoned_for_drain:",
        new="    if node is None or not node.unschedulable:",
    ),
    Mutant(
        name="old news shown as true",
        story="slurmctld had been dead for an hour and dashboards still showed every node idle.",
        path=MIRROR,
        old="    conditions = UNKNOWN if host.blind else",
        new="    conditions = () if host.blind and False else",
    ),
    Mutant(
        name="ghost labels",
        story="Labels of a Slurm node that no longer exists stayed on the Node and kept other"
        " schedulers away (operator PR#173).",
        path=MIRROR,
        old="            _clean(host.node, wants)",
        new="            pass",
    ),
    Mutant(
        name="no grace",
        story="Every rolling restart of a sidecar drained the node for the two seconds in which"
        " the Pod was not ready.",
        path=DRAIN,
        old="    ripe_s = host.pod_since_s + configuration.not_ready_grace_s",
        new="    ripe_s = host.pod_since_s",
    ),
    Mutant(
        name="a word of slurm.conf",
        story="A line end in a cordon reason ended up in slurm.conf and in the log as a line of"
        " its own (operator, injection through strings).",
        path="core/translate/node_states.py",
        old='        readable = "".join(c if c.isprintable() else " " for c in readable)',
        new="        readable = str(readable)",
    ),
    Mutant(
        name="a false alarm of the audit",
        story="Found by the simulator (seed 2): hosts that ended during a round of the audit were"
        " counted as missing edges and logged as errors.",
        path="core/reconciler.py",
        old=" or not self.graph.keys.knows(key):\n            return False",
        new=":\n            return False",
    ),
    Mutant(
        name="no listing for what is in doubt",
        story="The API server refused each write to Pods that it had no longer, for ever.",
        path="core/rules/cluster/relist.py",
        old="    due = [doubt for doubt in cluster.doubts if doubt.due_s <= now]",
        new="    due: list[Doubt] = []",
    ),
    Mutant(
        name="listings without a pause",
        story="A write was refused for another reason: all Pods were listed every two seconds.",
        path="core/tables/doubts.py",
        old="        return Doubt(source, row, since_s, max(since_s + WATCH_S, again_s))",
        new="        return Doubt(source, row, since_s, since_s + WATCH_S)",
    ),
)
