"""Defects of the scheduling of Pods: rules, workloads, jobs, hooks."""

from tests.sim.mutants.mutant import Mutant

BIND, BINDING, RELEASE, EVICT = (
    "core/rules/workload/bind.py",
    "core/views/binding.py",
    "core/rules/workload/release.py",
    "core/rules/workload/evict.py",
)
GATE, STOP, SUBMIT, WAIT = (
    "core/rules/host/gate.py",
    "core/rules/workload/stop.py",
    "core/rules/workload/submit.py",
    "core/rules/workload/wait.py",
)
STATE, PUSH, MAKE = "core/views/conclusions.py", "slurm/write/jobs.py", "slurm/write/submit.py"
POLL, LOOK = "slurm/read/jobs.py", "slurm/read/one_job.py"
HOOKS, CALLS = "server/hooks.py", "server/pending_calls.py"
NEIGHBOURS = "core/workloads/neighbours.py"
PODS, POLICY = "kube/write/pods.py", "core/policy.py"


def _mutant(name: str, path: str, old: str, new: str, story: str) -> Mutant:
    return Mutant(name=name, story=story, path=path, old=old, new=new)


MUTANTS = (
    _mutant(
        "a gang is bound no further once a member has ended", "core/views/binding.py",
        "for pod in members.unbound if pod.ended]", "for pod in members.pods if pod.ended]",
        "The simulator's seed 9503580: its job held a host for a Pod that was never bound.",
    ),
    _mutant(
        "a binding that was answered during a listing is forgotten", "core/graph/graph.py",
        "            self.observe((tried,), now=now)",
        "            del tried",
        "The simulator's seed 9502419: the job was given up under the Pod that was just bound.",
    ),
    _mutant(
        "a cancel that Slurm forgot is forgotten", "core/workloads/memory.py",
        "    return was_cancelled(end) and cancelled_id(pod) != end.job_id", "    return False",
        "The simulator's seed 9523654: a Pod whose job a user had cancelled got another one.",
    ),
    _mutant(
        "a Pod is bound before its volume", BIND,
        "    if volumes.failed or volumes.wanted:", "    if False:",
        "The kubelet waited for a volume that was then made on another host.",
    ),
    _mutant(
        "a volume of another claim is reserved", "kube/write/volumes.py",
        "    if volume.claim or volume.terminating or not volume.available:", "    if False:",
        "Two Pods wrote to one disk.",
    ),
    _mutant(
        "a Node stays selected for an ended job", "core/rules/cluster/unselect.py",
        "    if not cluster.selections:", "    if True:",
        "The provisioner had failed once, and the claim waited for a host forever.",
    ),
    _mutant(
        "volumes do not limit the hosts", "core/workloads/workloads.py",
        "        if not self.volumes.is_user(pods):", "        if True:",
        "The Pod was bound to a host that its volume cannot reach.",
    ),
    _mutant(
        "Pods on two Nodes use one ReadWriteOnce claim", "core/workloads/volume_choice.py",
        "        if before:", "        if False:",
        "Their jobs began to run in one second, and the volume was attached to one Node only.",
    ),
    _mutant(
        "a claim waits for another Pod's job of the same id", "core/workloads/volumes.py",
        ".row.bound or self._is_of_others(path, job)", ".row.bound",
        "slurmctld had lost its jobs, and the claim waited until the other Pod ended.",
    ),
    _mutant(
        "a provisioner that gives up is asked again", "core/workloads/volume_choice.py",
        "        if claim.selected_for == mark and not claim.selected_node:", "        if False:",
        "The host had no room for the volume, and the job held it forever.",
    ),
    _mutant(
        "a Pod is bound before its script started", BINDING,
        "    if not live.started:", "    if False:",
        "A Pod ran on a node whose prolog still waited, and the node was given to another job.",
    ),
    _mutant(
        "only a script's call reports its start", RELEASE,
        "    if pause_s == UNHEARD_S or ", "    if True or ",
        "--hooks-url was wrong: Pods waited five minutes beside their running jobs, again and"
        " again.",
    ),
    _mutant(
        "an old write shows a Pod unbound again", "core/tables/table.py",
        "        older = order < entry.order or is_unbound_again(entry.row, row)",
        "        older = order < entry.order",
        "The simulator's seed 1733: its Node failed meanwhile, and its job was cancelled.",
    ),
    _mutant(
        "a conflict with an unreadable Pod is final", PODS,
        "return self._perhaps(action, unread) if isinstance(unread, Unsure) else unread",
        "return unread",
        "It was our own binding. The job ended although its Pod was bound.",
    ),
    _mutant(
        "a Pod is bound beside one that is ending", BINDING,
        "        if placement.occupants:", "        if False:",
        "Two Pods shared GPUs until the first one had ended.",
    ),
    _mutant(
        "a gang is bound in part", BIND,
        "for place, pod in enumerate(unbound)]", "for place, pod in enumerate(unbound[:1])]",
        "Half of a training job held its GPUs and waited for the rest.",
    ),
    _mutant(
        "bound while the script ends", BINDING,
        "    if calls.killed_s is not None and now", "    if False and now",
        "The simulator's seed 44: the Pod was bound after its placeholder had been released.",
    ),
    _mutant(
        "bound to a job that is being replaced", BINDING,
        "    if job.identity.replaced:", "    if False:",
        "The cancel was already on its way: the Pod ended as soon as it started.",
    ),
    _mutant(
        "the job ends with the deletion, not with the Pod", STATE,
        "    return not (pod.ended or (pod.terminating and not pod.node_name))",
        "    return not (pod.ended or pod.terminating)",
        "slurm-bridge: the node was given away during the Pod's grace period, 15 of 15 times.",
    ),
    _mutant(
        "an unread Pod counts as gone", STATE,
        '            return one.found == "no" or (one.found == "yes" and one.uid != uid)',
        '            return one.found != "yes" or one.uid != uid',
        "A 403 counted as 'gone', and jobs of running Pods were cancelled.",
    ),
    _mutant(
        "our own cancel counts as a user's", STATE,
        "job is None or job.identity.replaced or left_no_trace(job)",
        "job is None or left_no_trace(job)",
        "The Pod of a replaced job waited for ever for a resubmit annotation.",
    ),
    _mutant(
        "a refusal without a reason counts as no answer", MAKE,
        "as_refusal(await self._client.call(call), _REFUSING)", "await self._client.call(call)",
        "job_submit.lua refused a job, which was submitted five times a minute for ever.",
    ),
    _mutant(
        "the pauses after refusals do not grow", "core/workloads/unanswered.py",
        "times = before.times + 1 if before and _is_repeated(before.said, refusal) else 1",
        "times = 1",
        "job_submit.lua refused a thousand jobs, and each was submitted six times a minute.",
    ),
    _mutant(
        "hosts that come shorten no pause", "core/workloads/unanswered.py",
        "hosts_changed=refusal.hosts != hosts", "hosts_changed=False",
        "An autoscaler added the Node that a Pod needs, and the Pod waited five minutes beside it.",
    ),
    _mutant(
        "a held job is unschedulable", "core/views/why_waiting.py",
        'reason=UNSCHEDULABLE if helps else "SlurmJobPending"', "reason=UNSCHEDULABLE",
        "Jobs over the limit of their account waited, and the autoscaler added Nodes all night.",
    ),
    _mutant(
        "a script that may still end by a signal is passed over", "core/rules/workload/submit.py",
        "if last is not None and may_have_begun(last):", "if False:",
        "The script caught SIGTERM, and a second job ran for its Pod before it had ended.",
    ),
    _mutant(
        "a failed prolog counts as a user's cancel", STATE,
        "job is None or job.identity.replaced or left_no_trace(job)",
        "job is None or job.identity.replaced",
        "A health check failed on n1, and the Pod waited for ever beside two free hosts.",
    ),
    _mutant(
        "a job is known by its admin_comment alone", "slurm/read/job_proof.py",
        "    given, comment = record.given, record.identity\n",
        "    given, comment = None, record.identity\n",
        "Somebody noted a word in a job; after a restart it ran on for ever, without a word.",
    ),
    _mutant(
        "a gang that lost a member goes on", STATE,
        "    return bool(members.pods) and bool(lost or members.leaving)",
        "    return False and bool(lost or members.leaving)",
        "The rest of the gang held its nodes without use.",
    ),
    _mutant(
        "the clean-up of an ended member ends the others", "core/workloads/members.py",
        "    if pod.ended:\n        return not pod.node_name or",
        "    if not pod.node_name and pod.ended:\n        return not pod.node_name or",
        "The garbage collector of Pods ended the ranks that still ran.",
    ),
    _mutant(
        "a failed member that is made again waits beside the others", "core/workloads/members.py",
        "    return others[0] if failed and living else None", "    return None",
        "The rest of the gang waited for its rank, which waited for the end of the rest.",
    ),
    _mutant(
        "the job of an earlier attempt counts for the next one", "core/workloads/snapshot.py",
        "        return [row for row in rows if row.job_id in ours]",
        "        return rows",
        "Its end looked like a cancel by a person, and the second attempt waited for ever.",
    ),
    _mutant(
        "a job without known hosts is given up", STATE,
        "    if not (members.unbound and placements):", "    if not members.unbound:",
        "The simulator's seed 139: only its state had been read.",
    ),
    _mutant(
        "a waiting job avoids a host for ever", "core/workloads/snapshot.py",
        "= edited or given_up or ruled or key", "= edited or ruled or key",
        "A Pod waited behind a full host although the others were ready again.",
    ),
    _mutant(
        "late duplicates live on", RELEASE,
        "    extra = [cancel(other, replaced=True) for other in live.others if",
        "    extra = [cancel(other, replaced=True) for other in () if",
        "A submission that was answered too late held a node without a Pod.",
    ),
    _mutant(
        "a replacing cancel is not marked", RELEASE,
        "ends = cancel(job, replaced=True, waiting=", "ends = cancel(job, waiting=",
        "After a restart our own cancel counted as a user's.",
    ),
    _mutant(
        "a suspended job's Pod runs on", EVICT,
        '    if "SUSPENDED" in job.state', '    if "NEVER" in job.state',
        "Slurm gave the CPUs of the suspended job to others.",
    ),
    _mutant(
        "an end is forgotten when its id is reused", "core/workloads/edges.py",
        "            if not same:", "            if after is None:",
        "The simulator's seed 7810082: slurmctld lost its state and counted from 1 again.",
    ),
    _mutant(
        "a Pod outlives its job", EVICT,
        "    if last is not None and ours and not last.identity.replaced:",
        "    if last is not None and ours and last.identity.replaced:",
        "The Pod of a cancelled job ran for 184 seconds (slurm-bridge, p50 with 300 bound).",
    ),
    _mutant(
        "the gate takes an old read", GATE,
        "    return not resident.confirmed or resident.read_s < call.asked_s",
        "    return not resident.confirmed",
        "The job had ended after the last poll: the next one started beside its Pod.",
    ),
    _mutant(
        "the gate never waits", GATE,
        "    return not resident.confirmed or resident.read_s < call.asked_s",
        "    return False",
        "A job started while the Pod of the previous job was still running.",
    ),
    _mutant(
        "the gate admits a job by its id alone", GATE,
        "    return not resident.confirmed or", "    return resident.job_id != call.job_id and",
        "The simulator's seed 61630: slurmctld had given the id of a lost job to another.",
    ),
    _mutant(
        "the gate forgets the Pods that may come", GATE,
        "arrival.job_id != call.job_id and", "False and",
        "The simulator's seed 9280253: a placeholder cancelled in its prolog was bound.",
    ),
    _mutant(
        "a script is released before a binding arrived", STOP,
        "return 0.0 if unstarted else", "return 0.0 if True else",
        "The simulator's seed 44.",
    ),
    _mutant(
        "a script is released while its Pod runs", STOP,
        "    if workload.absent.pods or workload.members.bound:",
        "    if workload.absent.pods:",
        "TERM ended the placeholder at once, and Slurm gave the node to another job.",
    ),
    _mutant(
        "no warning before a script is killed", STOP,
        '    late = [call for call in stops if now >= call.until_s - BEFORE_KILL_S]',
        "    late = [call for call in stops if now < 0]",
        "Slurm killed the script and started the next job beside the Pod.",
    ),
    _mutant(
        "resubmitted without a listing", STATE,
        "submission.jobs_listed_s < attempt.sent_s + configuration.settle_s", "False",
        "A submission that timed out was repeated: two jobs for one Pod (slurm-bridge, 3 of 3).",
    ),
    _mutant(
        "a user's cancel causes a new job", SUBMIT,
        "    if cancelled and not configuration.resubmit_cancelled:", "    if False:",
        "A cancelled placeholder was submitted again within a second, for ever.",
    ),
    _mutant(
        "a gated Pod gets a job", SUBMIT,
        "    if any(pod.gated for pod in members.pods):", "    if False:",
        "Kueue's Pods took nodes before Kueue admitted them.",
    ),
    _mutant(
        "a part of a gang gets a job", SUBMIT,
        "    if members.missing:", "    if False:",
        "Two of four members started.",
    ),
    _mutant(
        "a refused submission is repeated at once", SUBMIT,
        "    if refused_until_s is not None and now < refused_until_s:", "    if False:",
        "A Pod with an unknown partition cost a request to slurmctld every second.",
    ),
    _mutant(
        "hosts that cannot take a Pod are not excluded", STATE,
        "    return hosts.excluded, hosts.digest\n\n\ndef pinned",
        "    return (), hosts.digest\n\n\ndef pinned",
        "The job started on a host with a taint, was replaced, and started there again.",
    ),
    _mutant(
        "no limit of submissions", SUBMIT,
        "    return _brake(workload.id, workload.history, now)\n", "    return None\n",
        "While no host could run a Pod, 228 jobs were submitted in 12 s.",
    ),
    _mutant(
        "a user's cancel is not recorded", WAIT,
        "    if cancelled:\n        wanted[CANCELLED] = cancelled\n", "",
        "After five minutes Slurm forgot the job, and the Pod got another one.",
    ),
    _mutant(
        "a cancel by id alone", PUSH,
        'msgspec.json.encode({"jobs": ids, "job_name": cancels[0].name, **states})',
        'msgspec.json.encode({"jobs": ids, **states})',
        "slurmctld had lost its last seconds and given the id to another job.",
    ),
    _mutant(
        "a gang's job ends before its bound members", RELEASE,
        "    if why and workload.locations.here:", "    if False:",
        "The simulator's seed 569314: one was bound, and the other's host became unfit.",
    ),
    _mutant(
        "a task with an unknown id counts as gone", LOOK,
        "        if astray:", "        if False:",
        "The simulator's seed 568120: slurmctld had lost its last seconds; a second job was made.",
    ),
    _mutant(
        "a Pod is bound after its job's end was reported", BINDING,
        "    if live.end_notified:", "    if False:",
        "slurmrestd showed the end seconds after a hook had reported it.",
    ),
    _mutant(
        "a cancel of a waiting job ends a running one", PUSH,
        'states = {"job_state": ["PENDING"]} if cancels[0].waiting else {}', "states = {}",
        "The job started on its Pod's host while the cancel was on its way, and ended before the"
        " Pod.",
    ),
    _mutant(
        "a foreign job with our id is marked", PUSH,
        "        if job.identity.workload != action.identity.workload:", "        if False:",
        "The same, for the mark.",
    ),
    _mutant(
        "a failed mark does not stop the cancel", PUSH,
        "            if isinstance(answer, SlurmError):\n"
        "                return await self._unwritten(action, answer)\n"
        "            mark = self._learn_mark(",
        "            mark = self._learn_mark(",
        "The cancel was sent without a mark, and counted as a user's after a restart.",
    ),
    _mutant(
        "an unsure submission counts as none", MAKE,
        "        return Unsure(desired, str(failure), seen=(attempt,))",
        "        return Unsure(desired, str(failure))",
        "Two jobs for one Pod.",
    ),
    _mutant(
        "an array's answer is one job's", MAKE,
        "            array=number if len(group) > 1 else 0,", "            array=0,",
        "Sixty-three Pods of a burst did not learn their job.",
    ),
    _mutant(
        "a restart of slurmctld is not noticed", POLL,
        "        if since != self._since:", "        if False:",
        "Identities from before the restart were compared with ids from after it.",
    ),
    _mutant(
        "a listing that broke off is whole", POLL,
        "        if reading.failure or reading.reused:", "        if False:",
        "Jobs whose record could not be read counted as gone.",
    ),
    _mutant(
        "a placeholder may call for any job", HOOKS,
        "        if seen != subject:", "        if False:",
        "A user's script with its own token ended the Pods of another user.",
    ),
    _mutant(
        "a placeholder's token opens the gate", HOOKS,
        "        if subject is None or whose not in subjects:",
        "        if subject is None:",
        "The same, for the gate.",
    ),
    _mutant(
        "hooks are answered before everything is listed", HOOKS,
        "        if why := self._rest.ready(request.path):",
        "        if why := self._rest.ready(request.path) and '':",
        "A standby that knew no Pod answered go.",
    ),
    _mutant(
        "one node's go is the answer for all", CALLS,
        '        return None if self.held else "go"', '        return "go"',
        "A job on two hosts started when the first one was free.",
    ),
    _mutant(
        "a lost answer to a binding is a refusal", PODS,
        "        if (pod.node_name, pod.job_id) == (action.node_name, action.job_id):",
        "        if False:",
        "The gang was rolled back although all its members were bound.",
    ),
    _mutant(
        "ends of Pods without a breaker", POLICY,
        "if self.ends.admit(workload, limit=limit, listed_s=graph.nodes.agreed_s, now=now):",
        "if True:",
        "slurmctld lost its network for a minute, and every Pod of the cluster was ended.",
    ),
    _mutant(
        "a change of the policy ends jobs that wait", "core/views/replacement.py",
        '    if after and before in ("", after):', '    if not invalid and before in ("", after):',
        "One line of --user-policy was changed, and every job of the namespace lost its place in"
        " the queue.",
    ),
    _mutant(
        "the first name of a list decides", "core/model/user_policy.py",
        '{*text.split(",")} <= {*allowed}', 'text.split(",")[0] in allowed',
        "A tenant asked for his own reservation and, behind a comma, for the one of others.",
    ),
    _mutant(
        "equal Pods with a rule are submitted all at once", NEIGHBOURS,
        "            if any(other != key for other in line.pending):", "            if False:",
        "Forty replicas with anti-affinity cost ninety jobs: most were given up on one node.",
    ),
    _mutant(
        "of two jobs on one host the younger one stays", NEIGHBOURS,
        "                if place.rank < before and key != but",
        "                if place.rank > before and key != but",
        "The older job was given up for the younger one, and its Pod lost its place.",
    ),
    _mutant(
        "a rule of a Pod that is there does not count", "core/translate/pod_rules.py",
        "    found += _apart_of_others(kind, standing, domain)\n", "",
        "A Pod came beside one that wants to be alone.",
    ),
)  # fmt: skip
