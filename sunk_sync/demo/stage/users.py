"""The users who create Pods and submit jobs on the same machines, and claims about both."""

from collections.abc import Iterator, Mapping, Sequence

from sunk_sync.core.model.names import DISRUPTION_CONDITION, JOB_ID, PREFIX, SCHEDULED_CONDITION
from sunk_sync.demo.stage.reading import annotation, whole_condition
from sunk_sync.demo.stage.worlds import CPUS, GPU, MAIN, SCHEDULER, WORKLOAD_HOSTS, Worlds
from sunk_sync.embedded.kubernetes.kubelet import END_DELAY
from sunk_sync.embedded.kubernetes.store.kinds import EVENTS, Object
from sunk_sync.embedded.slurm.model.job import ALIVE, ON_NODES, Job, JobRequest

TEAM = "team-a"
GRACE_S = 10
ENDS_S = 1.0
"""How long a Pod takes to end."""
_OURS = "k8s/"
"""Prefix of the names of placeholder jobs."""

OVERLAP = "a user's job runs on a machine where a Pod is still running"
ENDED_EARLY = "a placeholder job ended before its deleted Pod was gone"


class Users:
    """Users of the three machines for Pods. Each Pod and each job takes a whole machine."""

    def __init__(self, worlds: Worlds) -> None:
        self._worlds = worlds

    def apply(self, *names: str, **settings: str) -> None:
        """Apply one or more Pods; `settings` are annotations of sunk-sync."""
        annotations = _annotations({"partition": GPU, **settings})
        requests = {"cpu": str(CPUS), "memory": "4Gi"}
        container = {
            "name": "main",
            "image": "none.invalid/none:1",
            "resources": {"requests": requests},
        }
        with self._worlds.kubernetes() as kube:
            for name in names:
                kube.add_pod(
                    name,
                    namespace=TEAM,
                    metadata={"annotations": {END_DELAY: str(ENDS_S), **annotations}},
                    spec={
                        "schedulerName": SCHEDULER,
                        "terminationGracePeriodSeconds": GRACE_S,
                        "tolerations": [],
                        "containers": [container],
                    },
                )

    def apply_gang(self, names: Sequence[str]) -> None:
        self.apply(*names, gang=names[0], gang_size=str(len(names)))

    def annotate(self, name: str, **settings: str) -> None:
        with self._worlds.kubernetes() as kube:
            kube.annotate(name, _annotations(settings), namespace=TEAM)

    def delete(self, *names: str) -> None:
        """Delete Pods; ignore Pods that are gone."""
        for name in names:
            with self._worlds.kubernetes() as kube:
                kube.delete_pod(name, namespace=TEAM)

    def clear(self) -> None:
        self.delete(*(pod["metadata"]["name"] for pod in list(self.pods())))
        for job in self._jobs_of_users():
            self._cancel(job)

    def submit(self, user: str, *hosts: str, partition: str = GPU) -> None:
        """Submit an exclusive job to each host; it runs until it is cancelled."""
        for host in hosts:
            request = JobRequest(
                name="train", user=user, cpus=CPUS, memory_mb=1000, partition=partition,
                required_nodes=(host,), duration_s=None, requeue=False,
            )  # fmt: skip
            self._worlds.slurm.submit(request, now_s=self._worlds.slurm_now_s)

    def cancel_jobs(self, user: str, *, count: int | None = None) -> None:
        for job in self.jobs_of(user)[:count]:
            self._cancel(job)

    def cancel_placeholder(self, name: str) -> None:
        for job in self.placeholders(name):
            self._cancel(job)

    def _cancel(self, job: Job) -> None:
        self._worlds.slurm.cancel(job.job_id, now_s=self._worlds.slurm_now_s)

    def pod(self, name: str) -> Object:
        """Return the Pod; empty if there is none."""
        return self._worlds.kube.pod(name, namespace=TEAM) or {}

    def pods(self) -> Iterator[Object]:
        """Return all Pods for this scheduler, also those of viewers."""
        every = self._worlds.kube.pods()
        return (pod for pod in every if pod["spec"].get("schedulerName") == SCHEDULER)

    def jobs_of(self, user: str) -> Sequence[Job]:
        """Return the user's live jobs on the machines for Pods."""
        return [job for job in self._jobs_of_users() if job.request.user == user]

    def _jobs_of_users(self) -> Sequence[Job]:
        return [job for job in self._live() if job.partition != MAIN and not is_ours(job)]

    def placeholders(self, name: str) -> Sequence[Job]:
        """Return the live jobs of this Pod, or of the gang whose first member it is."""
        begin = f"{_OURS}{TEAM}/{name}/"
        return [job for job in self._live() if job.request.name.startswith(begin)]

    def jobs_on(self, host: str) -> Sequence[Job]:
        """Return the jobs that hold resources on this host, also those that are ending."""
        every = self._worlds.slurm.jobs.values()
        there = [job for job in every if host in job.nodes]
        return [job for job in there if job.state in ON_NODES or job.lingers]

    def job_of(self, pod: Object) -> Job | None:
        """Return the live job whose admin_comment names this Pod."""
        uid = pod["metadata"]["uid"]
        return next((job for job in self._live() if uid in job.request.admin_comment), None)

    def place(self, name: str) -> str:
        return str(self.pod(name).get("spec", {}).get("nodeName", ""))

    def is_bound(self, *names: str) -> bool:
        """Whether these Pods have exactly one job and each is bound to its own Node of that job."""
        jobs = self.placeholders(names[0])
        places = {self.place(name) for name in names}
        if len(jobs) != 1 or len(places) != len(names):
            return False
        job_ids = {annotation(self.pod(name), JOB_ID) for name in names}
        return job_ids == {str(jobs[0].job_id)} and runs(jobs[0]) and places == set(jobs[0].nodes)

    def waits(self, name: str, *words: str) -> bool:
        """Whether the Pod is not bound and its condition contains these words."""
        scheduled = whole_condition(self.pod(name), SCHEDULED_CONDITION)
        message = scheduled.get("message", "")
        unbound = scheduled.get("status") == "False" and not self.place(name)
        return unbound and all(word in message for word in words)

    def is_gone(self, *names: str) -> bool:
        return not any(self.pod(name) or self.placeholders(name) for name in names)

    def running_jobs_of(self, user: str) -> Sequence[Job]:
        """Return the user's jobs that have passed the gate."""
        return [job for job in self.jobs_of(user) if runs(job)]

    def free_hosts(self) -> Sequence[str]:
        held = {host for job in self._live() for host in job.nodes}
        return [host for host in WORKLOAD_HOSTS if host not in held]

    def all_free(self) -> bool:
        living = any(place_of(pod) in WORKLOAD_HOSTS for pod in self.pods())
        return not living and len(self.free_hosts()) == len(WORKLOAD_HOSTS)

    def has_event(self, name: str, reason: str) -> bool:
        for _, stored in self._worlds.kube.store.scan(EVENTS, namespace=TEAM):
            event = stored.an_object
            if event.get("reason") == reason and event["involvedObject"].get("name") == name:
                return True
        return False

    def is_disrupted(self, name: str, reason: str) -> bool:
        return whole_condition(self.pod(name), DISRUPTION_CONDITION).get("reason") == reason

    def violation(self) -> str:
        """Return the invariant that is broken now; empty if all hold."""
        living = [pod for pod in self.pods() if _lives(pod)]
        places = {place_of(pod) for pod in living}
        if any(runs(job) and not places.isdisjoint(job.nodes) for job in self._jobs_of_users()):
            return OVERLAP
        numbers = {str(job.job_id) for job in self._live()}
        deleted = [pod for pod in living if _is_deleted_by_users(pod)]
        if any(annotation(pod, JOB_ID) not in numbers for pod in deleted):
            return ENDED_EARLY
        return ""

    def _live(self) -> Iterator[Job]:
        return (job for job in self._worlds.slurm.jobs.values() if job.state in ALIVE)


def is_ours(job: Job) -> bool:
    """Whether the job is a placeholder."""
    return job.request.name.startswith(_OURS)


def runs(job: Job) -> bool:
    return job.state == "RUNNING" and not job.configuring


def _annotations(settings: Mapping[str, str]) -> dict[str, str]:
    return {PREFIX + name.replace("_", "-"): value for name, value in settings.items()}


def place_of(pod: Object) -> str:
    return str(pod["spec"].get("nodeName", ""))


def _is_deleted_by_users(pod: Object) -> bool:
    disrupted = whole_condition(pod, DISRUPTION_CONDITION)
    return "deletionTimestamp" in pod["metadata"] and not disrupted


def _lives(pod: Object) -> bool:
    return bool(place_of(pod)) and pod["status"].get("phase") in ("Pending", "Running")
