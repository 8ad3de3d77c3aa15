"""Pods on a Slurm with accounting: their conditions, and a token without rights."""

import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.real.conftest import for_each_slurm
from tests.real.pod_bed import PodBed, qos_bed
from tests.real.service import Service
from tests.real.stage import PREFIX, prefixed, stays
from tests.real.testbed.kube_objects import conditions

pytestmark = [pytest.mark.real, pytest.mark.timeout(200)]


bed = for_each_slurm(lambda version: qos_bed(version, 2, "PrivateData=jobs"))


@pytest.fixture
def service(bed: PodBed) -> Iterator[Service]:
    bed.set_gate(on=True)
    with bed.service(gate=True) as service:
        yield service
        service.put_token(bed.bed.slurm.token())
        bed.clear()


def shows(bed: PodBed, name: str, text: str) -> bool:
    """Whether the message of PodScheduled=False contains the text."""
    one = conditions(bed.pod(name)).get("PodScheduled", {})
    return one.get("status") == "False" and text in one.get("message", "")


def job(bed: PodBed, name: str) -> Any:
    (found,) = bed.live(name)
    return found


@pytest.mark.usefixtures("service")
@pytest.mark.parametrize(
    ("field", "right", "number"), [("account", "games", 2045), ("qos", "low", 2066)]
)
def test_an_unknown_account_or_qos_is_reported_and_can_be_corrected_P10(
    bed: PodBed, field: str, right: str, number: int
) -> None:
    name = f"wrong-{field}"
    wrong: dict[str, Any] = {field: "nope"}
    bed.make_pod(name, **wrong)
    bed.until(lambda: shows(bed, name, f"({number})"), f"the Pod shows {number}")
    assert shows(bed, name, f"annotation {PREFIX}{field}")
    bed.annotate(name, **{field: right})
    bed.until_bound(name)
    assert job(bed, name)[field] == right


@pytest.mark.usefixtures("service")
def test_a_pod_over_a_limit_waits_for_it_or_for_an_edit_P1_P11a_P20(bed: PodBed) -> None:
    bed.make_pod("first", qos="single")
    bed.until_bound("first")
    for name in ("second", "edited"):
        bed.make_pod(name, qos="single")
        bed.until(partial(shows, bed, name, "QOSMaxJobsPerUserLimit"), "it waits")
        assert shows(bed, name, "its user would have more running jobs than its QOS allows")
    bed.annotate("edited", qos="high", account="games")
    bed.until_bound("edited")
    assert (job(bed, "edited")["qos"], job(bed, "edited")["account"]) == ("high", "games")
    bed.delete_pod("first")
    bed.until_bound("second")


def test_jobs_hidden_from_the_token_do_not_count_as_lost_P30(bed: PodBed) -> None:
    """A token without rights does not list the jobs of other users."""
    bed.set_gate(on=True)
    with bed.service(gate=True, lost_job="end") as service:
        bed.make_pod("kept", qos="low")
        bed.until_bound("kept")
        theirs = job(bed, "kept")["job_id"]
        service.kill9()
        service.put_token(bed.bed.slurm.token(user="alice"))
        service.start()
        lost = partial(service.lines, "source lost", since=service.begun, source="jobs")
        bed.until(lambda: any("PrivateData" in one["why"] for one in lost()), "it says so")
        assert stays(lambda: job(bed, "kept")["job_id"] == theirs, for_s=4)
        assert "deletionTimestamp" not in bed.pod("kept")["metadata"]
        service.put_token(bed.bed.slurm.token())
        bed.make_pod("next")
        bed.until_bound("next")
        assert job(bed, "kept")["job_id"] == theirs
        bed.clear()


# --- Tenants: --user-policy


RULES = {
    "default-user": 1001,
    "default-account": "games",
    "users": 1002,
    "max-priority": 1000,
    "qos": "normal",
}
BEYOND = {
    "user-id": ("0", "rule root of slurm"),
    "group-id": ("0", "rule root of slurm"),
    "account": ("root", "rule accounts of slurm"),
    "qos": ("high", "rule qos of slurm"),
    "partition": ("main", "rule partitions of slurm"),
    "reservation": ("others", "rule reservations of slurm"),
    "priority": ("4294967293", "rule max-priority of slurm"),
    "exclusive": ("user", "rule exclusive of slurm"),
    "required-nodes": ("n1", "rule required-nodes of slurm"),
}
"""Annotation → a value by which a tenant would get more than is his, and the rule."""


class Tenancy:
    """The service with a file of rules for the namespace of the Pods."""

    def __init__(self, bed: PodBed, file: Path, rules: object = RULES) -> None:
        self.bed = bed
        self.file = file
        self.put(rules)
        self.service = bed.service(gate=True, user_policy=str(file))

    def put(self, rules: object) -> None:
        """Replace the file in one step, as a mounted ConfigMap changes."""
        fresh = self.file.with_suffix(".fresh")
        fresh.write_text(json.dumps({"slurm": rules}))
        fresh.rename(self.file)

    def refused(self, name: str, rule: str) -> bool:
        return shows(self.bed, name, rule) and not self.bed.placeholders(name)


@pytest.fixture
def tenancy(bed: PodBed, tmp_path: Path) -> Iterator[Tenancy]:
    bed.set_gate(on=True)
    made = Tenancy(bed, tmp_path / "policy.json")
    with made.service:
        yield made
        bed.clear()


def running_jobs(bed: PodBed, account: str, user: str) -> int:
    """Return how many jobs slurmctld counts for this user of this account."""
    text = bed.bed.slurm.run_in_root("scontrol", "show", "assoc_mgr", "flags=assoc")
    record = rf" Account={account} UserName={user}\(.*?GrpJobs=\S*?\((\d+)\)"
    (found,) = re.findall(record, text, re.DOTALL)
    return int(found)


def test_a_tenants_job_is_the_users_and_charges_the_users_account_P5(tenancy: Tenancy) -> None:
    bed = tenancy.bed
    bed.make_pod("plain")
    bed.until_bound("plain")
    found = job(bed, "plain")
    assert (found["user_id"], found["user_name"], found["group_id"]) == (1001, "alice", 1001)
    assert found["account"] == "games"
    assert running_jobs(bed, "games", "alice") == 1
    assert running_jobs(bed, "root", "root") == 0
    bed.delete_pod("plain")
    bed.until(lambda: not bed.live("plain"), "the job ended")
    sacct = ("sacct", "-nXP", "-j", str(found["job_id"]), "-o", "user,account")
    bed.until(lambda: bed.bed.slurm.run_in_root(*sacct).split() == ["alice|games"], "sacct says so")


def test_a_tenant_exceeds_the_rules_by_no_annotation_P5(tenancy: Tenancy) -> None:
    bed = tenancy.bed
    for annotation, (value, _) in BEYOND.items():
        annotations: dict[str, Any] = {annotation.replace("-", "_"): value}
        bed.make_pod(f"by-{annotation}", **annotations)
    for annotation, (_, rule) in BEYOND.items():
        name = f"by-{annotation}"
        bed.until(partial(tenancy.refused, name, rule), f"{name} refused")
    bed.make_pod("within", priority="1000", qos="normal", account="games")
    bed.until_bound("within")
    assert not [name for name in BEYOND if bed.placeholders(f"by-{name}")]
    assert job(bed, "within")["user_name"] == "alice"


def test_a_tenant_exceeds_the_rules_by_no_edit_while_a_pod_waits_P5_P20(tenancy: Tenancy) -> None:
    bed = tenancy.bed
    for name in ("first", "second"):
        bed.make_pod(name)
    bed.until_bound("first", "second")
    bed.make_pod("waits")
    bed.until(lambda: len(bed.live("waits")) == 1, "its job waits")
    before = job(bed, "waits")["priority"]["number"]
    bed.annotate("waits", priority="4294967293")
    bed.until(lambda: not bed.live("waits"), "the job ended")
    told = partial(tenancy.service.writes, "record-event", event_reason="SlurmJobReplaced")
    bed.until(told, "an Event says why")
    assert "rule max-priority of slurm" in told()[0]["message"]
    assert before < 4294967293
    assert all(one["priority"]["number"] < 4294967293 for one in bed.placeholders("waits"))


def test_a_changed_policy_of_tenants_applies_and_ends_no_job_P5(tenancy: Tenancy) -> None:
    bed = tenancy.bed
    bed.make_pod("early")
    bed.make_pod("refused", account="root", user_id="0")
    bed.until_bound("early")
    bed.until(lambda: tenancy.refused("refused", "rule accounts of slurm"), "refused")
    tenancy.put({"root": True, "accounts": "root"})
    bed.until_bound("refused")
    assert job(bed, "refused")["account"] == "root"
    its = job(bed, "early")["job_id"]
    assert stays(lambda: job(bed, "early")["job_id"] == its, for_s=3)


def test_a_wrong_policy_of_tenants_changes_nothing_P5(tenancy: Tenancy) -> None:
    bed, service = tenancy.bed, tenancy.service
    tenancy.put({"accounts": "*", "root": True, "user": 0})
    wrong = partial(service.lines, "the file of --user-policy is wrong")
    bed.until(wrong, "it says so")
    bed.make_pod("still-refused", account="root")
    bed.until(lambda: tenancy.refused("still-refused", "rule accounts of slurm"), "still refused")
    (line,) = wrong()
    assert "'user' is no rule" in line["why"]
    assert service.metric("sunk_sync_user_policy_wrong") == 1
    tenancy.put({"accounts": "root", "root": True})
    bed.until_bound("still-refused")
    assert service.metric("sunk_sync_user_policy_wrong") == 0


# --- Defaults that annotations of the Namespace name


OWN_DEFAULTS = {"root": True, "users": "1001-1002", "accounts": "games", "namespace-defaults": True}


@pytest.fixture
def naming(bed: PodBed, tmp_path: Path) -> Iterator[Tenancy]:
    """The namespace of the Pods may name its own defaults."""
    bed.set_gate(on=True)
    made = Tenancy(bed, tmp_path / "policy.json", OWN_DEFAULTS)
    with made.service:
        yield made
        annotate_namespace(bed, default_user=None, default_account=None)
        bed.clear()


def annotate_namespace(bed: PodBed, **annotations: str | None) -> None:
    body = {"metadata": {"annotations": prefixed(annotations)}}
    kind = "application/merge-patch+json"
    bed.bed.kube.rest.call("PATCH", "/api/v1/namespaces/slurm", body, content_type=kind)


def test_a_namespace_names_the_user_and_account_of_its_pods_within_the_rules_P5(
    naming: Tenancy,
) -> None:
    bed = naming.bed
    bed.make_pod("before")
    bed.until_bound("before")
    assert job(bed, "before")["user_id"] == 0
    annotate_namespace(bed, default_user="1003", default_account="root")
    name = next(name for name in map("after-{}".format, range(20)) if is_refused(naming, name))
    annotate_namespace(bed, default_user="1001", default_account="games")
    bed.until_bound(name)
    found = job(bed, name)
    assert (found["user_name"], found["account"]) == ("alice", "games")
    assert job(bed, "before")["user_id"] == 0


def is_refused(naming: Tenancy, name: str) -> bool:
    """Whether a new Pod shows both wrong defaults: the first may come before the annotations."""
    bed = naming.bed
    bed.make_pod(name)
    bed.until(lambda: shows(bed, name, "default") or bed.live(name), f"{name} refused or not")
    texts = ("default-user of Namespace slurm is '1003'", "is 'root': rule accounts of slurm")
    return all(naming.refused(name, text) for text in texts)
