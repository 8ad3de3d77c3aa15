"""Keys that `extraConf` of a NodeSet takes, with real slurmd: each ends in the node's record."""

import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from tests.real.conftest import for_each_slurm
from tests.real.stage import eventually
from tests.real.testbed import BedError, SlurmConf, SlurmServer
from tests.real.testbed.ports import Ports

pytestmark = [pytest.mark.real, pytest.mark.both_slurms("each slurmd knows its own keys")]

CONF = SlurmConf(
    slurmds=1, extra_lines=("MaxNodeCount=100", "SlurmctldParameters=enable_configless")
)
TOGETHER = "Sockets=2 CoresPerSocket=4 ThreadsPerCore=2"
SHAPE: dict[str, object] = {"sockets": 2, "cores": 4, "threads": 2, "cpus": 16}
KEYS: dict[str, tuple[str, dict[str, object]]] = {
    "together": (TOGETHER, SHAPE),
    "CpuSpecList": (f"{TOGETHER} CpuSpecList=0-1", {**SHAPE, "specialized_cpus": "0-1"}),
    "TmpDisk": (f"{TOGETHER} TmpDisk=1000", {**SHAPE, "temporary_disk": 1000}),
    "RestrictedCoresPerGPU": (
        f"{TOGETHER} RestrictedCoresPerGPU=1",
        {**SHAPE, "res_cores_per_gpu": 1},
    ),
}
GONE_WITHIN_S = 10

slurm = for_each_slurm(lambda version: SlurmServer(version, conf=CONF), kube=None)


@pytest.fixture
def port() -> Iterator[int]:
    ports = Ports()
    yield ports.take()
    ports.close()


def start(slurm: SlurmServer, name: str, conf: str) -> None:
    slurm.start_dynamic_slurmd(name, "-Z", "-N", name, "--conf", conf)


def record(slurm: SlurmServer, name: str) -> Any:
    return next((row for row in slurm.slurm_nodes() if row["name"] == name), None)


@pytest.mark.parametrize("key", KEYS)
def test_a_key_reaches_the_record(slurm: SlurmServer, port: int, key: str) -> None:
    """On both versions of Slurm."""
    conf, fields = KEYS[key]
    name = f"d{list(KEYS).index(key)}"
    start(slurm, name, f"{conf} RealMemory=1000 Port={port}")
    eventually(lambda: record(slurm, name), f"{name} registers")
    row = record(slurm, name)
    assert {field: row[field] for field in fields} == fields


def test_sockets_alone_are_not_what_they_say(slurm: SlurmServer, port: int) -> None:
    """So the kind refuses them without cores and threads: Slurm makes one socket of two."""
    start(slurm, "alone", f"Sockets=2 RealMemory=1000 Port={port}")
    eventually(lambda: record(slurm, "alone"), "it registers")
    assert record(slurm, "alone")["sockets"] == 1


@pytest.mark.parametrize("wrong", ["Sockets=2 CoresPerSocket=x", "Comment=x"])
def test_a_wrong_word_ends_slurmd(slurm: SlurmServer, port: int, wrong: str) -> None:
    """It would be started again for ever, so the kind refuses such words."""
    name = f"w{len(wrong)}"
    with suppress(BedError):  # it may end before the test bed has seen it
        start(slurm, name, f"{wrong} RealMemory=1000 Port={port}")
        daemon = slurm.daemons[f"slurmd-{name}"]
        eventually(lambda: not daemon.running, "slurmd ends", within_s=GONE_WITHIN_S)
    time.sleep(0.2)
    assert record(slurm, name) is None
