"""Operations of users of Kubernetes and Slurm: all changes except ours and faults."""

import random
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from sunk_sync.embedded.kubernetes.kubernetes import Kubernetes
from sunk_sync.embedded.kubernetes.store.kinds import NODES
from sunk_sync.embedded.kubernetes.store.patch import merged
from sunk_sync.embedded.kubernetes.store.place import Place
from sunk_sync.embedded.slurm.model.job import ALIVE, Job, JobRequest
from sunk_sync.embedded.slurm.node_update import Update
from tests.sim import words
from tests.sim.cast import END_DELAY, PERSON, START_DELAY
from tests.sim.words import PREFIX, Object
from tests.sim.workloads.claim_people import ClaimPeople
from tests.sim.workloads.groups import GroupPeople
from tests.sim.workloads.site_people import SitePeople
from tests.sim.workloads.teams import TeamPeople
from tests.sim.workloads.truth import is_live, is_ours, node_of, place_of, workload
from tests.sim.worlds import Worlds

NAMESPACE = "work"
PORT = 8080
LONER = ("example.com/app", "loner")
OTHERS = "elsewhere"
RUN = "embedded/run-s"
EXIT_CODE = "embedded/exit-code"
PODS_MAX = 12
GATES: Object = {"schedulingGates": [{"name": "example.com/wait"}]}
PREEMPTING = "high"
"""Partition whose jobs preempt those of the default one."""


def offer_cpus(kube: Kubernetes, cpus: int) -> None:
    """Let each Node offer so many CPUs to Pods; its Slurm node has 16."""
    patch = {"status": {"allocatable": {"cpu": str(cpus)}}}
    for node in kube.nodes():
        name = node["metadata"]["name"]
        place = Place(kind=NODES, name=name, subresource="status", manager="kubelet")
        kube.writes.patch(place, lambda old: merged(old, patch))


def pod_spec(*, cpus: int | None = 4, grace_s: int = 10, **others: Any) -> Object:
    requests = {"memory": "1Gi"} | ({"cpu": str(cpus)} if cpus else {})
    container = {
        "name": "main",
        "image": "none.invalid/none:1",
        "resources": {"requests": requests},
    }
    return {
        "schedulerName": words.SCHEDULER,
        "terminationGracePeriodSeconds": grace_s,
        "containers": [container],
        **others,
    }


def with_port(spec: Object) -> Object:
    """Return the spec of a Pod of which a Node can have only one."""
    (container,) = spec["containers"]
    ports = [{"containerPort": 80, "hostPort": PORT}]
    return {**spec, "containers": [{**container, "ports": ports}]}


def apart(spec: Object) -> Object:
    """Return the spec of a Pod that may not stand beside a Pod with label LONER."""
    selector = {"matchLabels": dict([LONER])}
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return {**spec, "affinity": {"podAntiAffinity": rule}}


class Neighbourly:
    """Chance for rules about other Pods: ports of Nodes, and anti-affinity; each in a fifth of the
    runs, by a random stream of its own."""

    def __init__(self, *, ports: random.Random, loners: random.Random) -> None:
        self._ports = ports
        self._loners = loners
        self._uses_ports = ports.random() < 0.2
        self._has_loners = loners.random() < 0.2

    def ruled(self, spec: Object) -> tuple[Object, dict[str, str]]:
        """Return the spec with rules, and the labels of its Pod."""
        labels: dict[str, str] = {}
        if self._uses_ports and self._ports.random() < 0.5:
            spec = with_port(spec)
        if self._has_loners and self._loners.random() < 0.6:
            labels = dict([LONER])
            spec = apart(spec) if self._loners.random() < 0.7 else spec
        return spec, labels


class WorkloadPeople:
    def __init__(
        self,
        rng: random.Random,
        worlds: Worlds,
        *,
        rules: Neighbourly,
        claims: ClaimPeople,
        groups: GroupPeople,
        teams: TeamPeople,
        site: SitePeople,
    ) -> None:
        self._rng = rng
        self._site = site
        self._rules = rules
        self._claims, self._groups, self._teams = claims, groups, teams
        self._worlds = worlds
        self._kube, self._slurm = worlds.kube, worlds.slurm
        self._names = 0
        liked = {one: rng.choice((0, 1, 1, 2, 4)) for one in dict.fromkeys(_ACTS)}
        liked["pod"] = max(liked["pod"], 2)
        self._acts = [one for one in _ACTS for _ in range(liked[one])]
        self._end_s = rng.choice(((1,), (1, 10), (1, 10, 45)))
        for namespace in (NAMESPACE, OTHERS):
            worlds.act(PERSON, partial(self._kube.add_namespace, namespace))
        claims.begin(sorted(node["metadata"]["name"] for node in self._kube.nodes()))
        groups.begin()

    def act(self) -> None:
        self.do(self._rng.choice(self._acts))
        if self._claims.active:
            answer = self._worlds.try_to(PERSON, self._claims.act)
            self._worlds.history.note("people", "volumes", str(answer)[:150])
        self.act_on_jobs()
        self.act_on_groups()
        if self._teams.is_due():
            self.act_on_teams()

    def act_on_teams(self) -> None:
        if self._teams.active:
            answer = self._worlds.try_to(PERSON, self._teams.act)
            self._worlds.history.note("people", "teams", str(answer)[:150])

    def act_on_jobs(self) -> None:
        """Let the site write into jobs, or its prolog fail."""
        if not self._site.active:
            return
        try:
            answer = self._worlds.try_to(PERSON, self._site.act)
        except LookupError:
            answer = "there is no such job"
        self._worlds.history.count("people: site")
        self._worlds.history.note("people", "site", str(answer)[:150])

    def act_on_groups(self) -> None:
        if self._groups.active:
            answer = self._worlds.try_to(PERSON, self._groups.act)
            self._worlds.history.note("people", "groups", str(answer)[:150])

    def do(self, name: str) -> None:
        doing: Callable[[], object] = getattr(self, name)
        history = self._worlds.history
        history.count(f"people: {name}")
        try:
            answer = self._worlds.try_to(PERSON, doing)
        except LookupError:
            answer = "nobody is there"
        history.note("people", name, "" if answer is None else str(answer)[:150])

    def _add(
        self,
        spec: Object,
        annotations: Mapping[str, str] | None = None,
        *,
        namespace: str = NAMESPACE,
    ) -> str:
        if sum(1 for _ in workload(self._worlds)) >= PODS_MAX:
            return "enough"
        self._names += 1
        name = f"w{self._names}"
        rng = self._rng
        knobs = {START_DELAY: str(rng.choice((0, 1))), END_DELAY: str(rng.choice(self._end_s))}
        if rng.random() < 0.3:
            knobs |= {RUN: str(rng.choice((3, 30))), EXIT_CODE: str(rng.choice((0, 1)))}
        metadata = {"annotations": {**knobs, **(annotations or {})}}
        spec, labels = self._rules.ruled(spec)
        if labels:
            metadata["labels"] = labels
        if namespace == NAMESPACE:
            spec = self._claims.with_claim(name, spec, in_gang=words.GANG in (annotations or {}))
        self._kube.add_pod(name, namespace=namespace, metadata=metadata, spec=spec)
        return name

    def _settings(self) -> dict[str, str]:
        rng = self._rng
        given = {PREFIX + "priority": rng.choice(("100", "5000"))} if rng.random() < 0.4 else {}
        if rng.random() < 0.15:
            given[PREFIX + "timeout"] = "1"
        if rng.random() < 0.1:
            given[PREFIX + "partition"] = rng.choice((PREEMPTING, "nowhere"))
        if rng.random() < 0.1:
            given[PREFIX + "user-id"] = "1000"
        return given

    def pod(self) -> object:
        cpus = self._rng.choice((2, 8, 15, 15))
        return self._add(pod_spec(cpus=cpus, grace_s=self._rng.choice((1, 20))), self._settings())

    def burst(self) -> object:
        cpus = self._rng.choice((2, 5))
        return [self._add(pod_spec(cpus=cpus)) for _ in range(self._rng.choice((2, 3, 5)))]

    def gang(self) -> object:
        """Create a gang. Some have a member too few or too many."""
        size = self._rng.choice((2, 2, 3))
        made = size + self._rng.choice((0, 0, 0, -1, 1))
        self._names += 1
        gang = {words.GANG: f"g{self._names}", words.GANG_SIZE: str(size)}
        spec = pod_spec(cpus=self._rng.choice((2, 15)))
        return [self._add(spec, gang) for _ in range(made)]

    def gated(self) -> object:
        gates: Any = GATES
        return self._add(pod_spec(**gates))

    def ungate(self) -> object:
        for pod in workload(self._worlds):
            if pod["spec"].get("schedulingGates"):
                name = pod["metadata"]["name"]
                self._worlds.patch(
                    f"namespaces/{NAMESPACE}/pods/{name}", {"spec": {"schedulingGates": []}}
                )
                return name
        return None

    def invalid(self) -> object:
        """P2, P3, or larger than every host."""
        spec = self._rng.choice((pod_spec(cpus=None), pod_spec(grace_s=300), pod_spec(cpus=64)))
        return self._add(spec)

    def foreign_pod(self) -> object:
        if self._rng.random() < 0.5:
            return self._add({**pod_spec(), "schedulerName": "default-scheduler"})
        return self._add({**pod_spec(), "schedulerName": "other"}, namespace=OTHERS)

    def _any_pod(self) -> Object:
        return self._rng.choice(list(workload(self._worlds)))

    def edit(self) -> object:
        name = self._any_pod()["metadata"]["name"]
        given: Any = self._rng.choice(
            (
                {PREFIX + "priority": "7000"},
                {PREFIX + "comment": "edited"},
                {PREFIX + "account": "physics"},
                {PREFIX + "priority": None},
                {PREFIX + "timeout": "soon"},
            )
        )
        self._kube.annotate(name, given, namespace=NAMESPACE)
        return f"{name} {given}"

    def resubmit(self) -> object:
        """Request another job for a Pod whose job was cancelled (P17)."""
        self._names += 1
        for pod in workload(self._worlds):
            if words.CANCELLED in words.annotations_of(pod):
                name = pod["metadata"]["name"]
                given = {words.RESUBMIT: str(self._names)}
                self._kube.annotate(name, given, namespace=NAMESPACE)
                return name
        return None

    def delete(self) -> object:
        metadata = self._any_pod()["metadata"]
        grace_s = self._rng.choice((None, None, 0))
        self._kube.delete_pod(metadata["name"], namespace=metadata["namespace"], grace_s=grace_s)
        return metadata["name"]

    def submit(self) -> object:
        """Submit a job of another user. Some preempt ours."""
        rng = self._rng
        request = JobRequest(
            name="theirs",
            user="alice",
            user_id=1001,
            partition=rng.choice(("", "", PREEMPTING)),
            nodes=rng.choice((1, 1, 2)),
            cpus=rng.choice((4, 16)),
            memory_mb=100,
            priority=rng.choice((1, 3000)),
            duration_s=rng.choice((2.0, 20.0, 60.0)),
        )
        return self._slurm.submit(request, now_s=self._worlds.now_s)

    def _jobs(self, *states: str, ours: bool) -> list[Job]:
        cluster = self._worlds.cluster_uid
        return [
            job
            for job in self._slurm.jobs.values()
            if job.state in (states or ALIVE) and is_ours(job, cluster) == ours
        ]

    def cancel_ours(self) -> object:
        job = self._rng.choice(self._jobs(ours=True))
        self._slurm.cancel(job.job_id, now_s=self._worlds.now_s)
        return job.job_id

    def cancel_theirs(self) -> object:
        job = self._rng.choice(self._jobs(ours=False))
        self._slurm.cancel(job.job_id, now_s=self._worlds.now_s)
        return job.job_id

    def suspend(self) -> object:
        job = self._rng.choice(self._jobs("RUNNING", ours=True))
        self._slurm.suspend_job(job.job_id, now_s=self._worlds.now_s)
        return job.job_id

    def limit(self) -> object:
        job = self._rng.choice(self._jobs("RUNNING", ours=True))
        self._slurm.update_job(job.job_id, {"time_limit_min": 1}, now_s=self._worlds.now_s)
        return job.job_id

    def _any_host(self) -> str:
        return self._rng.choice(sorted(self._slurm.nodes))

    def drain(self) -> object:
        name = self._any_host()
        self._slurm.update(name, Update(state="DRAIN", reason="fan"), now_s=self._worlds.now_s)
        return name

    def undrain(self) -> object:
        name = self._any_host()
        self._slurm.update(name, Update(state="RESUME"), now_s=self._worlds.now_s)
        return name

    def down(self) -> object:
        """Set a node DOWN by hand: its jobs are lost."""
        name = self._any_host()
        self._slurm.update(name, Update(state="DOWN", reason="dead"), now_s=self._worlds.now_s)
        return name

    def kill_slurmd(self) -> object:
        name = self._any_host()
        self._slurm.kill_slurmd(name, now_s=self._worlds.now_s)
        return name

    def start_slurmd(self) -> object:
        name = self._any_host()
        self._slurm.start_slurmd(name, now_s=self._worlds.now_s)
        return name

    def cordon(self) -> object:
        name, on = node_of(self._any_host()), self._rng.random() < 0.5
        self._kube.cordon(name, on=on)
        return f"{name} {on}"

    def ready(self) -> object:
        name, on = node_of(self._any_host()), self._rng.random() < 0.6
        if self._kube.node(name) is not None:
            self._kube.set_node_ready(name, ready=on)
        return f"{name} {on}"

    def silence(self) -> object:
        name, on = node_of(self._any_host()), self._rng.random() < 0.4
        if self._kube.node(name) is not None:
            self._kube.silence(name, on=on)
        return f"{name} {on}"

    def calm(self) -> None:
        """Repair the hosts and end the jobs of others. Pods and placeholders stay."""
        self._claims.calm()
        self._groups.calm()
        self._worlds.act(PERSON, self._site.calm)
        slurm = self._slurm
        for name in list(slurm.nodes):
            self._worlds.act(PERSON, partial(self._mend, name))
        for job in list(slurm.jobs.values()):
            now_s = self._worlds.now_s
            if is_live(job) and not is_ours(job, self._worlds.cluster_uid):
                number = job.job_id
                self._worlds.act(PERSON, partial(slurm.cancel, number, now_s=now_s))

    def _mend(self, name: str) -> None:
        slurm, now_s, node = self._slurm, self._worlds.now_s, node_of(name)
        slurm.start_slurmd(name, now_s=now_s)
        row = slurm.nodes[name]
        if row.base == "DOWN" or ("DRAIN" in row.flags and not words.is_our_text(row.reason)):
            slurm.update(name, Update(state="RESUME"), now_s=now_s)
        self._kube.silence(node, on=False)
        self._kube.set_node_ready(node, ready=True)
        self._kube.cordon(node, on=False)


def on_node(pod: Object) -> bool:
    return bool(place_of(pod))


_ACTS = (
    "pod", "pod", "pod", "pod", "burst", "gang", "gang", "gated", "ungate", "invalid",
    "foreign_pod", "edit", "resubmit", "delete", "delete", "delete", "submit", "submit",
    "submit", "cancel_ours", "cancel_theirs", "suspend", "limit", "drain", "undrain", "undrain",
    "down", "kill_slurmd", "start_slurmd", "start_slurmd", "cordon", "ready", "silence",
)  # fmt: skip
