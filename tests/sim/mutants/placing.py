"""Defects of where Pods go: spread, affinity, turns, volumes (P8), and room beside others (P28)."""

from tests.sim.mutants.mutant import Mutant

RULES, NEIGHBOURS = "core/translate/pod_rules.py", "core/workloads/neighbours.py"


def _mutant(name: str, path: str, old: str, new: str, story: str) -> Mutant:
    return Mutant(name=name, story=story, path=path, old=old, new=new)


MUTANTS = (
    _mutant(
        "topology spread is not kept", RULES,
        "        found += [_spread(kind, one, standing, nodes) for one in rules.spread]\n",
        "        del nodes\n",
        "Three replicas came to one zone, and the zone lost its power.",
    ),
    _mutant(
        "affinity between Pods is not kept", RULES,
        "    found += _beside(kind, bound=bound, standing=standing, domain=domain)\n", "",
        "A cache came to another zone than the Pods that read it.",
    ),
    _mutant(
        "a Pod counts only once it is bound", NEIGHBOURS,
        "                if place.rank < before and key != but", "                if False",
        "The next replica went where the one before was about to run, and its job was given up.",
    ),
    _mutant(
        "Pods with a rule take no turns", NEIGHBOURS,
        "            if place.alone or place.kind not in line.rivals:", "            if True:",
        "Forty replicas with anti-affinity cost ninety jobs: most were given up on one node.",
    ),
    _mutant(
        "a rule reads Pods of every namespace that has a label", RULES,
        "    return selects(term.namespace_selector, kind.namespace_labels)", "    return True",
        "A team kept its Pods away from its own ones, and they went away from all others too.",
    ),
    _mutant(
        "a new label of a Namespace changes nothing", NEIGHBOURS,
        "        self._read_anew(self._placed.read)\n        return True", "        return False",
        "A namespace joined a team, and its Pods were bound beside those that the team keeps away.",
    ),
    _mutant(
        "the first Pod of a namespace does not wait for it", "core/workloads/workloads.py",
        "        if not (takes or self.neighbours.reads_namespaces):", "        if not takes:",
        "It was bound beside a Pod whose rule selects its namespace.",
    ),
    _mutant(
        "a Pod that is ending counts for a spread", RULES,
        "    return alike and not kind.leaving", "    return alike",
        "In a rolling update the new Pods went where the old ones were ending.",
    ),
    _mutant(
        "the first Pod of a group starts on a Node without a zone", RULES,
        "            yield Fence(term.topology_key, NO_DOMAIN, False, BESIDE)  # noqa: FBT003\n",
        "            yield from ()\n",
        "The rest of the group could follow it nowhere.",
    ),
    _mutant(
        "minDomains is not kept", RULES,
        "    least = 0 if len(counts) < rule.min_domains else",
        "    least = 0 if len(counts) < 1 else",
        "While one of two zones was gone, all replicas came to the other one.",
    ),
    _mutant(
        "the labels of other Nodes do not concern a Pod about to be bound",
        "core/workloads/edges.py",
        "return self._feasible_hosts_changed() | set(map(workload_key, arriving))",
        "return self._feasible_hosts_changed()",
        "A Node changed its zone while a placeholder was in its prolog.",
    ),
    _mutant(
        "a label that is read from now on changes no turn", NEIGHBOURS,
        "            concerned.update(self.heads())  # equal", "            # equal",
        "The simulator's seed 9484163: a Pod waited its turn behind one that was not its like.",
    ),
    _mutant(
        "a Pod whose volumes no Node can attach keeps its place in the line",
        "core/workloads/places.py",
        "else self._volumes.fences(pod)", "else ()",
        "The simulator's seed 9502161: a Pod without volumes waited behind it for ever.",
    ),
    _mutant(
        "a waiting job keeps its exclusions when the last rule goes",
        "core/workloads/snapshot.py",
        " or key in self._lists.following\n", "\n",
        "The simulator's seed 9501025: a Pod waited for ever beside a free host.",
    ),
    _mutant(
        "the hosts of a gang's volumes are not required", "core/views/conclusions.py",
        "    if not required:", "    if True:",
        "Slurm gave the gang a host that none of its disks is on, again and again.",
    ),
    _mutant(
        "the members of a gang take their hosts in order", "core/workloads/snapshot.py",
        "if fences.own else placements", "if False else placements",
        "The first Pod was bound beside the disk of the second.",
    ),
    _mutant(
        "a host that a gang needs is avoided", "core/views/conclusions.py",
        "others = names.difference(hosts.required)", "others = names",
        "Slurm refused the job, because it required and excluded one node.",
    ),
    _mutant(
        "the rules of Pods of other schedulers are read only beside a rule of ours",
        "core/workloads/other_kinds.py",
        "return bool(self._apart)", "return False",
        "A DaemonSet of kube-scheduler keeps plain Pods off its Nodes.",
    ),
    _mutant(
        "the members of a gang change hosts while a volume is made", "core/workloads/volumes.py",
        "            if ours and claim.selected_node in nodes:",
        "            if not (ours or nodes):",
        "A provisioner had begun on the first Node when another one was selected.",
    ),
    _mutant(
        "a Pod takes room only once it is bound", "core/workloads/residents.py",
        "        jobs = self._index.ahead_of(job_id, slurm_node)\n",
        "        jobs: list[str] = []\n",
        "Slurm gave two jobs one node, and the kubelet answered OutOfcpu to the second Pod.",
    ),
    _mutant(
        "a Pod that comes no more keeps its room", "core/workloads/edges.py",
        "        return behind | self._all.avoiding(job.slurm_nodes)", "        return set()",
        "While sunk-sync was paused, a Pod said for minutes that a node is full, and it was not.",
    ),
    _mutant(
        "a full host is avoided when it has room again", "core/workloads/snapshot.py",
        "        if not given_up.full or claim.node is None:", "        if True:",
        "A Pod waited for five minutes beside a free host.",
    ),
    _mutant(
        "a Pod that is resized calls nobody back", "core/workloads/edges.py",
        "        return moving_in | self._all.avoiding((slurm_node,))", "        return moving_in",
        "Another Pod was resized to less, and the audit found the room a minute later.",
    ),
    _mutant(
        "a job is tried where no host has room", "core/views/conclusions.py",
        "    if description is None or full.isdisjoint(fit):", "    if True:",
        "Slurm started one job after the other in vain, and the host stood idle meanwhile.",
    ),
    _mutant(
        "a job that is marked as replaced loses its turn", "core/workloads/index.py",
        "            self._unname(before)\n", "            self.drop_job(before)\n",
        "Its binding was on its way, and Pods behind it took the room.",
    ),
    _mutant(
        "who came behind a job is asked after it got another number", "core/workloads/edges.py",
        "        behind = self._behind(before) if before is not None else set()\n",
        "        behind: set[Key] = set()\n",
        "The simulator's seed 9526655: Pods were given up for a job that had left.",
    ),
    _mutant(
        "a Pod opens a zone where it only arrives", "core/translate/pod_rules.py",
        "    values = _open_beside(kind, bound, domain)\n",
        "    values = _open_beside(kind, standing, domain)\n",
        "The simulator's seed 9526017: two Pods were sent after each other, to a host for neither.",
    ),
    _mutant(
        "a job that comes after the last rule keeps its exclusions", "core/workloads/snapshot.py",
        "follows=ruled)", "follows=False)",
        "The simulator's seed 9532408: its host was free, and the job waited for ever.",
    ),
    _mutant(
        "Pods are bound by what Nodes were before an outage", "core/workloads/snapshot.py",
        "        if self._hosts.nodes.blind:\n", "        if False:\n",
        "The simulator's seed 9532803: the Node had lost the label that the Pod selects.",
    ),
    _mutant(
        "a gang takes all its requests on each of its nodes", "core/workloads/residents.py",
        "            most[resource] = max(most.get(resource, 0), amount)",
        "            most[resource] = most.get(resource, 0) + amount",
        "A large gang that was about to start kept small Pods off nodes that had room for both.",
    ),
)  # fmt: skip
