"""Fixtures: podman, the image, and the servers that it runs against."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.image.pod import Pod
from tests.image.podman import Podman
from tests.real.conftest import SHOWN_LINES, require, require_podman
from tests.real.service import install
from tests.real.stage import Host
from tests.real.testbed import Bed, SlurmConf
from tests.real.testbed.bed import SLURM_DEFAULT
from tests.real.testbed.cache import KUBE_DEFAULT
from tools import image as tool

TAG = "localhost/sunk-sync:test"


@dataclass(frozen=True)
class Built:
    """The image in its podman."""

    podman: Podman
    tag: str
    digest: str
    revision: str
    """Of the working tree when the build began."""


@pytest.fixture(scope="session")
def podman() -> Iterator[Podman]:
    require_podman()
    with Podman() as made:
        made.import_base()
        yield made


@pytest.fixture(scope="session")
def image(podman: Podman) -> Built:
    revision = tool.revision()
    return Built(podman, TAG, podman.build(TAG), revision)


@pytest.fixture(scope="session")
def bed() -> Iterator[Bed]:
    require(kube=KUBE_DEFAULT, slurm=SLURM_DEFAULT)
    with Bed.start(conf=SlurmConf(slurmds=2)) as made:
        install(made)
        yield made


@pytest.fixture(scope="session")
def pod(image: Built, bed: Bed) -> Iterator[Pod]:
    """The Pod, ready."""
    made = Pod(image.podman, bed, image.tag)
    made.start()
    yield made
    made.stop()
    print(*made.log()[-SHOWN_LINES:], sep="\n")


@pytest.fixture
def host(bed: Bed) -> Host:
    return Host(bed, bed.slurm.conf.slurmd_names[0])
