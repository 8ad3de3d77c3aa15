"""Responses about slurmctld and slurmrestd: ping, load, configuration, versions."""

from typing import Any

from sunk_sync.embedded.slurm.api.shapes import INFINITE, Shape, number
from sunk_sync.embedded.slurm.memory import Memory
from sunk_sync.embedded.slurm.model.release import Release, SlurmError


def ping_shape(version: str, unavailable: SlurmError | None) -> Shape:
    up = unavailable is None
    spelled: dict[str, Any] = {"hostname": "slurmctld"}
    if version < "v0.0.45":
        spelled["pinged"] = "UP" if up else "DOWN"
    if version > "v0.0.41":
        spelled["responding"] = up
    spelled["latency"] = 500
    if version < "v0.0.45":
        spelled["mode"] = "primary"
    if version > "v0.0.41":
        spelled["primary"] = True
    if version >= "v0.0.45":
        spelled["status"] = "No error" if unavailable is None else unavailable.text
    return spelled


def diag_shape(memory: Memory) -> Shape:
    """Return the counters of slurmctld that have a meaning here."""
    states = [job.state for job in memory.jobs.values()]
    epoch_s = memory.epoch_s
    return {
        "req_time": number(epoch_s),
        "req_time_start": number(memory.started_s),
        "server_thread_count": 1,
        "agent_queue_size": 0,
        "agent_count": 0,
        "agent_thread_count": 0,
        "dbd_agent_queue_size": 0,
        "jobs_submitted": memory.next_job_id - 1,
        "jobs_started": sum(job.started_s is not None for job in memory.jobs.values()),
        "jobs_completed": states.count("COMPLETED"),
        "jobs_canceled": states.count("CANCELLED"),
        "jobs_failed": states.count("FAILED") + states.count("NODE_FAIL"),
        "jobs_pending": states.count("PENDING"),
        "jobs_running": states.count("RUNNING"),
        "job_states_ts": number(epoch_s),
        "bf_active": False,
    }


def conf_shape(memory: Memory) -> Shape:
    """Return the configuration that has an effect here."""
    knobs = memory.knobs
    preempts = any(each.preempt_mode != "OFF" for each in memory.partitions.values())
    return {
        "slurm_conf": {
            "AuthAltTypes": ["auth/jwt"],
            "AuthType": "auth/slurm",
            "ClusterName": memory.setup.cluster,
            "controllers": [{"address": "127.0.0.1", "machine": "slurmctld"}],
            "KillWait": int(knobs.kill_wait_s),
            "MessageTimeout": 10,
            "MinJobAge": int(knobs.min_job_age_s),
            "PreemptMode": ["CANCEL"] if preempts else ["DISABLED"],
            "PreemptType": "preempt/partition_prio" if preempts else "",
            "PrologSlurmctld": ["/etc/slurm/prolog"] if knobs.prolog_slurmctld else [],
            "EpilogSlurmctld": ["/etc/slurm/epilog"] if knobs.epilog_slurmctld else [],
            "RebootProgram": "/sbin/reboot" if knobs.reboot_program else "",
            "ReturnToService": ("no", "non-responding", "all")[knobs.return_to_service],
            "SchedulerParameters": [],
            "SlurmdTimeout": int(knobs.slurmd_timeout_s),
            "SuspendTime": INFINITE,
            "TopologyPlugin": "topology/flat",
        },
        "slurm_conf_meta": {
            "LastUpdate": int(memory.setup.epoch_s),
            "BOOT_TIME": int(memory.setup.epoch_s),
            "NEXT_JOB_ID": number(memory.next_job_id),
            "SLURM_CONF": "/etc/slurm/slurm.conf",
            "SLURM_VERSION": memory.release.name,
        },
    }


def openapi_shape(release: Release) -> Shape:
    """Return the OpenAPI document without schemas; it lists the supported versions."""
    tail = "" if release.versions[0] > "v0.0.42" else "&openapi/slurmctld"
    parsers = [{"plugin": version, "flags": ["NONE"]} for version in release.versions]
    paths = [f"/slurm/{version}/nodes/" for version in release.versions]
    return {
        "openapi": "3.0.3",
        "info": {
            "title": "Slurm REST API",
            "description": "API to access and control Slurm",
            "version": f"Slurm-{release.name}{tail}",
            "x-slurm": {"data_parsers": parsers, "release": release.name},
        },
        "paths": {path: {"get": {"tags": ["slurm"]}} for path in paths},
    }
