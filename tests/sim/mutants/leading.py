"""Defects of the leader election: two replicas write, or one writes without a fresh look."""

from tests.sim.mutants.mutant import Mutant

ELECTION, FENCE = "service/election.py", "service/fence.py"
WIRING, LOOP = "service/wiring.py", "controller/loop.py"
FENCING, ENDPOINT = "kube/api/fencing.py", "slurm/api/endpoint.py"

MUTANTS = (
    Mutant(
        name="no fence",
        story="A leader that was stopped for a minute wrote on when it woke up.",
        path=FENCE,
        old="        return self._until_s - self._clock()",
        new="        return 3600.0 if self._until_s > 0 else -1.0",
    ),
    Mutant(
        name="a Lease is taken while it is held",
        story="Two clocks a second apart: the standby counted from the time in the Lease.",
        path=ELECTION,
        old="now - self._seen.since_s >= self._patience_s",
        new="now - self._seen.since_s >= 0.5",
    ),
    Mutant(
        name="the margin of the Lease is too small",
        story="The leader still wrote while the standby took over.",
        path=ELECTION,
        old='others may take the Lease."""\n        return self.duration_s / 6',
        new='others may take the Lease."""\n        return -self.duration_s / 3',
    ),
    Mutant(
        name="an emptied Lease is free",
        story="`kubectl edit lease` made two leaders.",
        path=ELECTION,
        old="        if lease.holder or not lease.released_by or lease.released_by != holder:\n"
        "            return False\n",
        new="        if lease.holder:\n            return False\n",
    ),
    Mutant(
        name="a new leader does not look at Slurm",
        story="It submitted a job that the last leader had submitted a second before.",
        path=WIRING,
        old="            polls.start_soon(self._poll.poll_after, now)\n"
        "            if self.schedules:\n"
        "                polls.start_soon(self._job_poll.relist, now)",
        new="            polls.start_soon(self._poll.poll_after, now - 100.0)",
    ),
    Mutant(
        name="a standby hands its decisions over",
        story="All writes of an hour were sent when the standby became the leader.",
        path=LOOP,
        old="            if self.leading:\n                self._pass_on(decision, now=now)",
        new="            self._pass_on(decision, now=now)",
    ),
    Mutant(
        name="a write to Kubernetes waits for a connection behind the fence",
        story="The connection was opened after the machine had been frozen for a minute.",
        path=FENCING,
        old="        if self._left_s() <= 0:",
        new="        if False:",
    ),
    Mutant(
        name="writes to Slurm pass the fence",
        story="Only the client of Kubernetes was fenced.",
        path=ENDPOINT,
        old="        return call.repeatable or self._context.left_s() > 0",
        new="        return bool(call)",
    ),
    Mutant(
        name="a new leader trusts its watch of Pods",
        story="Seed 9482136 with replicas: a Pod that the last leader had bound lost its job.",
        path=LOOP,
        old="                news += self.reconciler.graph.workloads.bindings_of_others(now)\n",
        new="",
    ),
)
