"""Limits of accounting, and the pending reason of a job over each of them.

`test_accounting.py` plays them on a real Slurm with slurmdbd. docs/pending.md lists them as seen,
because that test reads them back.
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from tests.real.refusals import Refusal
from tests.real.slurm_jobs import ALICE, BOTH, OLD, Jobs, Scenes, number, versions_by
from tests.real.testbed import SlurmConf, SlurmServer

Waiting = Iterable[tuple[str, int]]

ENFORCED = "AccountingStorageEnforce=associations,limits,qos,safe"
COMMON = (
    "AccountingStorageTRES=gres/gpu,license/matlab",
    "Licenses=matlab:9",
    "SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1",
)
CONF = SlurmConf(
    slurmds=3,
    gpus=4,
    accounting=True,
    users={"alice": 1001},
    partitions=(
        "PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP",
        "PartitionName=normal Nodes=ALL AllowQos=normal State=UP",
        "PartitionName=others Nodes=ALL DenyAccounts=root State=UP",
    ),
    extra_lines=(*COMMON, ENFORCED),
)
ASKED: Mapping[str, Any] = {
    "nodes": "2",
    "tasks": 2,
    "tasks_per_node": 1,
    "cpus_per_task": 2,
    "memory_per_node": number(500),
    "tres_per_node": "gres/gpu:2",
    "licenses": "matlab:2",
    "time_limit": number(10),
}
"""Two of everything, and more minutes than one: over every limit of one."""
NONE = "-"
KINDS = ("cpu", "mem", "node", "gres/gpu", "license/matlab", "billing")
OF_A_QOS = {
    "GrpTRES": "QOSGrpCpuLimit QOSGrpMemLimit QOSGrpNodeLimit QOSGrpGRES QOSGrpLicense "
    "QOSGrpBilling",
    "GrpTRESMins": "QOSGrpCPUMinutesLimit QOSGrpMemoryMinutes QOSGrpNodeMinutes QOSGrpGRESMinutes "
    "QOSGrpLicenseMinutes QOSGrpBillingMinutes",
    "GrpTRESRunMins": "QOSGrpCPURunMinutesLimit QOSGrpMemoryRunMinutes QOSGrpNodeRunMinutes "
    "QOSGrpGRESRunMinutes QOSGrpLicenseRunMinutes QOSGrpBillingRunMinutes",
    "MaxTRESPerJob": "QOSMaxCpuPerJobLimit QOSMaxMemoryPerJob QOSMaxNodePerJobLimit "
    "QOSMaxGRESPerJob QOSMaxLicensePerJob QOSMaxBillingPerJob",
    "MaxTRESMinsPerJob": "QOSMaxCpuMinutesPerJobLimit QOSMaxMemoryMinutesPerJob "
    "QOSMaxNodeMinutesPerJob QOSMaxGRESMinutesPerJob QOSMaxLicenseMinutesPerJob "
    "QOSMaxBillingMinutesPerJob",
    "MaxTRESPerNode": "QOSMaxCpuPerNode QOSMaxMemoryPerNode - QOSMaxGRESPerNode - "
    "QOSMaxBillingPerNode",
    "MaxTRESPerUser": "QOSMaxCpuPerUserLimit QOSMaxMemoryPerUser QOSMaxNodePerUserLimit "
    "QOSMaxGRESPerUser QOSMaxLicensePerUser QOSMaxBillingPerUser",
    "MaxTRESPerAccount": "MaxCpuPerAccount MaxMemoryPerAccount MaxNodePerAccount "
    "MaxGRESPerAccount MaxLicensePerAccount MaxBillingPerAccount",
    "MaxTRESRunMinsPerUser": "MaxCpuRunMinsPerUser MaxMemoryRunMinsPerUser MaxNodeRunMinsPerUser "
    "MaxGRESRunMinsPerUser MaxLicenseRunMinsPerUser MaxBillingRunMinsPerUser",
    "MaxTRESRunMinsPerAccount": "MaxCpuRunMinsPerAccount MaxMemoryRunMinsPerAccount "
    "MaxNodeRunMinsPerAccount MaxGRESRunMinsPerAccount MaxLicenseRunMinsPerAccount "
    "MaxBillingRunMinsPerAccount",
    "MinTRESPerJob": "QOSMinCpuNotSatisfied QOSMinMemory QOSMinNode QOSMinGRES QOSMinLicense "
    "QOSMinBilling",
}
"""Limit, and its reasons in the order of KINDS."""
OF_AN_ACCOUNT = {
    "GrpTRES": "AssocGrpCpuLimit AssocGrpMemLimit AssocGrpNodeLimit AssocGrpGRES AssocGrpLicense "
    "AssocGrpBilling",
    "GrpTRESMins": "AssocGrpCPUMinutesLimit AssocGrpMemMinutes AssocGrpNodeMinutes "
    "AssocGrpGRESMinutes AssocGrpLicenseMinutes AssocGrpBillingMinutes",
    "GrpTRESRunMins": "AssocGrpCPURunMinutesLimit AssocGrpMemRunMinutes AssocGrpNodeRunMinutes "
    "AssocGrpGRESRunMinutes AssocGrpLicenseRunMinutes AssocGrpBillingRunMinutes",
    "MaxTRESPerJob": "AssocMaxCpuPerJobLimit AssocMaxMemPerJob AssocMaxNodePerJobLimit "
    "AssocMaxGRESPerJob AssocMaxLicensePerJob AssocMaxBillingPerJob",
    "MaxTRESMinsPerJob": "AssocMaxCpuMinutesPerJobLimit AssocMaxMemMinutesPerJob "
    "AssocMaxNodeMinutesPerJob AssocMaxGRESMinutesPerJob AssocMaxLicenseMinutesPerJob "
    "AssocMaxBillingMinutesPerJob",
    "MaxTRESPerNode": "AssocMaxCpuPerNode AssocMaxMemPerNode - AssocMaxGRESPerNode - "
    "AssocMaxBillingPerNode",
}
OTHERS_OF_A_QOS = {
    "MaxJobsPerUser=0": "QOSMaxJobsPerUserLimit",
    "MaxJobsPerAccount=0": "MaxJobsPerAccount",
    "GrpJobs=0": "QOSGrpJobsLimit",
    "MaxWall=1": "QOSMaxWallDurationPerJobLimit",
    "GrpWall=1": "QOSGrpWallLimit",
}
OTHERS_OF_AN_ACCOUNT = {
    "MaxJobs=0": "AssocMaxJobsLimit",
    "GrpJobs=0": "AssocGrpJobsLimit",
    "MaxWall=1": "AssocMaxWallDurationPerJobLimit",
    "GrpWall=1": "AssocGrpWallLimit",
}


def limits(of: Mapping[str, str], others: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield each limit as sacctmgr spells it, with its reason."""
    for limit, reasons in of.items():
        value = 99_999 if limit.startswith("Min") else 1
        for kind, reason in zip(KINDS, reasons.split(), strict=True):
            if reason != NONE:
                yield f"{limit}={kind}={value}", reason
    yield from others.items()


QOS_LIMITS = {f"q{place}": one for place, one in enumerate(limits(OF_A_QOS, OTHERS_OF_A_QOS))}
"""Name of a QOS → its only limit."""
ACCOUNT_LIMITS = {
    f"a{place}": one for place, one in enumerate(limits(OF_AN_ACCOUNT, OTHERS_OF_AN_ACCOUNT))
}
LIMITED = frozenset(reason for _, reason in (*QOS_LIMITS.values(), *ACCOUNT_LIMITS.values()))
QOS = (
    "spare",
    "gone",
    "full MaxSubmitJobsPerUser=0",
    "never MaxTRESPerJob=cpu=1 Flags=DenyOnLimit",
)


@contextmanager
def accounted(version: str) -> Iterator[Jobs]:
    """Start a Slurm with slurmdbd, and a QOS or an account for each limit."""
    with SlurmServer(version, CONF) as slurm:
        make_accounts(slurm)
        yield Jobs(slurm)


def make_accounts(slurm: SlurmServer) -> None:
    """Give root every QOS and account; give alice the account games."""
    lines = [f"add qos {name} {limit}" for name, (limit, _) in QOS_LIMITS.items()]
    lines += [f"add qos {one}" for one in QOS]
    names = [*QOS_LIMITS, *(one.partition(" ")[0] for one in QOS)]
    lines += [f"modify user root set QOS+={','.join(names)}"]
    lines += [f"add account {name} {limit}" for name, (limit, _) in ACCOUNT_LIMITS.items()]
    lines += ["add account games QOS=normal", "add account empty MaxSubmitJobs=0"]
    lines += [f"add user root account={','.join(ACCOUNT_LIMITS)},empty"]
    lines += ["add user alice account=games"]
    slurm.run_in_root("sh", "-c", 'printf "%s\\n" "$@" | sacctmgr -i', "sh", *lines)


SCENES = Scenes()


@SCENES.add("QOSNotAllowed", "PartitionConfig")
def over_a_policy(jobs: Jobs) -> Waiting:
    """Use an account that the partition does not allow; Slurm reports a wrong partition."""
    yield "QOSNotAllowed", jobs.submit(partition="normal", qos="spare")
    yield "PartitionConfig", jobs.submit(partition="others")


@SCENES.add("InvalidQOS", versions=OLD)
def qos_deleted_while_it_waits(jobs: Jobs) -> Waiting:
    """Delete the QOS of a waiting job; 26.05 refuses that."""
    job = jobs.submit(qos="gone", begin_time=number(int(time.time()) + 2))
    jobs.slurm.sacctmgr("delete", "qos", "gone")
    yield "InvalidQOS", job


@SCENES.add("InvalidAccount")
def user_without_an_account(jobs: Jobs) -> Waiting:
    """Submit without an account, then enforce accounts."""
    jobs.slurm.reconfigure(replace(CONF, extra_lines=COMMON))
    job = jobs.submit(hold=True, user_id="1002", group_id="1002")
    jobs.slurm.reconfigure(CONF)
    jobs.update(job, hold=False)
    yield "InvalidAccount", job


REFUSALS = (
    Refusal(2045, "an unknown account", {"account": "nope"}),
    Refusal(2045, "an account of others", {"account": "empty", **ALICE}),
    Refusal(2045, "a user without an account", {"user_id": "1002", "group_id": "1002"}),
    Refusal(2045, "at once: an unknown account", {"account": "nope"}, kind="allocate"),
    Refusal(2066, "an unknown QOS", {"qos": "nope"}),
    Refusal(2066, "a QOS of others", {"qos": "spare", **ALICE}),
    Refusal(2050, "one job more than the QOS allows", {"qos": "full"}),
    Refusal(2050, "one job more than the account allows", {"account": "empty"}),
    Refusal(2050, "over a QOS with DenyOnLimit", {"qos": "never", **ASKED}),
    Refusal(2050, "at once: over a limit", {"qos": "q0", **ASKED}, kind="allocate"),
)


def seen_reasons() -> Mapping[str, frozenset[str]]:
    return versions_by([*((reason, BOTH) for reason in LIMITED), *SCENES.versions()])


def seen_errors() -> Mapping[int, frozenset[str]]:
    return versions_by((one.number, one.versions) for one in REFUSALS)
