"""A real Slurm cluster: slurmctld, slurmrestd with JWT, and several slurmd, in a Debian root."""

import os
import shutil
import signal
import socket
import stat
from pathlib import Path
from typing import Any

from tests.real.testbed import accounting, cache
from tests.real.testbed.closing import Closing
from tests.real.testbed.errors import BedError
from tests.real.testbed.ports import Ports
from tests.real.testbed.rest import Rest
from tests.real.testbed.sandbox import Daemon, Sandbox, run, wait_until
from tests.real.testbed.slurm_conf import CGROUP_CONF, SlurmConf

API_VERSIONS = {"26.05": "v0.0.45", "24.11": "v0.0.42"}
# Neither root nor SlurmUser: slurmrestd refuses both.
SLURMREST_USER = "65534:65534"
# The Debian root is read-only: Slurm writes to a layer in the sandbox's folder.
SETUP = """
mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work root
mount -t proc proc root/proc
mount --bind /dev root/dev
mount -t tmpfs tmpfs root/dev/shm
mount --bind /sys root/sys
"""
WITH_OWN_RUN = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs tmpfs "$0/run" && exec "$@"']


class SlurmServer(Closing):
    """Use as a context manager, or call `close`. All methods block; safe from any thread."""

    def __init__(self, version: str = "26.05", conf: SlurmConf | None = None) -> None:
        self.version = version
        self.conf = conf or SlurmConf()
        self._debian = cache.slurm(version).path
        if not self._debian.is_dir():
            raise BedError(f"Slurm {version} is not built: python -m tests.real build")
        self.api_version = API_VERSIONS[version]
        self.daemons: dict[str, Daemon] = {}
        self._ports = Ports()
        self.slurmctld_port, self.port = self._ports.take(), self._ports.take()
        self.slurmdbd_port = self._ports.take() if self.conf.accounting else 0
        self._slurmd_ports = [self._ports.take() for _ in self.conf.slurmd_names]
        self.url = f"http://127.0.0.1:{self.port}"
        self._sandbox = Sandbox(f"slurm-{version}", setup=SETUP, prepare=self._prepare)
        self.directory = self._sandbox.directory
        try:
            self._start_all()
        except BaseException:
            self.close()
            raise

    def _prepare(self, directory: Path) -> None:
        (directory / "lower").symlink_to(self._debian)
        for name in ("work", "root", "upper"):
            (directory / name).mkdir()
        upper = directory / "upper"
        etc = upper / "etc/slurm"
        etc.mkdir(parents=True)
        for name in ("slurmctld", "slurmd"):
            (upper / "var/spool" / name).mkdir(parents=True)
        # Without it each start waits seconds for a name server.
        (upper / "etc/hosts").write_text(f"127.0.0.1 localhost {os.uname().nodename}\n")
        (etc / "cgroup.conf").write_text(CGROUP_CONF)
        (etc / "gres.conf").write_text(self.conf.gres_conf())
        (etc / "slurm.conf").write_text(self._slurm_conf())
        for name, text in self.conf.files.items():
            (etc / name).write_text(text)
        for name in ("slurm.key", "jwt_hs256.key"):
            (etc / name).touch(mode=0o600)
            (etc / name).write_bytes(os.urandom(64))
        self._make_gpus(upper / "opt/testbed")
        self._add_users(upper / "etc")
        theirs = [etc / "slurm.key", etc / "jwt_hs256.key", upper / "var/spool/slurmctld"]
        if self.conf.accounting:
            theirs += accounting.prepare(upper, self.slurmdbd_port)
        uid, gid = self._slurm_user()
        for path in theirs:
            os.chown(path, uid, gid)

    def _slurm_conf(self) -> str:
        return self.conf.slurm_conf(
            self.version,
            slurmctld_port=self.slurmctld_port,
            slurmd_ports=self._slurmd_ports,
            slurmdbd_port=self.slurmdbd_port,
        )

    def _add_users(self, etc: Path) -> None:
        """Add each user with a group of the same name and number."""
        known = self._debian / "etc"
        users = self.conf.users.items()
        passwd = [f"{name}:x:{uid}:{uid}::/tmp:/bin/sh\n" for name, uid in users]
        group = [f"{name}:x:{uid}:\n" for name, uid in users]
        for file, lines in (("passwd", passwd), ("group", group)):
            (etc / file).write_text("".join([(known / file).read_text(), *lines]))

    def _make_gpus(self, directory: Path) -> None:
        # Plain files are refused: these are copies of /dev/null.
        directory.mkdir(parents=True)
        for number in range(self.conf.gpus):
            os.mknod(directory / f"gpu{number}", 0o666 | stat.S_IFCHR, os.makedev(1, 3))

    def _slurm_user(self) -> tuple[int, int]:
        for line in (self._debian / "etc/passwd").read_text().splitlines():
            name, _, uid, gid, *_ = line.split(":")
            if name == "slurm":
                return int(uid), int(gid)
        raise BedError(f"no user slurm in {self._debian}")

    @property
    def init_pid(self) -> int:
        return self._sandbox.init_pid

    @property
    def supervisor_pid(self) -> int:
        return self._sandbox.supervisor_pid

    @property
    def root(self) -> Path:
        """The root directory of Slurm's processes, to read and to write."""
        return self._sandbox.inside(self.directory / "root")

    def in_root(self, *argv: str, user: str = "0:0") -> list[str]:
        """Return the command that runs argv in the root from outside."""
        root = self.directory / "root"
        return self._sandbox.enter(["chroot", f"--userspec={user}", root, *argv])

    def run_in_root(self, *argv: str, user: str = "0:0") -> str:
        return run(self.in_root(*argv, user=user))

    def scontrol(self, *argv: str) -> str:
        return self.run_in_root("scontrol", *argv)

    def sinfo(self, *argv: str) -> str:
        return self.run_in_root("sinfo", *argv)

    def squeue(self, *argv: str) -> str:
        return self.run_in_root("squeue", *argv)

    def sacctmgr(self, *argv: str) -> str:
        """Run sacctmgr without confirmation; "Nothing new added" and the like are no errors."""
        return self.run_in_root("sacctmgr", "--immediate", "--quiet", *argv)

    def token(self, lifespan_s: int = 3600, *, user: str = "root") -> str:
        answer = self.scontrol("token", f"username={user}", f"lifespan={lifespan_s}")
        return answer.strip().removeprefix("SLURM_JWT=")

    def slurm_node(self, name: str) -> Any:
        answer = self.rest.call("GET", self.path(f"node/{name}"))
        return answer["nodes"][0]

    def slurm_nodes(self) -> Any:
        return self.rest.call("GET", self.path("nodes/"))["nodes"]

    def update_slurm_node(self, names: str, **fields: Any) -> None:
        """POST /nodes/ for a name or a hostlist, as an administrator; RestError if refused."""
        self.rest.call("POST", self.path("nodes/"), {"name": [names], **fields})

    def path(self, what: str) -> str:
        return f"/slurm/{self.api_version}/{what}"

    def states(self) -> dict[str, list[str]]:
        """Return the state flags of each Slurm node, for example n1: [IDLE, DRAIN]."""
        return {node["name"]: node["state"] for node in self.slurm_nodes()}

    def _start_all(self) -> None:
        if self.conf.accounting:
            self.start_mariadb()
            self.start_slurmdbd()
        self.start_slurmctld()
        for name in self.conf.slurmd_names:
            self.start_slurmd(name)
        self.start_slurmrestd()
        self.rest = Rest(self.url, headers={"X-SLURM-USER-TOKEN": self.token(86400)})
        self.wait_until_idle()

    def wait_until_idle(self, *, deadline_s: float = 30) -> None:
        """Wait until each Slurm node is IDLE and answers."""
        wait_until(
            lambda: all(_is_idle(state) for state in self.states().values()),
            "all Slurm nodes idle",
            deadline_s=deadline_s,
            daemons=list(self.daemons.values()),
        )

    def _spawn(
        self,
        name: str,
        *argv: str,
        user: str = "0:0",
        env: dict[str, str] | None = None,
        own_run: bool = False,
    ) -> Daemon:
        if name in self.daemons and self.daemons[name].running:
            raise BedError(f"{name} runs already")
        root = self.directory / "root"
        command: list[str | Path] = ["chroot", f"--userspec={user}", root, *argv]
        if own_run:
            command = [*WITH_OWN_RUN, root, *command]
        self.daemons[name] = self._sandbox.spawn(name, command, env=env)
        return self.daemons[name]

    def start_mariadb(self) -> None:
        daemon = self._spawn("mariadb", *accounting.MARIADBD)
        socket_path = self.root / accounting.SOCKET.lstrip("/")
        wait_until(socket_path.exists, "MariaDB's socket", deadline_s=30, daemons=[daemon])

    def start_slurmdbd(self) -> None:
        daemon = self._spawn("slurmdbd", "slurmdbd", "-D")
        _wait_for_port(self.slurmdbd_port, daemon)

    def stop_slurmdbd(self, a_signal: signal.Signals = signal.SIGTERM) -> None:
        self.daemons["slurmdbd"].stop(a_signal)

    def start_slurmctld(self) -> None:
        """Start it and wait until it listens (it knows the states of its nodes a moment later)."""
        daemon = self._spawn("slurmctld", "slurmctld", "-D")
        _wait_for_port(self.slurmctld_port, daemon)

    def stop_slurmctld(self, a_signal: signal.Signals = signal.SIGTERM) -> None:
        """SIGTERM saves everything; SIGKILL loses the last 5 seconds."""
        self.daemons["slurmctld"].stop(a_signal)

    def start_slurmrestd(self) -> None:
        # openapi/slurmdbd of 24.11 fails to load without slurmdbd.
        alone = self.version == "24.11" and not self.conf.accounting
        plugins = ["-s", "slurmctld"] if alone else []
        argv = ["slurmrestd", "-a", "rest_auth/jwt", *plugins, f"127.0.0.1:{self.port}"]
        daemon = self._spawn("slurmrestd", *argv, user=SLURMREST_USER, env={"SLURM_JWT": "daemon"})
        _wait_for_port(self.port, daemon)

    def stop_slurmrestd(self, a_signal: signal.Signals = signal.SIGTERM) -> None:
        self.daemons["slurmrestd"].stop(a_signal, deadline_s=2)

    def start_slurmd(self, name: str, *, booted: bool = False) -> None:
        """Start it; the node is idle a moment later. A running one is an error.

        `booted`: it reports that its machine has just booted.
        """
        # All slurmd serve the commands on one socket in /run, and two that start at once fail on
        # it. Only the first one gets the /run of the commands.
        own_run = name != self.conf.slurmd_names[0]
        flags = ["-b"] if booted else []
        self._spawn(f"slurmd-{name}", "slurmd", "-D", *flags, "-N", name, own_run=own_run)

    def start_dynamic_slurmd(self, name: str, *args: str) -> None:
        """Start a slurmd that makes its own node, with these arguments after `slurmd -D`."""
        self._spawn(f"slurmd-{name}", "slurmd", "-D", *args, own_run=True)

    def stop_slurmd(self, name: str, a_signal: signal.Signals = signal.SIGTERM) -> None:
        self.daemons[f"slurmd-{name}"].stop(a_signal, deadline_s=2)

    def submit(self, script: str, **fields: Any) -> str:
        """Submit a small job through slurmrestd; return its id. RestError if refused."""
        job = {
            "current_working_directory": "/tmp",
            "environment": ["PATH=/usr/bin:/bin"],
            "standard_output": "/dev/null",
            "memory_per_node": {"set": True, "number": 100},
            "requeue": False,
            **fields,
        }
        body = {"script": script, "job": job}
        return str(self.rest.call("POST", self.path("job/submit"), body)["job_id"])

    def cancel(self, job: str) -> None:
        self.rest.call("DELETE", self.path(f"job/{job}"))

    def report_gpus(self, name: str, *, one_only: bool) -> None:
        """Restart the slurmd of a node, which then finds one GPU, or all again."""
        whole = self.conf.gres_conf()
        if one_only:
            others = ",".join(other for other in self.conf.slurmd_names if other != name)
            whole = whole.replace(f"n[1-{self.conf.slurmds}]", others)
            whole += f"NodeName={name} Name=gpu File=/opt/testbed/gpu0\n"
        (self.root / "etc/slurm/gres.conf").write_text(whole)
        self.stop_slurmd(name)
        self.start_slurmd(name)

    def restart_slurmctld(self) -> None:
        self.stop_slurmctld()
        self.start_slurmctld()

    def lose_state(self) -> None:
        """Kill slurmctld and start it without its state: every job is lost."""
        self.stop_slurmctld(signal.SIGKILL)
        for path in (self.root / "var/spool/slurmctld").iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        self.start_slurmctld()

    def reconfigure(self, conf: SlurmConf | None = None) -> None:
        """Do `scontrol reconfigure`, with another slurm.conf if given (the same slurmd)."""
        if conf:
            self.conf = conf
            (self.root / "etc/slurm/slurm.conf").write_text(self._slurm_conf())
        self.scontrol("reconfigure")

    def close(self) -> None:
        self._sandbox.close()
        self._ports.close()


def _is_idle(state: list[str]) -> bool:
    return "IDLE" in state and not {"NOT_RESPONDING", "INVALID_REG"} & set(state)


def _wait_for_port(port: int, daemon: Daemon) -> None:
    def listens() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    wait_until(listens, f"port {port} open", deadline_s=30, daemons=[daemon])
