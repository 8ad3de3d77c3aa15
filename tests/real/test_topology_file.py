"""The topology file on real servers, by the script beside slurmctld: T6, T7, T8.

24.11 takes switches from topology.conf, 26.05 takes blocks from topology.yaml.
"""

import re
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from sunk_sync.server.tokens import GATE, make_token, new_key
from tests.real.conftest import for_each_slurm
from tests.real.node_farm import CONF, NODES, Farm, farm_with
from tests.real.pod_bed import FOLDER, configure_scripts, copy_scripts
from tests.real.slurmd_pods import wait_for
from tests.real.test_node_features import in_sync, label, node_of
from tests.real.testbed import Bed, RestError, SlurmConf
from tests.real.testbed.ports import Ports

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(300),
    pytest.mark.both_slurms("trees on 24.11, blocks on 26.05"),
]

THEIRS = "SwitchName=theirs Nodes=n1\n"
TREE = "- topology: tree\n  tree:\n    switches:\n    - switch: root\n"
BLOCKS = """\
- topology: blk
  cluster_default: true
  block:
    block_sizes: [2]
    blocks:
    # sunk-sync blocks blk
"""
FILES = {
    "24.11": {"topology.conf": THEIRS, "topology.base.conf": THEIRS},
    "26.05": {"topology.yaml": TREE, "topology.base.yaml": TREE + BLOCKS},
}
PLUGIN = {"24.11": ("TopologyPlugin=topology/tree",), "26.05": ()}
PORTS = Ports()
TRIAL_PORT = PORTS.take()


def with_hooks(bed: Bed) -> Mapping[str, str]:
    """Put the scripts beside slurmctld, and return the flags of the hooks."""
    key, address = new_key(), f"127.0.0.1:{PORTS.take()}"
    file = bed.kube.directory / "hooks.key"
    file.write_bytes(key)
    copy_scripts(bed.slurm, key)
    more = {"topology_trial_port": str(TRIAL_PORT), "topology_pause": "0s"}
    configure_scripts(bed.slurm, url=f"http://{address}", **more)
    bed.slurm.run_in_root("chown", "slurm", "/etc/slurm")
    return {
        "components": "syncer,nodesets",
        "hooks_api_bind_address": address,
        "hooks_url": f"http://{address}",
        "hooks_key_file": str(file),
    }


def start(version: str) -> Any:
    lines = (*CONF.extra_lines, *PLUGIN[version])
    conf = SlurmConf(slurmds=1, cpus=4, extra_lines=lines, files=FILES[version])
    return farm_with(version, conf=conf, flags_for=with_hooks)


farms = for_each_slurm(start)


@pytest.fixture
def farm(farms: Farm) -> Iterator[Farm]:
    for number in range(NODES):
        label(farms, f"k{number}", zone=f"z{number % 2}", rack=f"r{number}")
    yield farms
    farms.clear()
    assert not farms.service.lines("surprise")


def argv(farm: Farm, *more: str) -> list[str]:
    script = f"{FOLDER}/sunk-sync-topology.sh"
    return [str(one) for one in farm.slurm.in_root(script, *more, user="slurm:slurm")]


def once(farm: Farm) -> str:
    """Let the script make one pass as SlurmUser; return what it says."""
    done = subprocess.run(argv(farm, "--once"), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr


def written(farm: Farm) -> bool:
    return "written, and read" in once(farm)


def etc(farm: Farm, name: str) -> Path:
    return Path(farm.slurm.root / "etc/slurm" / name)


def shown(farm: Farm) -> dict[str, str]:
    """Return the Slurm nodes of each switch, as slurmctld shows them."""
    lines = farm.slurm.scontrol("show", "topology").splitlines()
    pairs = [dict(one.split("=", 1) for one in line.split()) for line in lines if line]
    return {one["SwitchName"]: one["Nodes"] for one in pairs}


def message(farm: Farm) -> str:
    found = farm.status().get("conditions", ())
    return next((one["message"] for one in found if one["type"] == "TopologyInSync"), "")


def submit(farm: Farm) -> None:
    """Slurm takes a job for both nodes, and runs it."""
    job = farm.slurm.submit(
        "#!/bin/sh\nexit 0\n", required_nodes=["cpu-0", "cpu-1"], minimum_nodes=2
    )
    wait_for(lambda: "COMPLETED" in farm.job(job)["job_state"], "the job")


def test_the_file_follows_the_nodes_T6_T7_T8(farm: Farm) -> None:
    if farm.slurm.version == "24.11":
        trees(farm)
    else:
        blocks(farm)


def test_without_component_scheduler_the_gate_has_no_answer(farms: Farm) -> None:
    configured = (etc(farms, "sunk-sync") / "sunk-sync.conf").read_text()
    url = re.findall(r"^url = (\S+)$", configured, re.MULTILINE)
    key = (farms.kube.directory / "hooks.key").read_bytes()
    told = httpx.post(
        f"{url[0]}/v1/gate",
        json={"job_id": "1", "nodes": "n1", "deadline_s": 1},
        headers={"Authorization": f"Bearer {make_token(key, GATE)}"},
    )
    assert (told.status_code, told.json()) == (
        503,
        {"error": "sunk-sync runs without component scheduler"},
    )


def trees(farm: Farm) -> None:
    farm.make(2, topology={"tree": ["zone", "rack"]})
    wait_for(lambda: farm.usable(2), "the nodes in Slurm")
    wait_for(lambda: in_sync(farm) == "NoScript", "the condition without the script")
    with pytest.raises(RestError, match="2178"):
        submit(farm)
    begun_s = time.monotonic()
    assert written(farm)
    print(f"one pass with trial and reconfigure: {time.monotonic() - begun_s:.2f} s")
    nodes = [node_of(farm, name) for name in ("cpu-0", "cpu-1")]
    leaves = [f"z{int(one[1:]) % 2}-r{one[1:]}" for one in nodes]
    assert shown(farm) | {"theirs": "n1", leaves[0]: "cpu-0"} == shown(farm)
    assert shown(farm)["root"] == "cpu-[0-1]"
    wait_for(lambda: in_sync(farm) == "InSync", "the condition")
    submit(farm)
    before = etc(farm, "topology.conf").stat()
    assert not once(farm)
    assert etc(farm, "topology.conf").stat().st_mtime_ns == before.st_mtime_ns
    label(farm, nodes[0], rack="moved")
    wait_for(lambda: written(farm), "the other place")
    assert shown(farm)[f"{leaves[0].partition('-')[0]}-moved"] == "cpu-0"
    stand_apart(farm, nodes)
    refused(farm, nodes[0])
    killed(farm, nodes[0])


def stand_apart(farm: Farm, nodes: list[str]) -> None:
    """Labels with hyphens that give one text are two switches all the same."""
    for node, (zone, rack) in zip(nodes, (("a-b", "c"), ("a", "b-c")), strict=True):
        label(farm, node, zone=zone, rack=rack)
    wait_for(lambda: written(farm), "two places that look alike")
    leaves = [name for name, slots in shown(farm).items() if slots in ("cpu-0", "cpu-1")]
    print(leaves)
    assert len({name for name in leaves if name.startswith("a-b-c-")}) == 2


def refused(farm: Farm, node: str) -> None:
    """A line that slurmctld refuses harms nobody, and the condition has its words."""
    base = etc(farm, "topology.base.conf")
    base.write_text(THEIRS + "BlockName=odd Nodes=n1\n")
    label(farm, node, rack="again")
    socket = farm.slurm.root / "run/slurmctld/sack.socket"
    before = socket.stat()
    wait_for(lambda: "refused" in once(farm), "the refusal")
    assert socket.stat().st_ino == before.st_ino, "clients could not authenticate any more"
    assert "is UP" in farm.slurm.scontrol("ping")
    wait_for(lambda: in_sync(farm) == "Refused", "the condition")
    print(message(farm))
    base.write_text(THEIRS)
    wait_for(lambda: written(farm), "the file after the repair")
    wait_for(lambda: in_sync(farm) == "InSync", "the condition")


def killed(farm: Farm, node: str) -> None:
    """SIGKILL at the moment when the file is in place, and not known to be read."""
    label(farm, node, rack="killed")
    old = etc(farm, "topology.sunk-sync.old")
    with subprocess.Popen([*argv(farm), "--poll", "1s"], start_new_session=True) as script:
        wait_for(lambda: old.exists() or old.is_symlink(), "the middle")
        farm.slurm.run_in_root("pkill", "-KILL", "-u", "slurm", "-f", "sunk-sync-topology")
        script.send_signal(signal.SIGKILL)
    assert written(farm)
    assert "killed" in " ".join(shown(farm))
    assert not old.exists()


def blocks(farm: Farm) -> None:
    for number in range(NODES):
        label(farm, f"k{number}", rack="one")
    farm.make(2, topology={"block": "rack", "blockTopology": "blk"})
    wait_for(lambda: farm.usable(2), "the nodes in Slurm")
    wait_for(lambda: in_sync(farm) == "NoScript", "the condition without the script")
    assert not farm.service.writes("set-topology")
    assert written(farm)
    wait_for(lambda: in_sync(farm) == "InSync", "the condition")
    submit(farm)
    start_theirs(farm, "Topology=blk:one")
    label(farm, node_of(farm, "cpu-1"), rack="moved")
    move(farm, "moved")
    wait_for(lambda: farm.slurm.slurm_node("cpu-1")["topology"] == "blk:moved", "the other move")
    move(farm, "third")
    assert listed(farm) == {"one", "moved", "third"}
    farm.slurm.scontrol("update", "nodename=theirs", "topology=tree:root")
    move(farm, "last")
    assert listed(farm) == {"moved", "third", "last"}
    ended(farm)


def ended(farm: Farm) -> None:
    """A trial has no nodes: it does not find that a node names a switch that the base lost."""
    before = etc(farm, "topology.yaml").read_text()
    base = etc(farm, "topology.base.yaml")
    base.write_text(base.read_text().replace("switch: root", "switch: other"))
    assert "slurmctld ended at the reconfigure" in once(farm)
    assert etc(farm, "topology.yaml").read_text() == before
    assert not once(farm).count("read by slurmctld")
    farm.slurm.start_slurmctld()
    wait_for(lambda: farm.slurm.slurm_node("cpu-0")["topology"] == "blk:last", "slurmctld again")
    wait_for(lambda: "slurmctld ended" in once(farm), "the file that is not tried again")
    assert "is UP" in farm.slurm.scontrol("ping")
    base.write_text(base.read_text().replace("switch: other", "switch: root"))
    wait_for(lambda: in_sync(farm) == "InSync", "the condition")


def start_theirs(farm: Farm, place: str) -> None:
    """Start a dynamic node that is of no NodeSet. A static one loses its place at a reconfigure."""
    server = f"127.0.0.1:{farm.slurm.slurmctld_port}"
    conf = f"Sockets=1 CoresPerSocket=1 ThreadsPerCore=1 RealMemory=100 Port={PORTS.take()} {place}"
    argv = ("-Z", "-N", "theirs", "--conf-server", server, "--conf", conf)
    farm.slurm.start_dynamic_slurmd("theirs", *argv)
    wait_for(lambda: "theirs" in farm.slurm.states(), "a node of somebody else")


def move(farm: Farm, block: str) -> None:
    label(farm, node_of(farm, "cpu-0"), rack=block)
    wait_for(lambda: written(farm), f"the file with {block}")
    wait_for(lambda: farm.slurm.slurm_node("cpu-0")["topology"] == f"blk:{block}", "the move")


def listed(farm: Farm) -> set[str]:
    return set(re.findall(r'block: "(.*)"', etc(farm, "topology.yaml").read_text()))
