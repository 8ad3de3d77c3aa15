"""What operators ask and order, on real servers: explain, diff, status, pause, resume."""

import io
import json
from typing import Any

import pytest

from sunk_sync.cli.explain import Question, explain, explain_without_service
from sunk_sync.cli.overview import diff, status
from sunk_sync.cli.pausing import pause, resume
from sunk_sync.core.explain.account import Kind
from sunk_sync.settings.sources import load
from sunk_sync.settings.types import Address, parse_loopback
from tests.real.conftest import Serve, with_settings
from tests.real.service import Service
from tests.real.stage import Host, Stage, eventually, stays
from tests.real.workloads import PodStage, workload_spec

STAGE_HOSTS = 16
pytestmark = [pytest.mark.real]


def address_of(service: Service) -> Address | None:
    (line,) = service.lines("operators server open", since=service.begun)[-1:]
    return parse_loopback(line["address"])


def asked(service: Service, kind: Kind, name: str) -> dict[str, Any]:
    """Return the JSON of the command, which also prints its text for a reader of the test."""
    out, address = io.StringIO(), address_of(service)
    assert explain(Question(kind=kind, name=name, address=address)) == 0
    assert explain(Question(kind=kind, name=name, address=address, form="json"), out=out) == 0
    return dict(json.loads(out.getvalue()))


def facts(answer: dict[str, Any]) -> dict[str, str]:
    return {fact["what"]: fact["says"] for fact in answer["facts"]}


def test_a_cordoned_host_is_explained_with_the_write_and_the_cure(
    service: Service, host: Host
) -> None:
    host.cordon(reason="kernel update")
    host.until_drained("k8s: node cordoned: kernel update")
    answer = asked(service, "host", host.name)
    assert f"Node {host.node['metadata']['name']} is cordoned (kernel update)" in answer["decision"]
    assert "DRAIN" in facts(answer)[f"Slurm node {host.name}"]
    assert answer["cures"] == [f"kubectl uncordon {host.node['metadata']['name']}"]
    happened = " / ".join(one["what"] for one in answer["history"])
    assert f"done: drain: slurm node {host.name}, reason k8s: node cordoned" in happened
    host.uncordon()
    host.until_free()
    answer = asked(service, "host", host.name)
    assert not answer["cures"]
    assert "undrain" in " / ".join(one["what"] for one in answer["history"])


def test_a_human_drain_is_left_alone_and_only_a_person_lifts_it(
    service: Service, host: Host
) -> None:
    host.update(state="drain", reason="fan broken")
    eventually(
        lambda: "fan broken" in asked(service, "host", host.name)["decision"], "the drain is seen"
    )
    answer = asked(service, "host", host.name)
    assert "left alone: drained in Slurm (fan broken)" in answer["decision"]
    assert f"scontrol update nodename={host.name} state=undrain" in answer["cures"][0]
    out = io.StringIO()
    assert diff(address_of(service), older_than_s=0.0, out=out) == 1
    print(out.getvalue())
    assert f"host {host.name}: drained in Slurm (fan broken), schedulable" in out.getvalue()
    assert diff(address_of(service), older_than_s=3600.0) == 0


def test_without_the_service_both_sides_are_read(
    stage: Stage, service: Service, host: Host
) -> None:
    """With the credentials of the caller; nothing is written."""
    host.cordon(reason="disk")
    host.until_drained("k8s: node cordoned: disk")
    service.kill9()
    flags = {
        "kubeconfig": str(stage.bed.kube.admin_kubeconfig),
        "slurm-api-base": stage.bed.slurm.url,
        "slurm-auth-token-file": str(service.token_file),
    }
    question = Question(kind="host", name=host.name, address=None)
    out = io.StringIO()
    settings = load(flags, {}, "slurm")
    assert explain_without_service(question, settings, out=out) == 0
    print(out.getvalue())
    assert f"drained: Node {host.name} is cordoned (disk)" in out.getvalue()
    assert f"kubectl uncordon {host.name}" in out.getvalue()
    assert "not by the service" in out.getvalue()
    service.start().wait_ready()
    host.uncordon()
    host.until_free()


@with_settings(dry_run="true")
def test_a_dry_run_says_what_it_holds_back(service: Service, host: Host) -> None:
    host.cordon()
    eventually(lambda: asked(service, "host", host.name)["writes"], "a write is wanted")
    (write,) = [w for w in asked(service, "host", host.name)["writes"] if "drain" in w["write"]]
    assert write["state"] == "held back: dry run"
    host.uncordon()


@with_settings(slurm_metrics_interval="1s")
def test_a_pod_that_waits_for_a_busy_host_is_explained(
    pods: PodStage, scheduler: Service, host: Host
) -> None:
    waiting, job = pods.waiting(host)
    waiting.until(lambda: waiting.message)
    eventually(
        lambda: "place 1 of 1 in partition main" in str(asked(scheduler, "pod", waiting.path)),
        "its place in the queue",
    )
    answer = asked(scheduler, "pod", waiting.path)
    told, job_id = facts(answer), str(waiting.job["job_id"])
    assert f"Slurm job {job_id} waits" in told[f"Pod {waiting.path}"]
    assert "PENDING" in told[f"job {job_id}"]
    assert "can take it" in " ".join(fact["says"] for fact in answer["facts"])
    assert facts(asked(scheduler, "job", job_id)).keys() == told.keys()
    pods.scancel(job)
    waiting.until_bound()
    answer = asked(scheduler, "pod", waiting.path)
    assert "bound to Node" in facts(answer)[f"Pod {waiting.path}"]
    assert answer["see"] == [f"host {host.name}"]


def test_a_pod_that_no_host_can_take_is_explained(pods: PodStage, scheduler: Service) -> None:
    huge = pods.load(**workload_spec(cpu="999"))
    huge.until(lambda: "Insufficient cpu" in huge.message)
    answer = asked(scheduler, "pod", huge.path)
    assert "cannot: Insufficient cpu" in str(answer["facts"])
    assert "Ask for less, or make a host fit" in answer["cures"][0]


def test_a_source_that_cannot_be_read_is_a_fact(stage: Stage, serve: Serve, host: Host) -> None:
    service, slurm = serve(), stage.bed.slurm
    slurm.stop_slurmrestd()
    try:
        eventually(
            lambda: "source slurm_nodes" in facts(asked(service, "host", host.name)), "the loss"
        )
        out = io.StringIO()
        assert status(address_of(service), out=out) == 1
        print(out.getvalue())
        assert "degraded slurm: cannot be read" in out.getvalue()
    finally:
        slurm.start_slurmrestd()
    eventually(
        lambda: "source slurm_nodes" not in facts(asked(service, "host", host.name)), "it is back"
    )


@with_settings(leader_elect="true")
def test_a_pause_holds_writes_survives_a_kill_and_ends_with_resume(
    stage: Stage, service: Service, host: Host
) -> None:
    eventually(lambda: service.lines("writes from now on", since=service.begun), "it leads")
    out = io.StringIO()
    assert pause(address_of(service), for_s=None, why="upgrade of Slurm", out=out) == 0
    assert out.getvalue() == "sunk-sync: paused until resumed: upgrade of Slurm\n"
    host.cordon()
    eventually(lambda: asked(service, "host", host.name)["writes"], "a drain is wanted")
    (write,) = [w for w in asked(service, "host", host.name)["writes"] if "drain:" in w["write"]]
    assert write["state"] == "held back: paused until resumed: upgrade of Slurm"
    assert stays(lambda: not host.drain[0], for_s=1.5)
    assert status(address_of(service), out=io.StringIO()) == 1
    assert service.metric("sunk_sync_paused") == 1
    assert "upgrade of Slurm" in stage.bed.kube.kubectl("get", "events", "-A")
    service.restart()
    eventually(
        lambda: service.metric("sunk_sync_paused") == 1, "paused after the kill", within_s=20
    )
    assert stays(lambda: not host.drain[0], for_s=1.5)
    assert resume(address_of(service), out=io.StringIO()) == 0
    host.until_drained("k8s: node cordoned")
    host.uncordon()
    host.until_free()


@with_settings(leader_elect="true")
def test_a_pause_for_a_time_ends_by_itself(service: Service, host: Host) -> None:
    eventually(lambda: service.lines("writes from now on", since=service.begun), "it leads")
    assert pause(address_of(service), for_s=4.0, why="", out=io.StringIO()) == 0
    host.cordon()
    assert stays(lambda: not host.drain[0], for_s=2)
    host.until_drained("k8s: node cordoned")
    host.uncordon()
    host.until_free()


def test_without_an_election_a_pause_is_refused_with_the_reason(service: Service) -> None:
    errors = io.StringIO()
    assert pause(address_of(service), for_s=None, why="", errors=errors) == 2
    assert "--leader-elect, which is off" in errors.getvalue()
