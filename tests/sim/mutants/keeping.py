"""Defects of NodeSets: which slurmd Pods and records are made, kept and ended."""

from tests.sim.mutants.mutant import Mutant

CONDEMN, POPULATE = "core/rules/node_set/condemn.py", "core/rules/node_set/populate.py"
FINALIZE = "core/rules/node_set/finalize.py"
PART, FORGET, ENROL = (
    "core/rules/host/part.py",
    "core/rules/host/forget.py",
    "core/rules/host/enrol.py",
)
VIEW, INDEX = "core/views/node_set.py", "core/node_sets/index.py"
PUSH, RECORDS = "kube/write/node_sets.py", "slurm/write/records.py"
PRECONDITION = "slurm/write/precondition.py"
EXCLUSION = "controller/mutual_exclusion.py"
TALLY, TELL = "core/rules/node_set/tally.py", "core/rules/node_set/tell.py"
DRAIN, RETIRE = "core/rules/host/drain.py", "core/rules/host/retire.py"
REQUEUE, REQUEUE_PUSH = "core/rules/host/requeue.py", "slurm/write/requeue.py"


def _mutant(name: str, path: str, old: str, new: str, story: str) -> Mutant:
    return Mutant(name=name, story=story, path=path, old=old, new=new)


MUTANTS = (
    _mutant(
        "a Pod that somebody else's Pod replaced still counts", INDEX,
        "_counts_for(before) != _counts_for(after)", "leaves(before) != leaves(after)",
        "The simulator's seed 9315522: a NodeSet of two had one Pod for ever, and said in sync.",
    ),
    _mutant(
        "a Pod is made while its record is being deleted", EXCLUSION,
        "(*self._other_choices(slot, action, now=now), record)",
        "self._other_choices(slot, action, now=now)",
        "The simulator's seed 9314999: the record went under the new Pod, which went after it.",
    ),
    _mutant(
        "another Pod is condemned while the first may still go", EXCLUSION,
        "                slot.after = self._other_choices(slot, action, now=now)",
        "                slot.after = ()",
        "The simulator's seed 9310424: for a moment no Pod was to stay.",
    ),
    _mutant(
        "new Pods are made beside condemned ones", VIEW,
        "return pod.terminating and cause_of(pod) in", "return cause_of(pod) in",
        "An autoscaler changed its mind: twelve new Pods were made and deleted at once.",
    ),
    _mutant(
        "a scale-in widens the budget of an update", CONDEMN,
        "        if not _is_replaced(slot) and _costs(slot) and not _is_in_window(spec, slot):",
        "        if cause_of(slot.pod) is None and _costs(slot):",
        "Replicas fell and rose during an update, and half of the nodes were replaced at once.",
    ),
    _mutant(
        "busy Pods go before idle ones", CONDEMN,
        "        busy,\n        slot.ends_s if busy else 0,",
        "        not busy,\n        slot.ends_s if busy else 0,",
        "Three idle nodes stayed, and the one with the long job was drained.",
    ),
    _mutant(
        "Pods that never came up do not count", CONDEMN,
        "    left = budget - desired + sum("
        "is_available(one, spec, now=now) for one in kept)",
        "    left = budget",
        "A wrong image was rolled out to all nodes, one after the other.",
    ),
    _mutant(
        "a busy Pod stays before another is drained in its place", CONDEMN,
        "    return is_slot_drained(slot) or not is_registered(slot)",
        "    return True",
        "A job started on the other node, and then both had jobs and none could go.",
    ),
    _mutant(
        "Pods are condemned and taken back for ever", CONDEMN,
        "    if slot.spared or is_slot_busy(slot)",
        "    if is_slot_busy(slot)",
        "On a busy cluster two nodes were drained and undrained in turns.",
    ),
    _mutant(
        "the order of busy Pods is not asked for", CONDEMN,
        "    if not moving or len(goes) < 2 or now < view.ends_read_s + ENDS_KNOWN_S:",
        "    if True:",
        "A scale-in waited ten hours for a job, and the one beside it ended in a minute.",
    ),
    _mutant(
        "nodes that a person drained eat the budget", CONDEMN,
        "    desired = view.desired - aside - held",
        "    desired = view.desired",
        "Two of eight nodes were drained by people, and no node was updated.",
    ),
    _mutant(
        "a slurmd that never registers is made anew all the time", "core/views/unregistered.py",
        "    return doubled_s(PATIENCE_S, doublings=count, longest_s=LONGEST_PATIENCE_S)",
        "    return PATIENCE_S",
        "MaxNodeCount was reached: one Pod came and went every 16 s for a week.",
    ),
    _mutant(
        "numbered Pods go to silent Nodes", "core/translate/slurmd_pod.py",
        'Toleration("node.kubernetes.io/not-ready", "Exists", effect="NoExecute")',
        'Toleration("node.kubernetes.io/not-ready", "Exists")',
        "Three Pods landed on three silent Nodes beside 26 free ones.",
    ),
    _mutant(
        "a Pod goes with its job", PART,
        "    if not is_drained(record.state) or may_run_jobs(record.state):\n"
        "        return QUIET\n",
        "",
        "A drain was lifted by hand, a job started, and the Pod was deleted under it.",
    ),
    _mutant(
        "a Pod goes while the lift of a drain is on its way", PART,
        "    if not _is_for_it(host, record, pod.pending_deletion or \"\"):",
        "    if False:",
        "The simulator's seed 9302078: the drain was an older one, and just being lifted.",
    ),
    _mutant(
        "a deletion ignores what changed meanwhile", PUSH,
        "deletion(action.reference, version=int(read.order))",
        "deletion(action.reference)",
        "Replicas rose between the read and the deletion.",
    ),
    _mutant(
        "an older read proves that no Pod was made", PUSH,
        "            return replace(outcome, seen=(perhaps,))",
        "            return outcome",
        "The simulator's seed 9300004: a record was deleted under its living Pod.",
    ),
    _mutant(
        "a record is deleted on an absent row alone", FORGET,
        '    if read is None or read.found != "no":',
        "    if False:",
        "The selector was wrong for a minute, and all idle nodes left Slurm.",
    ),
    _mutant(
        "a Pod is made beside a record of another shape", POPULATE,
        "    if is_older(record, view.plan):",
        "    if False:",
        "slurmd came back with more memory, and Slurm kept the old number.",
    ),
    _mutant(
        "a record that a job requires is deleted", RECORDS,
        "        if job := required.get(action.slurm_node):",
        "        if (job := required.get(action.slurm_node)) and job < 0:",
        "The job waited for a week, and failed at the next reconfigure.",
    ),
    _mutant(
        "a lost record is noticed at once", ENROL,
        "    due_s = host.pod_since_s + patience_s(host.unregistered)\n",
        "    due_s = 0.0\n",
        "Each new Pod was deleted before its slurmd had registered.",
    ),
    _mutant(
        "a NodeSet is let go while records are left", FINALIZE,
        "    left = 0 if spec.orphan else len(view.slots) + view.records_left",
        "    left = 0 if spec.orphan else len(view.slots)",
        "The NodeSet was gone, and its nodes stayed in Slurm as DOWN for ever.",
    ),
    _mutant(
        "a Pod that failed is made again at once", POPULATE,
        "    return failures.last_s + pause_s",
        "    return failures.last_s",
        "A Node out of memory evicted the Pod forty times a second.",
    ),
    _mutant(
        "features of others are removed", PRECONDITION,
        "        features=_joined(of_others(node.features, mark), wanted),",
        "        features=_joined((), wanted),",
        "The partition that an administrator had built on a feature was empty.",
    ),
    _mutant(
        "names in use are given again", INDEX,
        "            if name not in used:",
        "            if name not in used or ordinal == 0:",
        "The API server refused the same Pod for an hour, and the NodeSet never grew.",
    ),
    _mutant(
        "jobs are requeued before their time", REQUEUE,
        "    due_s = host.drained_since_s + after_s",
        "    due_s = 0.0",
        "An update ended jobs that had half an hour left to end by themselves.",
    ),
    _mutant(
        "jobs that have ended are run again", REQUEUE_PUSH,
        '"flags": [INCOMPLETE]', '"flags": []',
        "A job was complete when the requeue came, and ran a second time.",
    ),
    _mutant(
        "a whole array is requeued for one task", REQUEUE_PUSH,
        'return f"{int(array)}_{int(task)}" if array and task is not None else str(self.job_id)',
        "return str(self.job_id)",
        "An update of one node ended forty tasks on forty others.",
    ),
    _mutant(
        "Pods are updated before their window", CONDEMN,
        "    return in_maintenance(record.state)",
        '    return in_maintenance(record.state) or "RESERVED" in record.state',
        "The update began in the afternoon, although the window was at night.",
    ),
    _mutant(
        "a node that a person drained is available", VIEW,
        "record is not None and not takes_no_job(record.state)", "record is not None",
        "A person drained a node, and the NodeSet counted it as available.",
    ),
    _mutant(
        "a name that Slurm gave away is not said", TALLY,
        "[one.name for one in view.vacancies if is_foreign(one.record, view.plan)]", "[]",
        "A static node had the name of a slot. The NodeSet waited for ever, and said in sync.",
    ),
    _mutant(
        "a record that goes gets a new reason", DRAIN,
        "drained and (goes or slurm_node.reason == reason)",
        "drained and slurm_node.reason == reason",
        "One of ten deletions of records logged a refused drain.",
    ),
    _mutant(
        "a drain meets the deletion of its record", EXCLUSION,
        "slot.after = (record,) if record is not None else ()", "slot.after = ()",
        "Slurm refused the drain of a node that was gone by then.",
    ),
    _mutant(
        "an idle Pod waits for the next listing", RETIRE,
        "        return _look(host)", "        return QUIET",
        "Idle scale-ins took the interval between two listings of Slurm nodes.",
    ),
    _mutant(
        "an update has no end", TELL,
        "view.story.updated_to == revision or ", "",
        "`kubectl describe` showed updates that began, and seldom one that ended.",
    ),
)  # fmt: skip
