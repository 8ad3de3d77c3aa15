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
WEIGHT, PACKED = "core/rules/host/weight.py", "core/translate/packed_weight.py"

MUTANTS = (
    Mutant(
        name="kinds lose their order",
        story="Small jobs started on the expensive nodes, because these were in use.",
        path=PACKED,
        old="    return FROM + own * _OWN +",
        new="    return FROM + own +",
    ),
    Mutant(
        name="a drained host is not restored",
        story="Packing was switched off while a node was repaired. It came back with a weight above"
        " all others, and stayed empty.",
        path=WEIGHT,
        old="    if slurm_node is None or slurm_node.weight == own:",
        new="    if slurm_node is None or slurm_node.weight == own"
        " or is_drained(slurm_node.state):",
    ),
    Mutant(
        name="steps are not limited",
        story="Jobs of a second each made slurmctld change a weight twice for each of them.",
        path=POLICY,
        old="        if len(self._moved) >= limit:",
        new="        if len(self._moved) >= limit + 10_000:",
    ),
    Mutant(
        name="fail-open read of a Pod",
        story="A failed read counted as 'gone': healthy Pods were drained and killed whenever the"
        " API server refused a read (operator PR#79).",
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
        name="an absence needs no read by name",
        story="A typo in the selector removed every Pod from the listing. The controller believed"
        " the listing and drained every host.",
        path=DRAIN,
        old='    if get_result is None:\n        return Open(f"{words}, reading it by name", look)',
        new="    if get_result is None:\n        return Stands(words)",
    ),
    Mutant(
        name="wrong precedence",
        story="Of two causes the weaker one gave the reason: operators searched for a taint while"
        " somebody had cordoned the Node.",
        path=DRAIN,
        old='    Cause("k8s: node cordoned", _node_cordoned),\n'
        '    Cause("k8s: node tainted", _node_tainted),\n',
        new='    Cause("k8s: node tainted", _node_tainted),\n'
        '    Cause("k8s: node cordoned", _node_cordoned),\n',
    ),
    Mutant(
        name="reason echo loop",
        story="The reason left by an undrain counted as our drain and was lifted again and again."
        " A later drain by slurmctld kept the text and was lifted too (24.11).",
        path=DRAIN,
        old="    return sanitise_reason(LIFTED_PREFIX + reason)",
        new="    return sanitise_reason(reason)",
    ),
    Mutant(
        name="power saving drains what it removes",
        story="Slurm powered a node down, its Node went, and the node was drained when a job woke"
        " it: slurmctld requeued the job at each wake-up.",
        path=DRAIN,
        old="        if powered and cause.comes_of_power_saving():",
        new="        if powered and cause.ends:",
    ),
    Mutant(
        name="a cordon ends the job that wakes a node",
        story="A drain of a node on its way up ended the job that waited for it.",
        path="core/translate/node_states.py",
        old="    return is_busy(state) and not state.isdisjoint(POWERED_OFF | POWERED_ON)",
        new='    return is_busy(state) and "POWER_UP" in state',
    ),
    Mutant(
        name="an autoscaler removes a node under new jobs",
        story="The taint of an autoscaler was not seen, and jobs started until the Node was gone.",
        path="kube/decode/node_signs.py",
        old='if one.effect in ("NoSchedule", "NoExecute")]',
        new='if one.effect == "NoExecute"]',
    ),
    Mutant(
        name="auto-undrain",
        story="Nodes that an administrator had drained without a reason returned to service"
        " (operator PR#3).",
        path="core/translate/node_states.py",
        old="    return reason.startswith(REASON_PREFIX)",
        new="    return not reason or reason.startswith(REASON_PREFIX)",
    ),
    Mutant(
        name="decisions before the first listings",
        story="A new process decided before everything was listed: unread objects counted as gone.",
        path=POLICY,
        old="    return not (graph.sources.stale or graph.configuration.dry_run or graph.paused)",
        new="    return not (graph.configuration.dry_run or graph.paused)",
    ),
    Mutant(
        name="lifted with a broken watch",
        story="The watch of Nodes had been broken for minutes. A drain was lifted because its last"
        " known cause had ended. There was a new cause, which nobody had read.",
        path=POLICY,
        old="(traits_of(action).lifts or _releases_pod(action))",
        new="_releases_pod(action)",
    ),
    Mutant(
        name="breaker off by one",
        story="The limit of drains a minute admitted one more than the operator had set.",
        path=POLICY,
        old="len(self._passed) >= limit:",
        new="len(self._passed) > limit:",
    ),
    Mutant(
        name="breaker without a second listing",
        story="Held drains continued at the given rate without a new listing: half the cluster was"
        " drained slowly instead of quickly.",
        path=POLICY,
        old="        waits = held_s is not None and listed_s < held_s",
        new="        waits = False",
    ),
    Mutant(
        name="forgotten dirty edge of a Node",
        story="A deleted Node marked no key dirty: its host kept its verdict until the next audit.",
        path=HOST_IDENTITY,
        old="        hosts.update(self.last_seen.hosts_last_at(node_place(row.name)))\n",
        new="",
    ),
    Mutant(
        name="the wrong rival remembered",
        story="The place of a deleted Pod was kept after a neighbour's conflict ended, so the loss"
        " of the Node was never noticed (simulator, seed 134).",
        path=HOST_IDENTITY,
        old="before.slurm_node, *self.claims.hosts_on_node(before.node_name)",
        new="before.slurm_node",
    ),
    Mutant(
        name="older events win",
        story="A reordered event restored an old state. Without its successor that state stayed"
        " for ever.",
        path=TABLE,
        old="        older = order < entry.order or ",
        new="        older = ",
    ),
    Mutant(
        name="an answer hides that a Pod left the selector",
        story="The answer to a write was newer than the event that removed the Pod from the"
        " listing. That event was ignored for ever (simulator, seed 2430).",
        path=TABLE,
        old="(other or order < entry.named_order):",
        new="(other or order < entry.order):",
    ),
    Mutant(
        name="the deletion of an earlier Pod counts",
        story="A Pod was deleted and created again under its name. The late event of the old Pod's"
        " end removed the new Pod (stale-cache patches, operator#249).",
        path=TABLE,
        old="(other or order < entry.named_order):",
        new="(order < entry.named_order):",
    ),
    Mutant(
        name="drained before it was read",
        story="A Pod got drained=true by a state that was read before the drain. A job had started"
        " in between (DRAINING taken for DRAINED, NVSentinel PR#918).",
        path="core/rules/host/retire.py",
        old="        and not slurm_node.assumed\n",
        new="",
    ),
    Mutant(
        name="a node of which nothing is known counts as idle",
        story="slurmctld was restarted, and showed a node whose CPUs were all in use as UNKNOWN."
        " Its Pod got drained=true, and was deleted under the job (simulator, 9311860).",
        path="core/rules/host/retire.py",
        old="        and not may_run_jobs(slurm_node.state)\n",
        new='        and slurm_node.state.isdisjoint(("ALLOCATED", "COMPLETING", "MIXED"))\n',
    ),
    Mutant(
        name="echo loop of cordons",
        story="A drain in Slurm cordoned the Node. The cordon counted as a cause, and neither was"
        " ever lifted.",
        path=DRAIN,
        old="    if node is None or not node.unschedulable or node.cordoned_for_drain:",
        new="    if node is None or not node.unschedulable:",
    ),
    Mutant(
        name="an old state shown as current",
        story="slurmctld had been down for an hour, and dashboards still showed every node idle.",
        path=MIRROR,
        old="    conditions = UNKNOWN if host.blind else",
        new="    conditions = () if host.blind and False else",
    ),
    Mutant(
        name="ghost labels",
        story="Labels of a deleted Slurm node stayed on the Node and kept other schedulers away"
        " (operator PR#173).",
        path=MIRROR,
        old="            _clean(host.node, wants)",
        new="            pass",
    ),
    Mutant(
        name="no grace period",
        story="Each rolling restart of a sidecar drained the node for the two seconds in which the"
        " Pod was not ready.",
        path=DRAIN,
        old="    ripe_s = host.pod_since_s + configuration.not_ready_grace_s",
        new="    ripe_s = host.pod_since_s",
    ),
    Mutant(
        name="a line break in a reason",
        story="A line break in a cordon reason became a line of slurm.conf and of the log"
        " (operator, injection through strings).",
        path="core/translate/node_states.py",
        old='        readable = "".join(c if c.isprintable() else " " for c in readable)',
        new="        readable = str(readable)",
    ),
    Mutant(
        name="a false alarm of the audit",
        story="Hosts that ended during a round of the audit counted as missing edges and were"
        " logged as errors (simulator, seed 2).",
        path="core/reconciler.py",
        old=" or not self.graph.keys.knows(key):\n            return False",
        new=":\n            return False",
    ),
    Mutant(
        name="no listing after refused writes",
        story="The API server refused each write to Pods that no longer existed, for ever.",
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
