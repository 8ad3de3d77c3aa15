"""People who bring Pods and jobs to the same machines, and what can be seen of both."""

from collections.abc import Iterator, Mapping, Sequence

from sunk_sync.core.model.names import DISRUPTION_CONDITION, JOB_ID, PREFIX, SCHEDULED_CONDITION
from sunk_sync.demo.stage.reading import annotation, whole_condition
from sunk_sync.demo.stage.worlds import CPUS, GPU, MAIN, SCHEDULER, WORK_HOSTS, Worlds
from sunk_sync.embedded.kubernetes.kubelet import END_DELAY
from sunk_sync.embedded.kubernetes.store.kinds import EVENTS, Object
from sunk_sync.embedded.slurm.model.job import ALIVE, ON_NODES, Job, JobRequest

TEAM = "team-a"
"""Namespace of their Pods."""
GRACE_S = 10
ENDS_S = 1.0
"""So long a Pod takes to end."""
_OURS = "k8s/"
"""Names of placeholder jobs begin so."""

CROWDED = "a job of others works on a machine where a Pod still lives"
BEREFT = "a job ended before its Pod, which a user deleted"


class Users:
    """A Pod takes a whole machine, so does a job: there are three of them."""

    def __init__(self, worlds: Worlds) -> None:
        self._worlds = worlds

    # What they do

    def apply(self, *names: str, **settings: str) -> None:
        """As `kubectl apply` of one Pod or more; `settings` are annotations of ours."""
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
        """All of them or none."""
        self.apply(*names, gang=names[0], gang_size=str(len(names)))

    def amend(self, name: str, **settings: str) -> None:
        """As `kubectl annotate --overwrite`."""
        with self._worlds.kubernetes() as kube:
            kube.annotate(name, _annotations(settings), namespace=TEAM)

    def delete(self, *names: str) -> None:
        """As `kubectl delete pod --wait=false`; who is gone already is left."""
        for name in names:
            with self._worlds.kubernetes() as kube:
                kube.delete_pod(name, namespace=TEAM)

    def leave(self) -> None:
        """All Pods of the team go, and all jobs of users here."""
        self.delete(*(pod["metadata"]["name"] for pod in list(self.pods())))
        for job in self._theirs():
            self._cancel(job)

    def submit(self, user: str, *hosts: str, partition: str = GPU) -> None:
        """As `sbatch --exclusive -w HOST`, one for each; they run until they are cancelled."""
        for host in hosts:
            request = JobRequest(
                name="train", user=user, cpus=CPUS, memory_mb=1000, partition=partition,
                required_nodes=(host,), duration_s=None, requeue=False,
            )  # fmt: skip
            self._worlds.slurm.submit(request, now_s=self._worlds.slurm_now_s)

    def cancel_jobs(self, user: str, *, count: int | None = None) -> None:
        """As `scancel --user=USER`; of so many only."""
        for job in self.jobs_of(user)[:count]:
            self._cancel(job)

    def cancel_placeholder(self, name: str) -> None:
        """As `scancel JOB`, of the job that stands for this Pod."""
        for job in self.placeholders(name):
            self._cancel(job)

    def _cancel(self, job: Job) -> None:
        self._worlds.slurm.cancel(job.job_id, now_s=self._worlds.slurm_now_s)

    # What is

    def pod(self, name: str) -> Object:
        """The Pod; empty where there is none."""
        return self._worlds.kube.pod(name, namespace=TEAM) or {}

    def pods(self) -> Iterator[Object]:
        """All that are for our scheduler, whoever brought them."""
        every = self._worlds.kube.pods()
        return (pod for pod in every if pod["spec"].get("schedulerName") == SCHEDULER)

    def jobs_of(self, user: str) -> Sequence[Job]:
        """Those on machines of Pods, that have not ended."""
        return [job for job in self._theirs() if job.request.user == user]

    def _theirs(self) -> Sequence[Job]:
        return [job for job in self._live() if job.partition != MAIN and not is_ours(job)]

    def placeholders(self, name: str) -> Sequence[Job]:
        """Jobs that stand for this Pod, or for the gang whose first member it is."""
        begin = f"{_OURS}{TEAM}/{name}/"
        return [job for job in self._live() if job.request.name.startswith(begin)]

    def jobs_on(self, host: str) -> Sequence[Job]:
        """Those that hold something there, also while they end."""
        every = self._worlds.slurm.jobs.values()
        there = [job for job in every if host in job.nodes]
        return [job for job in there if job.state in ON_NODES or job.lingers]

    def job_of(self, pod: Object) -> Job | None:
        """The job whose identity names it, as it stands in the job's admin_comment."""
        uid = pod["metadata"]["uid"]
        return next((job for job in self._live() if uid in job.request.admin_comment), None)

    def place(self, name: str) -> str:
        """Where it is bound; empty: nowhere."""
        return str(self.pod(name).get("spec", {}).get("nodeName", ""))

    def is_bound(self, *names: str) -> bool:
        """Each where its job runs, and there is one job of it."""
        jobs = self.placeholders(names[0])
        places = {self.place(name) for name in names}
        if len(jobs) != 1 or len(places) != len(names):
            return False
        told = {annotation(self.pod(name), JOB_ID) for name in names}
        return told == {str(jobs[0].job_id)} and runs(jobs[0]) and places == set(jobs[0].nodes)

    def waits(self, name: str, *words: str) -> bool:
        """Unbound, and its condition says why in these words."""
        told = whole_condition(self.pod(name), SCHEDULED_CONDITION)
        said = told.get("message", "")
        unbound = told.get("status") == "False" and not self.place(name)
        return unbound and all(word in said for word in words)

    def is_gone(self, *names: str) -> bool:
        """Pods and jobs."""
        return not any(self.pod(name) or self.placeholders(name) for name in names)

    def jobs_at_work(self, user: str) -> Sequence[Job]:
        """Their scripts have begun."""
        return [job for job in self.jobs_of(user) if runs(job)]

    def free_hosts(self) -> Sequence[str]:
        """Those that nobody holds."""
        held = {host for job in self._live() for host in job.nodes}
        return [host for host in WORK_HOSTS if host not in held]

    def has_room(self) -> bool:
        """No Pod is left, and no job."""
        living = any(place_of(pod) in WORK_HOSTS for pod in self.pods())
        return not living and len(self.free_hosts()) == len(WORK_HOSTS)

    def heard(self, name: str, reason: str) -> bool:
        """Of an Event of ours about this Pod."""
        for _, stored in self._worlds.kube.store.scan(EVENTS, namespace=TEAM):
            event = stored.an_object
            if event.get("reason") == reason and event["involvedObject"].get("name") == name:
                return True
        return False

    def told(self, name: str, reason: str) -> bool:
        """Its condition DisruptionTarget says why it is to end; also once it is ending."""
        return whole_condition(self.pod(name), DISRUPTION_CONDITION).get("reason") == reason

    def wrong(self) -> str:
        """What must not be at any moment; empty: nothing of it is."""
        living = [pod for pod in self.pods() if _lives(pod)]
        places = {place_of(pod) for pod in living}
        if any(runs(job) and not places.isdisjoint(job.nodes) for job in self._theirs()):
            return CROWDED
        numbers = {str(job.job_id) for job in self._live()}
        deleted = [pod for pod in living if _is_deleted_by_users(pod)]
        if any(annotation(pod, JOB_ID) not in numbers for pod in deleted):
            return BEREFT
        return ""

    def _live(self) -> Iterator[Job]:
        return (job for job in self._worlds.slurm.jobs.values() if job.state in ALIVE)


def is_ours(job: Job) -> bool:
    """A placeholder."""
    return job.request.name.startswith(_OURS)


def runs(job: Job) -> bool:
    """Not merely allocated: the gate let it in."""
    return job.state == "RUNNING" and not job.configuring


def _annotations(settings: Mapping[str, str]) -> dict[str, str]:
    return {PREFIX + name.replace("_", "-"): value for name, value in settings.items()}


def place_of(pod: Object) -> str:
    """Name of its Node; empty: none."""
    return str(pod["spec"].get("nodeName", ""))


def _is_deleted_by_users(pod: Object) -> bool:
    told = whole_condition(pod, DISRUPTION_CONDITION)
    return "deletionTimestamp" in pod["metadata"] and not told


def _lives(pod: Object) -> bool:
    return bool(place_of(pod)) and pod["status"].get("phase") in ("Pending", "Running")
