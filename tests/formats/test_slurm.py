"""Today's code reads and writes what earlier versions left in Slurm, and no later version less."""

import json
from collections.abc import Callable
from typing import Any

import msgspec

from sunk_sync.core.model.actions import SetComment
from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.job_identity import (
    Identity,
    hosts_digest,
    is_named,
    job_name,
    read_identity,
    spell_identity,
    workload_id,
)
from sunk_sync.core.model.node_mark import Mark, mark_text, parse_mark
from sunk_sync.core.model.pod_spec import Gang
from sunk_sync.core.translate.job_spec import digested
from sunk_sync.core.translate.node_states import is_our_reason
from sunk_sync.server.tokens import make_token, subject_of
from sunk_sync.slurm.decode.jobs import JobRecord, read_job, task_identity
from tests.formats.samples import each, read, with_more
from tests.kit.build import Core, marked, node, slurm_node, slurmd_pod
from tests.kit.pod_rows import asks, row

Sample = dict[str, Any]


def filled(struct: msgspec.Struct | None) -> Any:
    """Return the fields that are not empty, as they are written."""
    assert struct is not None
    written = json.loads(msgspec.json.encode(struct))
    return {name: value for name, value in written.items() if value}


@each("node-marks")
def test_marks_in_comments_of_nodes_are_read(sample: Sample) -> None:
    assert filled(parse_mark(sample["text"])) == sample["means"]
    assert filled(parse_mark(with_more(sample["text"]))) == sample["means"]


@each("node-marks", written=True)
def test_marks_are_written_as_before(sample: Sample) -> None:
    """So that an older version reads them after a downgrade."""
    assert mark_text(Mark(**sample["means"])) == sample["text"]


def test_a_mark_of_a_later_version_stays_as_it_is() -> None:
    """Two versions side by side do not overwrite each other's marks."""
    later = with_more(marked())
    core = Core(node(), slurmd_pod(), slurm_node("n1", comment=later))
    assert not core.wants("n1", SetComment)
    outdated = with_more(marked(uid="old"))
    core = Core(node(), slurmd_pod(), slurm_node("n1", comment=outdated))
    assert core.wants("n1", SetComment)


@each("job-identities")
def test_identities_of_jobs_are_read(sample: Sample) -> None:
    assert filled(read_identity(sample["text"])) == sample["means"]
    assert filled(read_identity(with_more(sample["text"]))) == sample["means"]


@each("job-identities", written=True)
def test_identities_are_written_as_before(sample: Sample) -> None:
    identity = msgspec.convert(sample["means"], Identity)
    assert spell_identity(identity) == sample["text"]


def test_a_task_of_an_array_that_was_given_up_is_known() -> None:
    """Its UID begins with a hyphen."""
    arrays = [read_identity(one["text"]) for one in read("job-identities") if "uids" in one["text"]]
    tasks = [[task_identity(array, task) for task in range(3)] for array in arrays if array]
    given_up = [[one.replaced for one in three if one] for three in tasks]
    assert given_up == [[False, False, False], [False, True, False]]


DERIVED: dict[str, Callable[..., str]] = {
    "workload": lambda *uids: workload_id(uids),
    "hosts": lambda *names: hosts_digest(names),
    "job-name": lambda namespace, name, workload: job_name(namespace, name, workload=workload),
    "token": lambda key, subject: make_token(key.encode(), subject),
}


@each("derived")
def test_what_is_derived_stays_the_same(sample: Sample) -> None:
    """Another id or token would make running jobs and their scripts strangers."""
    made = DERIVED[sample["what"]](*sample["of"])
    assert made == sample["is"]
    if sample["what"] == "job-name":
        assert is_named(sample["is"])
    if sample["what"] == "token":
        key, subject = sample["of"]
        assert subject_of(key.encode(), sample["is"]) == subject


CONFIGURATION = Configuration(
    gres_map=(("nvidia.com/gpu", "gpu"),),
    gpu_types=(("H100", "h100"),),
    priority_map=(("high", "qos", "urgent"),),
)


@each("request-digests")
def test_the_same_pod_asks_for_the_same(sample: Sample) -> None:
    """With another digest, every waiting job would count as edited and lose its place (P20)."""
    spec = {
        "containers": [asks(**sample["requests"])],
        "terminationGracePeriodSeconds": 10,
        "priorityClassName": sample.get("priority-class", ""),
        "nodeSelector": sample.get("node-selector", {}),
    }
    pod = row(spec, annotations=annotated(sample.get("annotations", {})))
    pods = [pod]
    if size := sample.get("gang"):
        pods = [gang_member(pod, name, size) for name in ("a", "b")]
    assert digested(pods, CONFIGURATION)[1] == sample["is"]


def annotated(settings: dict[str, str]) -> dict[str, str]:
    return {f"sunk.coreweave.com/{name}": value for name, value in settings.items()}


def gang_member(pod: Any, name: str, size: int) -> Any:
    gang = Gang("annotation", "g", size)
    return msgspec.structs.replace(pod, name=name, uid=name, gang=gang)


@each("started-scripts")
def test_a_script_that_said_started_is_heard(sample: Sample) -> None:
    """Scripts of running jobs stay those of the version that submitted them."""
    record = read_job(json.dumps({"job_id": 7, "extra": sample["text"]}).encode())
    assert isinstance(record, JobRecord)
    assert record.started


@each("drain-reasons")
def test_drains_of_earlier_versions_are_ours(sample: Sample) -> None:
    assert is_our_reason(sample["text"])
