"""The configuration files of a Slurm cluster on one machine, without munge or cgroups."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.real.testbed import accounting

CGROUP_CONF = "CgroupPlugin=disabled\n"


@dataclass(frozen=True, kw_only=True)
class SlurmConf:
    """The options of a test.

    `slurmds` real slurmd, nodes n1, n2, ...; `external_nodes` more idle nodes x1, x2, ... without
    one. `extra_lines` come last in slurm.conf and take precedence. Each node has this many `cpus`,
    whatever the machine has, and `gpus` fake devices. `partitions` replaces the default one.
    `files`: more files of /etc/slurm, by name.
    `accounting`: with slurmdbd and a MariaDB. `users`: additional names and numbers on its hosts.
    `address`: where slurmd finds slurmctld. `kinds`: more options of nodes of one name, by name.
    """

    slurmds: int = 3
    external_nodes: int = 0
    cpus: int = 16
    kill_wait_s: int = 2
    gpus: int = 0
    accounting: bool = False
    address: str = "127.0.0.1"
    kinds: Mapping[str, str] = field(default_factory=dict)
    users: Mapping[str, int] = field(default_factory=dict)
    extra_lines: Sequence[str] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    partitions: Sequence[str] = (
        "PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP",
    )

    @property
    def slurmd_names(self) -> list[str]:
        return [f"n{number}" for number in range(1, self.slurmds + 1)]

    @property
    def external_names(self) -> list[str]:
        return [f"x{number}" for number in range(1, self.external_nodes + 1)]

    @property
    def names(self) -> list[str]:
        return self.slurmd_names + self.external_names

    def slurm_conf(
        self, version: str, *, slurmctld_port: int, slurmd_ports: list[int], slurmdbd_port: int = 0
    ) -> str:
        lines = [
            f"SlurmctldHost=localhost({self.address})",
            *_common(slurmctld_port, self.kill_wait_s),
            *(accounting.slurm_conf_lines(slurmdbd_port) if self.accounting else ()),
            f"NodeName=DEFAULT {self._shape()}",
            *(
                f"NodeName={name} NodeHostname=localhost NodeAddr=127.0.0.1 Port={port}"
                f" {self.kinds.get(name, '')}"
                for name, port in zip(self.slurmd_names, slurmd_ports, strict=True)
            ),
            *self._external(version, slurmd_ports),
            *self.partitions,
            *self.extra_lines,
        ]
        return "\n".join(lines) + "\n"

    def _shape(self) -> str:
        gpus = f" Gres=gpu:{self.gpus}" if self.gpus else ""
        return f"Sockets=1 CoresPerSocket={self.cpus} ThreadsPerCore=1 RealMemory=64000{gpus}"

    def _external(self, version: str, slurmd_ports: list[int]) -> list[str]:
        if not self.external_nodes:
            return []
        names = f"NodeName=x[1-{self.external_nodes}] NodeHostname=localhost NodeAddr=127.0.0.1"
        if version != "24.11":
            return [f"{names} State=EXTERNAL"]
        # 24.11 has no such state. The slurmd of n1 answers the pings for all of them. slurmctld
        # then calls them idle (after 2-3 s), but no job can run on them.
        return [f"{names} Port={slurmd_ports[0]}"]

    def gres_conf(self) -> str:
        if not self.gpus:
            return ""
        names = f"n[1-{self.slurmds}]"
        return f"NodeName={names} Name=gpu File=/opt/testbed/gpu[0-{self.gpus - 1}]\n"


def _common(slurmctld_port: int, kill_wait_s: int) -> list[str]:
    return [
        "ClusterName=testbed",
        f"SlurmctldPort={slurmctld_port}",
        "SlurmUser=slurm",
        "SlurmdUser=root",
        "AuthType=auth/slurm",
        "CredType=auth/slurm",
        "AuthAltTypes=auth/jwt",
        "AuthAltParameters=jwt_key=/etc/slurm/jwt_hs256.key",
        "StateSaveLocation=/var/spool/slurmctld",
        "SlurmdSpoolDir=/var/spool/slurmd/%n",
        "SlurmctldPidFile=/run/slurmctld.pid",
        "SlurmdPidFile=/run/slurmd-%n.pid",
        "ProctrackType=proctrack/linuxproc",
        "TaskPlugin=task/none",
        "MpiDefault=none",
        "SelectType=select/cons_tres",
        "SelectTypeParameters=CR_Core_Memory",
        "SlurmdParameters=config_overrides",
        "ReturnToService=2",
        "GresTypes=gpu",
        "MaxNodeCount=20000",
        "TreeWidth=65533",
        f"KillWait={kill_wait_s}",
    ]
