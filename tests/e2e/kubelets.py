"""Real kubelets, each with its own containerd, as processes in one sandbox.

Their mounts, containers and files end with the sandbox, also if this process is killed. A kubelet
sets kernel parameters: those files are copies in the sandbox, so the machine keeps its own.
"""

import json
import signal
import subprocess
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e import cgroups
from tests.e2e.images import FILE, PAUSE, images
from tests.e2e.requirements import KUBE, PLUGINS
from tests.real.testbed import KubeServer, RestError, cache
from tests.real.testbed.closing import Closing
from tests.real.testbed.sandbox import Daemon, Sandbox, run, wait_until

SETUP = """
mount --make-rshared /
mount -t proc proc /proc
mount -t tmpfs tmpfs /run
mkdir upper work
mount -t overlay overlay -o lowerdir=/var,upperdir=upper,workdir=work /var
for name in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops \
    kernel/keys/root_maxkeys kernel/keys/root_maxbytes; do
  copy=sysctl-$(echo $name | tr / -)
  cat /proc/sys/$name >$copy
  mount --bind $copy /proc/sys/$name
done
"""
CONTAINERD = """
version = 2
root = "{folder}/root"
state = "{folder}/state"
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs",
  "io.containerd.internal.v1.opt", "io.containerd.tracing.processor.v1.otlp",
]
[grpc]
address = "{folder}/containerd.sock"
[ttrpc]
address = "{folder}/containerd.ttrpc.sock"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{pause}"
restrict_oom_score_adj = true
disable_apparmor = true
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = false
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{plugins}"
conf_dir = "{folder}/cni"
"""
READY_S = 60


@dataclass(frozen=True)
class Machine:
    """One kubelet: its Node, its address, the network of its Pods, its folder."""

    node: str
    number: int
    folder: Path

    @property
    def address(self) -> str:
        return f"10.65.0.{10 + self.number}"

    @property
    def cgroup(self) -> str:
        return cgroups.name_of(self.node)

    def network(self) -> dict[str, Any]:
        subnet = f"10.66.{self.number}.0/24"
        ranges = [[{"subnet": subnet}]]
        ipam = {
            "type": "host-local",
            "dataDir": str(self.folder / "addresses"),
            "ranges": ranges,
            "routes": [{"dst": "0.0.0.0/0"}],
        }
        plugin = {"type": "ptp", "ipMasq": False, "ipam": ipam}
        return {"cniVersion": "0.4.0", "name": self.node, "plugins": [plugin]}

    def configuration(self, client_ca: Path) -> dict[str, Any]:
        """Return the KubeletConfiguration."""
        never = ("memory.available", "nodefs.available", "nodefs.inodesFree", "imagefs.available")
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": False},
                "x509": {"clientCAFile": str(client_ca)},
            },
            "authorization": {"mode": "AlwaysAllow"},
            "address": self.address,
            "port": 10250,
            "healthzPort": 0,
            "failCgroupV1": False,
            "failSwapOn": False,
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self.cgroup}",
            "containerRuntimeEndpoint": f"unix://{self.folder}/containerd.sock",
            "evictionHard": dict.fromkeys(never, "0%"),
            "oomScoreAdj": 0,
            "podLogsDir": str(self.folder / "logs"),
            "resolvConf": "",
            "volumePluginDir": str(self.folder / "plugins"),
        }


class Kubelets(Closing):
    """Use as a context manager: at its end Pods, kubelets, containerd and cgroups are gone."""

    def __init__(self, kube: KubeServer, *nodes: str, slurm: str) -> None:
        self._kube, self._archive = kube, images(slurm).path / FILE
        self._daemons: defaultdict[str, list[Daemon]] = defaultdict(list)
        cgroups.sweep()
        self._sandbox = Sandbox("kubelets", setup=SETUP)
        self.directory = self._sandbox.directory
        self.shared = self.directory / "shared"
        """A folder for volumes of kind hostPath."""
        self.shared.mkdir(mode=0o777)
        self.shared.chmod(0o777)
        self.machines = [
            Machine(node, number, self.directory / node) for number, node in enumerate(nodes, 1)
        ]
        try:
            with ThreadPoolExecutor(2) as threads:
                list(threads.map(self._start, self.machines))
            for machine in self.machines:
                self._wait_ready(machine.node)
        except BaseException:
            self.close()
            raise

    def _start(self, machine: Machine) -> None:
        (machine.folder / "cni").mkdir(parents=True)
        cgroups.make(machine.cgroup)
        self._start_containerd(machine)
        self.ctr(machine, "images", "import", str(self._archive))
        self._start_kubelet(machine)

    def power_off(self, machine: Machine) -> None:
        """Kill all that runs on the machine, as a power cut does."""
        for daemon in self._daemons.pop(machine.node):
            daemon.stop(signal.SIGKILL)
        (machine.folder / "containerd.sock").unlink()
        subprocess.run(["pkill", "-KILL", "-f", str(machine.folder / "containerd.sock")])
        cgroups.kill(machine.cgroup)

    def power_on(self, machine: Machine) -> None:
        """Start the machine again: its Pods start anew when their containers are found dead."""
        self._start_containerd(machine)
        self._start_kubelet(machine)

    def _start_containerd(self, machine: Machine) -> None:
        folder = machine.folder
        text = CONTAINERD.format(folder=folder, pause=PAUSE, plugins=PLUGINS)
        (folder / "containerd.toml").write_text(text)
        (folder / "cni/net.conflist").write_text(json.dumps(machine.network()))
        argv: list[str | Path] = ["containerd", "--config", folder / "containerd.toml"]
        daemon = self._spawn(machine, "containerd", argv)
        socket = folder / "containerd.sock"
        wait_until(socket.exists, "containerd's socket", deadline_s=READY_S, daemons=[daemon])

    def _spawn(self, machine: Machine, name: str, argv: list[str | Path]) -> Daemon:
        daemon = self._sandbox.spawn(f"{name}-{machine.node}", argv)
        self._daemons[machine.node].append(daemon)
        return daemon

    def ctr(self, machine: Machine, *argv: str) -> str:
        """Run ctr with the containerd of this Node."""
        address = str(machine.folder / "containerd.sock")
        words = ["ctr", "--address", address, "--namespace", "k8s.io", *argv]
        return run(self._sandbox.enter(words), deadline_s=120)

    def _start_kubelet(self, machine: Machine) -> None:
        folder = machine.folder
        config = folder / "kubelet.json"
        config.write_text(json.dumps(machine.configuration(self._kube.ca_file)))
        argv: list[str | Path] = [
            cache.kubelet(KUBE).path / "kubelet",
            f"--config={config}",
            f"--kubeconfig={self._kube.node_kubeconfig(machine.node)}",
            f"--root-dir={folder / 'kubelet'}",
            f"--cert-dir={folder / 'kubelet-certificates'}",
            f"--hostname-override={machine.node}",
            f"--node-ip={machine.address}",
        ]
        self._spawn(machine, "kubelet", argv)

    def _wait_ready(self, node: str) -> None:
        def ready() -> bool:
            with suppress(RestError):
                found = self._kube.node(node)
                conditions = found.get("status", {}).get("conditions", ())
                return not found["spec"].get("taints") and any(
                    (one["type"], one["status"]) == ("Ready", "True") for one in conditions
                )
            return False

        kubelet = self._daemons[node][-1]
        wait_until(ready, f"Node {node} ready", deadline_s=READY_S, daemons=[kubelet])

    def close(self) -> None:
        self._sandbox.close()
        for machine in self.machines:
            cgroups.remove(machine.cgroup)
