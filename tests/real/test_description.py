"""Pods' requests read back from real jobs: each annotation, with each version of slurmrestd."""

import errno
import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from sunk_sync.core.model.actions import SubmitJob, UpdateJob
from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.facts import Pod
from sunk_sync.core.model.job_description import SETTINGS, JobDescription
from sunk_sync.core.model.job_identity import Identity, read_identity
from sunk_sync.core.model.pod_spec import PodSpec
from sunk_sync.core.translate.job_spec import can_update, describe, digest
from sunk_sync.slurm.api.versions import dialect_of
from sunk_sync.slurm.write.job_json import identity_body, refusal, submit_body, update_body
from tests.real.conftest import require
from tests.real.testbed import SlurmConf, SlurmServer
from tests.real.testbed.rest import RestError

pytestmark = [
    pytest.mark.real,
    pytest.mark.both_slurms("each version speaks its own releases of the API"),
]

SERVED = {
    "26.05": ("v0.0.42", "v0.0.43", "v0.0.44", "v0.0.45"),
    "24.11": ("v0.0.40", "v0.0.41", "v0.0.42"),
}
CONFIGURATION = Configuration(gres_map=(("nvidia.com/gpu", "gpu"),))
IDENTITY = Identity("c1", "s", workload="w", pods=("team/p/uid",))
NAME = "k8s/team/p/01234567"
SCRIPT = "#!/bin/sh\nsleep 600\n"
NO_ROOM = (2013, 2014, 2015, 2016, 2068)
Job = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class TypedGpus(SlurmConf):
    slurmds: int = 4
    gpus: int = 4
    partitions: tuple[str, ...] = (
        "PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP",
        "PartitionName=spare Nodes=ALL MaxTime=INFINITE State=UP",
    )

    def slurm_conf(self, version: str, **ports: Any) -> str:
        text = super().slurm_conf(version, **ports)
        return text.replace("Gres=gpu:4", "Gres=gpu:a100:4 Feature=ib,slow")

    def gres_conf(self) -> str:
        return super().gres_conf().replace("Name=gpu", "Name=gpu Type=a100")


@pytest.fixture(scope="module", params=SERVED)
def server(request: pytest.FixtureRequest) -> Iterator[SlurmServer]:
    require(slurm=request.param)
    with SlurmServer(request.param, TypedGpus()) as server:
        server.scontrol(
            "create", "reservation", "reservationname=test", "starttime=now", "duration=60",
            "nodes=n4", "users=root",
        )  # fmt: skip
        yield server


@pytest.fixture(autouse=True)
def no_jobs(server: SlurmServer) -> Iterator[None]:
    yield
    server.rest.call("DELETE", server.path("jobs/"), {"job_name": NAME})


def pod(gpus: int = 0, /, **annotations: str) -> Pod:
    """Return a Pod whose container requests 1.5 CPUs, 700 MiB and these GPUs."""
    requests = {"cpu": 1500, "memory": 700 << 20, "nvidia.com/gpu": gpus}
    settings = {key.replace("_", "-"): value for key, value in annotations.items()}
    return Pod(
        namespace="team",
        name="p",
        uid="uid",
        spec=PodSpec(requests=tuple(requests.items()), grace_s=5),
        settings=tuple(sorted(settings.items())),
    )


def described(*pods: Pod) -> JobDescription:
    description = describe(pods, CONFIGURATION)
    assert isinstance(description, JobDescription)
    return description


def desired(*pods: Pod, **fields: Any) -> SubmitJob:
    given = {"name": NAME, "identity": IDENTITY, "description": described(*pods), **fields}
    return SubmitJob(**given)


def submit(server: SlurmServer, action: SubmitJob, version: str = "") -> int:
    """Submit without error and warning; return the job id."""
    version = version or server.api_version
    assert refusal(action, version) == ""
    path = "job/allocate" if action.kind == "allocation" else "job/submit"
    body = json.loads(submit_body(action, script=SCRIPT, environment=["A=b"]))
    answer = server.rest.call("POST", f"/slurm/{version}/{path}", body)
    assert answer["errors"] == []
    assert [one for one in answer["warnings"] if "held state" not in one["description"]] == []
    return int(answer["job_id"])


def when_there_is_room(ask: Callable[[], Any]) -> Any:
    """Ask until earlier jobs have left their nodes."""
    for _ in range(200):
        try:
            return ask()
        except RestError as error:
            if error.body["errors"][0]["error_number"] not in NO_ROOM:
                raise
            time.sleep(0.1)
    raise TimeoutError


def allocate(server: SlurmServer, description: JobDescription) -> int:
    """Allocate; return the job id."""
    action = desired(pod(), description=description, kind="allocation")
    return int(when_there_is_room(lambda: submit(server, action)))


def read(server: SlurmServer, job_id: int) -> Job:
    (job,) = server.rest.call("GET", server.path(f"job/{job_id}"))["jobs"]
    assert isinstance(job, dict)
    return job


def value(job: Job, field: str) -> object:
    """Return a text, or a number; None if it is not set."""
    found = job[field]
    return (found["number"] if found["set"] else None) if isinstance(found, dict) else found


READ_BACK: list[tuple[str, str, str, object]] = [
    ("account", "root", "account", "root"),
    ("comment", "A Kubernetes job,\n\"ä'\\", "comment", "A Kubernetes job,\n\"ä'\\"),
    ("comment", "é" * 512, "comment", "é" * 512),
    ("constraints", "ib&slow", "features", "ib&slow"),
    ("current-working-dir", "/path/to use", "current_working_directory", "/path/to use"),
    ("excluded-nodes", "n1,n2", "excluded_nodes", "n[1-2]"),
    ("excluded-nodes", "n[2-3]", "excluded_nodes", "n[2-3]"),
    ("group-id", "1002", "group_id", 1002),
    ("partition", "spare", "partition", "spare"),
    ("partition", "spare,main", "partition", "spare,main"),
    ("prefer", "slow", "prefer", "slow"),
    ("priority", "100", "priority", 100),
    ("priority", "0", "priority", 0),
    ("priority", "4294967293", "priority", 4294967293),
    ("qos", "normal", "qos", "normal"),
    ("required-nodes", "n2", "required_nodes", "n2"),
    ("required-nodes", "n3,n1", "required_nodes", "n[1,3]"),
    ("reservation", "test", "resv_name", "test"),
    ("timeout", "123", "time_limit", 123),
    ("timeout", "1-00:00:00", "time_limit", 1440),
    ("timeout", "52560000", "time_limit", 52560000),
    ("user-id", "1001", "user_id", 1001),
    ("user-id", "1001", "group_id", 1001),
    ("user-id", "2147483646", "user_id", 2147483646),
]


def test_each_annotation_is_read_back() -> None:
    assert {row[0] for row in READ_BACK} | {"exclusive"} == set(SETTINGS)


@pytest.mark.parametrize(("name", "given", "field", "wanted"), READ_BACK)
def test_an_annotation_reaches_its_field_P4_P5(
    server: SlurmServer, name: str, given: str, field: str, wanted: object
) -> None:
    for version in SERVED[server.version]:
        job_id = submit(server, desired(pod(**{name: given})), version)
        assert value(read(server, job_id), field) == wanted, version


@pytest.mark.parametrize(
    ("word", "shown_24", "shown_26"),
    [
        ("none", "OverSubscribe=NO", "OverSubscribe=NO Exclusive=NODE"),
        ("true", "OverSubscribe=NO", "OverSubscribe=NO Exclusive=NODE"),
        ("ok", "OverSubscribe=YES", "OverSubscribe=YES Exclusive=NO"),
        ("user", "OverSubscribe=USER", "OverSubscribe=NO Exclusive=USER"),
        ("mcs", "OverSubscribe=MCS", "OverSubscribe=NO Exclusive=MCS"),
        ("topo", "OverSubscribe=TOPO", "OverSubscribe=NO Exclusive=TOPO"),
        ("false", "OverSubscribe=OK", "OverSubscribe=NO Exclusive=NO"),
        ("", "OverSubscribe=OK", "OverSubscribe=NO Exclusive=NO"),
    ],
)
def test_exclusive_has_the_meaning_of_slurm_P4(
    server: SlurmServer, word: str, shown_24: str, shown_26: str
) -> None:
    """v0.0.45 does not report it, scontrol does; v0.0.40 has no topo and refuses it."""
    for version in SERVED[server.version]:
        action = desired(pod(exclusive=word))
        if refusal(action, version):
            assert (word, version) == ("topo", "v0.0.40")
            continue
        text = server.scontrol("show", "job", str(submit(server, action, version)))
        assert (shown_24 if server.version == "24.11" else shown_26) + " Contiguous" in text


def test_cpus_memory_and_gpus_reach_slurm_P6(server: SlurmServer) -> None:
    typed = replace(described(pod(2)), gres=(("gpu:a100", 2),), slurm_nodes=2)
    for version in SERVED[server.version]:
        for description in (described(pod(2), pod(2)), typed):
            job = read(server, submit(server, desired(pod(), description=description), version))
            assert value(job, "node_count") == value(job, "tasks") == 2
            assert (value(job, "cpus_per_task"), value(job, "memory_per_node")) == (2, 700)
            assert job["tres_per_node"] == f"gres/{description.gres[0][0]}:2"
            assert (job["requeue"], job["extra"], job["name"]) == (False, "", NAME)
            assert read_identity(job["admin_comment"]) == IDENTITY


def test_a_gang_gets_the_largest_request_on_each_node_P6(server: SlurmServer) -> None:
    description = described(pod(1), pod(4), pod(2))
    job = read(server, allocate(server, description))
    assert (job["job_state"], job["nodes"]) == (["RUNNING"], "n[1-3]")
    assert job["tres_alloc_str"].startswith("cpu=6,mem=2100M,node=3")
    assert [one.partition("(")[0] for one in job["gres_detail"]] == ["gpu:a100:4"] * 3


def test_excluded_nodes_are_those_of_the_user_and_ours_P7(server: SlurmServer) -> None:
    action = desired(pod(excluded_nodes="n1"), excluded=("n2", "odd name"))
    for version in SERVED[server.version]:
        assert read(server, submit(server, action, version))["excluded_nodes"] == "n[1-2]"


def test_slurmrestd_allocates_only_for_the_user_of_the_token_P11a(server: SlurmServer) -> None:
    """A Pod with another user is submitted instead: an allocation would ignore the user."""
    allocate(server, described(pod()))
    action = desired(pod(user_id="1001"), kind="allocation")
    for version in SERVED[server.version]:
        assert "token's own user" in refusal(action, version) or version == "v0.0.40"
        if "allocation" in dialect_of(version).placeholders:
            body = json.loads(submit_body(action, environment=["A=b"]))
            ask = partial(server.rest.call, "POST", f"/slurm/{version}/job/allocate", body)
            answer = when_there_is_room(ask)
            assert read(server, answer["job_id"])["user_id"] == 0
            server.rest.call("DELETE", server.path(f"job/{answer['job_id']}"))


def test_an_array_has_a_task_for_each_uid(server: SlurmServer) -> None:
    identity = Identity("c1", "s", uids=("a", "b", "c"), digest="d")
    for version in SERVED[server.version]:
        job = read(server, submit(server, desired(pod(), identity=identity), version))
        assert job["array_task_string"] == "0-2"
        assert read_identity(job["admin_comment"]) == identity


def test_an_external_job_needs_slurm_26(server: SlurmServer) -> None:
    for version in SERVED[server.version]:
        action = desired(pod(1, user_id="1001"), kind="external")
        if not refusal(action, version):
            job = read(server, submit(server, action, version))
            assert "EXTERNAL_JOB" in job["flags"]
            assert job["user_id"] == 1001
    makes = dialect_of(SERVED[server.version][-1]).placeholders
    assert ("external" in makes) == (server.version == "26.05")


@pytest.mark.parametrize(
    ("name", "letters"),
    [("comment", "x"), ("account", "x"), ("qos", "x"), ("constraints", "ib&"), ("prefer", "ib&")],
)
def test_our_length_limits_are_those_of_slurm_P4(
    server: SlurmServer, name: str, letters: str
) -> None:
    """One character more is refused as too long (2012)."""
    words = letters * (1026 // len(letters)) + "ib"
    long = desired(pod(), description=replace(described(pod()), **{name: words}))
    with pytest.raises(RestError) as caught:
        submit(server, long)
    assert caught.value.body["errors"][0]["error_number"] == 2012


def update(server: SlurmServer, job_id: int, new: JobDescription, **fields: Any) -> None:
    action = UpdateJob(job_id=str(job_id), name=NAME, identity=IDENTITY, description=new, **fields)
    for body in (update_body(action), identity_body(replace(IDENTITY, digest=digest(new)))):
        post(server, job_id, json.loads(body))


def post(server: SlurmServer, job_id: int, body: Any) -> None:
    """Send an update; slurmctld sometimes answers EAGAIN, in both versions."""
    for _ in range(100):
        try:
            server.rest.call("POST", server.path(f"job/{job_id}"), body)
        except RestError as error:
            if error.body["errors"][0]["error_number"] != errno.EAGAIN:
                raise
            time.sleep(0.05)
        else:
            return


@pytest.fixture
def full(server: SlurmServer) -> None:
    """Occupy all nodes, so that jobs wait."""
    allocate(server, replace(described(pod(), pod(), pod()), exclusive="none"))


TEXTS: Mapping[str, str] = {
    "comment": "c",
    "constraints": "ib",
    "prefer": "slow",
    "required_nodes": "n1",
    "excluded_nodes": "n2",
    "reservation": "test",
    "current_working_dir": "/w",
}


@pytest.mark.usefixtures("full")
def test_an_update_changes_each_updatable_field_of_a_waiting_job_P20(server: SlurmServer) -> None:
    wire = ["comment", "features", "prefer", "required_nodes", "excluded_nodes", "resv_name"]
    wire.append("current_working_directory")
    job_id = submit(server, desired(pod(timeout="5", partition="main", priority="7")))
    time.sleep(1.5)
    other = described(pod(**TEXTS, timeout="9", partition="spare", priority="8"))
    plain = described(pod(timeout="9", partition="spare", priority="8"))
    assert can_update(digest(plain), digest(other))
    update(server, job_id, other)
    job = read(server, job_id)
    assert [job[field] for field in wire] == list(TEXTS.values())
    assert (value(job, "time_limit"), job["partition"]) == (9, "spare")
    assert value(job, "priority") == 8
    identity = read_identity(job["admin_comment"])
    assert identity is not None
    assert identity.digest == digest(other)
    update(server, job_id, plain, excluded=("n3",))
    job = read(server, job_id)
    assert [job[field] for field in wire] == ["", "", "", "", "n3", "", "/"]


@pytest.mark.usefixtures("full")
def test_slurm_does_not_change_the_other_fields_P20(server: SlurmServer) -> None:
    """Slurm answers 200 to all of them: only a new job helps."""
    job_id = submit(server, desired(pod(exclusive="user")))
    for field, given in (("account", "x"), ("qos", "x"), ("group_id", "5")):
        post(server, job_id, {field: given})
        assert read(server, job_id)[field] in ("", 0)
    post(server, job_id, {"shared": ["user"]})
    assert "USER" not in server.scontrol("show", "job", str(job_id)).split("OverSub")[1][:30]
    post(server, job_id, {"cpus_per_task": 999})
    assert value(read(server, job_id), "cpus_per_task") == 999


@pytest.mark.usefixtures("full")
def test_a_refused_update_is_applied_in_part_P20(server: SlurmServer) -> None:
    """Therefore sunk-sync updates the digest in a second request."""
    job_id = submit(server, desired(pod()))
    with pytest.raises(RestError):
        update(server, job_id, described(pod(comment="new", constraints="nosuch", timeout="9")))
    job = read(server, job_id)
    assert job["comment"] == "new"
    assert read_identity(job["admin_comment"]) == IDENTITY
