"""The test bed: real Kubernetes and Slurm servers that start in seconds."""

from tests.real.testbed.bed import Bed
from tests.real.testbed.errors import BedError, CannotRunError
from tests.real.testbed.kube import KubeServer
from tests.real.testbed.rest import Rest, RestError
from tests.real.testbed.slurm import SlurmServer
from tests.real.testbed.slurm_conf import SlurmConf

__all__ = [
    "Bed",
    "BedError",
    "CannotRunError",
    "KubeServer",
    "Rest",
    "RestError",
    "SlurmConf",
    "SlurmServer",
]
