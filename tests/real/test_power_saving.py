"""A Slurm that acts on its own: machines that it powers down, wakes and reboots (S1, S8, S13)."""

import time

import pytest

from tests.real.service import NAMESPACE
from tests.real.stage import Host, stays
from tests.real.testbed import kube_objects

STAGE_HOSTS = 4
pytestmark = [pytest.mark.real, pytest.mark.usefixtures("service")]

CORDONED = "k8s: node cordoned"


def boot(host: Host) -> None:
    """Boot the machine, as a ResumeProgram does."""
    slurm = host.bed.slurm
    if slurm.daemons[f"slurmd-{host.name}"].running:
        slurm.stop_slurmd(host.name)
    time.sleep(2)  # slurmctld compares whole seconds
    slurm.start_slurmd(host.name, booted=True)


def power_down(host: Host) -> None:
    """Power a host down, as SuspendProgram does: its Node and slurmd Pod go."""
    host.update(state="power_down")
    host.until(lambda: "POWERING_DOWN" in host.state)
    host.until(lambda: "PowerDown" in host.pod_states)
    host.bed.slurm.stop_slurmd(host.name)
    host.bed.kube.delete_pod(host.pod_name, NAMESPACE, grace_s=0)
    host.bed.kube.delete_node(host.name)
    host.until(lambda: "POWERED_DOWN" in host.state, within_s=20)


def state_of(host: Host, job: str) -> tuple[str, int]:
    """Return the state of a job, and how often Slurm has requeued it."""
    slurm = host.bed.slurm
    row = slurm.rest.call("GET", slurm.path(f"job/{job}"))["jobs"][0]
    return "+".join(row["job_state"]), row["restart_cnt"]


def power_up(host: Host) -> None:
    """Bring the machine back, as ResumeProgram does."""
    host.bed.kube.create(kube_objects.node(host.name))
    host.create_pod()
    boot(host)


def test_a_node_whose_reboot_is_requested_is_drained_and_reboots_S13_S1(host: Host) -> None:
    """Slurm starts jobs there until the reboot begins, which waits for those that run."""
    job = host.run_job()
    host.bed.slurm.scontrol("reboot", host.name)
    host.until(lambda: "RebootRequested" in host.pod_states)
    host.cordon()
    host.until_drained(CORDONED)
    host.uncordon()
    assert stays(lambda: {"DRAIN", "REBOOT_REQUESTED"} <= host.state)
    host.cancel(job)
    host.until(lambda: "REBOOT_ISSUED" in host.state)
    assert stays(lambda: "DRAIN" in host.state and "reboot issued" in host.reason)
    boot(host)
    host.until_free()


def test_power_saving_removes_a_machine_and_a_job_wakes_it_without_a_drain_S8(host: Host) -> None:
    """A drain on the way up would end the job."""
    power_down(host)
    assert stays(lambda: "DRAIN" not in host.state and not host.reason)
    slurm = host.bed.slurm
    job = slurm.submit("#!/bin/sh\nsleep 600\n", name="wakes", required_nodes=[host.name])
    host.until(lambda: {"POWERING_UP"} <= host.state and host.state & {"MIXED", "ALLOCATED"})
    assert stays(lambda: "DRAIN" not in host.state, for_s=3)
    power_up(host)
    host.until(lambda: state_of(host, job) == ("RUNNING", 0))
    assert "DRAIN" not in host.state


def test_a_cordon_on_the_way_up_drains_once_the_job_runs_S1(host: Host) -> None:
    power_down(host)
    slurm = host.bed.slurm
    job = slurm.submit("#!/bin/sh\nsleep 600\n", name="wakes", required_nodes=[host.name])
    host.until(lambda: "POWERING_UP" in host.state)
    host.bed.kube.create(kube_objects.node(host.name))
    host.cordon()
    assert stays(lambda: "DRAIN" not in host.state, for_s=2)
    host.create_pod()
    boot(host)
    host.until_drained(CORDONED)
    host.until(lambda: state_of(host, job) == ("RUNNING", 0))


def test_a_drain_on_a_machine_without_power_is_lifted_with_its_cause_S2_S13(host: Host) -> None:
    """While it is drained, no job wakes it."""
    host.update(state="power_down")
    host.until(lambda: "POWERED_DOWN" in host.state, within_s=20)
    host.cordon()
    host.until_drained(CORDONED)
    assert "POWERED_DOWN" in host.state
    host.bed.kube.delete_pod(host.pod_name, NAMESPACE, grace_s=0)
    host.bed.kube.delete_node(host.name)
    host.until_free()
    assert "POWERED_DOWN" in host.state
