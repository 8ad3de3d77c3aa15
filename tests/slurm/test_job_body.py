"""Request bodies of desired writes on placeholder jobs."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from sunk_sync.core.model.actions import SubmitJob, UpdateJob
from sunk_sync.core.model.job_description import JobDescription
from sunk_sync.core.model.job_identity import Identity, read_identity, spell_identity
from sunk_sync.slurm.api.answers import SlurmError, read_envelope
from sunk_sync.slurm.write.job_json import (
    exclusions_body,
    identity_body,
    refusal,
    submit_body,
    update_body,
)

IDENTITY = Identity("c1", "s", workload="w", pods=("team/p/uid",), digest="d")
FULL = JobDescription(
    slurm_nodes=2,
    cpus=3,
    memory_mb=512,
    gres=(("gpu:a100", 4), ("shard", 1)),
    account="a",
    comment="c",
    constraints="ib",
    prefer="fast",
    exclusive="user",
    required_nodes="n1,n2",
    excluded_nodes="n[7-8]",
    partition="main",
    qos="q",
    reservation="r",
    priority=0,
    user_id=1001,
    group_id=1002,
    working_directory="/w",
    time_limit_min=5,
)
BARE = SubmitJob(name="k8s/team/p/0123", identity=IDENTITY, description=JobDescription())
UPDATE = UpdateJob(job_id="7", name="n", identity=IDENTITY, description=FULL, excluded=("n9",))
BARE_UPDATE = replace(UPDATE, description=JobDescription(), excluded=())


def sent(action: SubmitJob, **given: Any) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(submit_body(action, **given))
    return body


def test_the_whole_description_is_in_the_body_P4_P6() -> None:
    action = replace(BARE, description=FULL, excluded=("n11", "n3", "n10"))
    body = sent(action, script="#!/bin/sh\n", environment=["A=b"])
    assert body["script"] == "#!/bin/sh\n"
    assert body["job"] == {
        "name": "k8s/team/p/0123",
        "admin_comment": body["job"]["admin_comment"],
        "nodes": "2",
        "tasks": 2,
        "tasks_per_node": 1,
        "cpus_per_task": 3,
        "memory_per_node": {"set": True, "number": 512},
        "tres_per_node": "gres/gpu:a100:4,gres/shard:1",
        "account": "a",
        "comment": "c",
        "constraints": "ib",
        "prefer": "fast",
        "shared": ["user"],
        "required_nodes": ["n1,n2"],
        "excluded_nodes": ["n[7-8]", "n[3,10-11]"],
        "partition": "main",
        "qos": "q",
        "reservation": "r",
        "priority": {"set": True, "number": 0},
        "user_id": "1001",
        "group_id": "1002",
        "current_working_directory": "/w",
        "time_limit": {"set": True, "number": 5},
        "requeue": False,
        "extra": "",
        "argv": [body["job"]["admin_comment"]],
        "environment": ["A=b"],
        "standard_input": "/dev/null",
        "standard_output": "/dev/null",
        "standard_error": "/dev/null",
    }
    assert read_identity(body["job"]["admin_comment"]) == IDENTITY


def test_fields_without_a_value_are_left_out() -> None:
    job = sent(BARE)["job"]
    assert set(job) == {
        "name", "admin_comment", "nodes", "tasks", "tasks_per_node", "cpus_per_task", "user_id",
        "group_id", "current_working_directory", "requeue", "extra", "environment", "argv",
        "standard_input", "standard_output", "standard_error",
    }  # fmt: skip
    assert (job["user_id"], job["group_id"], job["current_working_directory"]) == ("0", "0", "/")


def test_an_allocation_is_immediate_and_has_no_script_P11a() -> None:
    """Without `immediate` the call would block a thread of slurmrestd."""
    body = sent(replace(BARE, kind="allocation"), script="x", environment=["A=b"])
    assert body["job"]["immediate"] is True
    assert "script" not in body
    assert "flags" not in body["job"]
    assert "immediate" not in sent(BARE)["job"]


def test_an_external_job_has_neither_script_nor_environment() -> None:
    """Slurm refuses an external job with a script (2189)."""
    body = sent(replace(BARE, kind="external"), script="x", environment=["A=b"])
    assert body["job"]["flags"] == ["EXTERNAL_JOB"]
    assert "script" not in body
    assert "environment" not in body["job"]


def test_an_invalid_node_name_is_not_excluded_P7() -> None:
    """Slurm would refuse the whole job (2018)."""
    job = sent(replace(BARE, excluded=("n1", "a b", "[", "")))["job"]
    assert job["excluded_nodes"] == ["n1"]
    assert "excluded_nodes" not in sent(replace(BARE, excluded=("a b",)))["job"]


def test_extra_is_the_text_of_the_caller_P24() -> None:
    assert sent(BARE, extra="x")["job"]["extra"] == "x"


def test_new_exclusions_are_sent_with_their_identity_P7() -> None:
    """The list of the user stays; without one, the list of the job is emptied."""
    assert json.loads(exclusions_body(UPDATE, IDENTITY)) == {
        "excluded_nodes": ["n[7-8]", "n9"],
        "admin_comment": spell_identity(IDENTITY),
    }
    assert json.loads(exclusions_body(BARE_UPDATE, IDENTITY))["excluded_nodes"] == [""]


def test_an_update_sends_every_field_that_can_change_and_no_other_P20() -> None:
    """A field that is no longer set is emptied."""
    assert json.loads(update_body(UPDATE)) == {
        "comment": "c",
        "constraints": "ib",
        "prefer": "fast",
        "reservation": "r",
        "current_working_directory": "/w",
        "required_nodes": ["n1,n2"],
        "excluded_nodes": ["n[7-8]", "n9"],
        "partition": "main",
        "priority": {"set": True, "number": 0},
        "time_limit": {"set": True, "number": 5},
    }
    assert json.loads(update_body(BARE_UPDATE)) == {
        "comment": "",
        "constraints": "",
        "prefer": "",
        "reservation": "",
        "current_working_directory": "/",
        "required_nodes": [""],
        "excluded_nodes": [""],
    }
    assert json.loads(identity_body(IDENTITY)).keys() == {"admin_comment"}


@pytest.mark.parametrize(
    ("version", "fields", "why"),
    [
        ("v0.0.45", {"kind": "allocation"}, ""),
        ("v0.0.41", {"kind": "allocation"}, ""),
        ("v0.0.40", {"kind": "allocation"}, "from v0.0.41"),
        ("v0.0.45", {"kind": "allocation", "description": FULL}, "token's own user"),
        ("v0.0.43", {"kind": "external", "description": FULL}, ""),
        ("v0.0.42", {"kind": "external"}, "from v0.0.43"),
        ("v0.0.41", {"description": JobDescription(exclusive="topo")}, ""),
        ("v0.0.40", {"description": JobDescription(exclusive="topo")}, "from v0.0.41"),
        ("v0.0.40", {"description": FULL}, ""),
    ],
)
def test_what_a_version_lacks_is_refused(version: str, fields: dict[str, Any], why: str) -> None:
    refused = refusal(replace(BARE, **fields), version)
    assert why in refused
    assert bool(refused) == bool(why)


def test_EAGAIN_is_no_final_refusal_P20() -> None:
    """Slurm answers EAGAIN to a change of partition just after the submission."""
    failure = read_envelope(b'{"errors":[{"error_number":11,"error":"Resource temporarily"}]}')
    assert isinstance(failure, SlurmError)
    assert not failure.final
