"""Keys of hosts, workloads and the cluster: rules decide one key at a time."""

from functools import lru_cache
from typing import Literal

from sunk_sync.core.model.facts import Job, Pod
from sunk_sync.core.model.job_identity import Identity, workload_id
from sunk_sync.core.model.pod_spec import Gang

KeyKind = Literal["host", "workload", "nodeset", "cluster"]
Key = tuple[KeyKind, str]
CLUSTER: Key = ("cluster", "")


def host_key(slurm_node: str) -> Key:
    return ("host", slurm_node)


def workload_key(key: str) -> Key:
    return ("workload", key)


def node_set_key(key: str) -> Key:
    """Return the key of a NodeSet `namespace/name`."""
    return ("nodeset", key)


GANG_PREFIX = "gang/"


def uids_of(identity: Identity) -> list[str]:
    named = [pod.rpartition("/")[2] for pod in identity.pods]
    return named or list(identity.uids)


def gang_key(namespace: str, gang: Gang) -> str:
    """Key of a gang's workload; each namespace has its own gangs (G6).

    A Job of the same name that is made later is another gang.
    """
    name = f"{gang.owner}/{gang.name}" if gang.kind == "job" else gang.name
    return f"{GANG_PREFIX}{namespace}/{gang.kind}/{name}"


def gang_name(key: str) -> str:
    """Return `namespace/name` of a gang's key."""
    _, namespace, kind, name = key.split("/", 3)
    return f"{namespace}/{name.partition('/')[2] if kind == 'job' else name}"


def workload_key_of(pod: Pod) -> str:
    return _key_alone(pod.uid) if pod.gang is None else gang_key(pod.namespace, pod.gang)


@lru_cache(64)  # one event asks for the same keys several times
def _key_alone(uid: str) -> str:
    return workload_id((uid,))


def own_key(job: Job) -> str:
    """Return the key of a job's workload if no Pod of it is known."""
    return job.identity.workload or workload_id(uids_of(job.identity))


def uid_in(named: str) -> str:
    return named.rpartition("/")[2]
