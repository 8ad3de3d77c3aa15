"""Differences between the supported releases of Slurm, and their errors."""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct


class SlurmError(Struct, frozen=True):
    number: int
    text: str


class Release(Struct, frozen=True, kw_only=True):
    name: str
    versions: Sequence[str]
    """API versions that its slurmrestd serves, newest first."""
    keeps_stray_reason: bool
    """A node that is neither drained nor down may have a reason."""
    never_set_by: str
    """`reason_set_by_user` of a node that never had a reason."""
    invalid_state: SlurmError
    """Error for a state that the node cannot have now."""
    invalid_power: SlurmError
    """Error for a power action without SuspendProgram."""
    too_large: SlurmError
    """Error for an allocation of more nodes than exist."""
    no_environment: SlurmError
    """Error for a batch job without environment."""
    refused_status: int
    """HTTP status of a refusal by slurmctld."""
    gives_up_after_s: float
    """How long slurmrestd waits for a slurmctld that is down."""


NO_CONFIGURATION: Final = SlurmError(2014, "Requested node configuration is not available")
_INVALID_STATE: Final = SlurmError(2028, "Invalid node state specified")

RELEASES: Final[Mapping[str, Release]] = {
    "26.05": Release(
        name="26.05.5",
        versions=("v0.0.45", "v0.0.44", "v0.0.43", "v0.0.42"),
        keeps_stray_reason=False,
        never_set_by="",
        invalid_state=SlurmError(2180, "Invalid node state transition"),
        invalid_power=SlurmError(2187, "Invalid power action"),
        too_large=SlurmError(2015, "Requested partition configuration not available now"),
        no_environment=SlurmError(2127, "Environment is missing in job"),
        refused_status=422,
        gives_up_after_s=10.0,
    ),
    "24.11": Release(
        name="24.11.5",
        versions=("v0.0.42", "v0.0.41", "v0.0.40"),
        keeps_stray_reason=True,
        never_set_by="root",
        invalid_state=_INVALID_STATE,
        invalid_power=_INVALID_STATE,
        too_large=NO_CONFIGURATION,
        no_environment=SlurmError(2019, "I/O error writing script/environment to file"),
        refused_status=500,
        gives_up_after_s=9.0,
    ),
}
"""Generation → release. All values were measured on the real servers."""

NO_REASON: Final = SlurmError(
    0, "You must specify a reason when DOWNING or DRAINING a node. Request denied"
)
"""Actions that scontrol refuses; slurmctld would accept them."""
INVALID_NAME: Final = SlurmError(2018, "Invalid node name specified")
INVALID_USER: Final = SlurmError(2010, "Invalid user id")
NOT_DYNAMIC: Final = _INVALID_STATE
BUSY_NODES: Final = SlurmError(2016, "Requested nodes are busy")
FEATURES: Final = SlurmError(2031, "Active features not subset of available features")
NO_TOPOLOGY: Final = SlurmError(2178, "Requested topology configuration is not available")
INVALID_JOB: Final = SlurmError(2017, "Invalid job id specified")
JOB_DONE: Final = SlurmError(2021, "Job/step already completing or completed")
INVALID_PARTITION: Final = SlurmError(2000, "Invalid partition name specified")
DUPLICATE_NODE: Final = SlurmError(2168, "Duplicate entry for this node")
NO_FILTER: Final = SlurmError(
    2173, "Invalid signal jobs request, at least one job id or filter is required."
)
FILTERED: Final = SlurmError(2172, "Cannot signal job")
NOT_ALLOWED: Final = SlurmError(2002, "Access/permission denied")
TOO_LONG: Final = SlurmError(2012, "Pathname of a file, directory or other parameter too long")
NO_PRIORITY: Final = SlurmError(2013, "Immediate execution impossible, insufficient priority")
BAD_TASKS: Final = SlurmError(2025, "Task count specification invalid")
BAD_FEATURE: Final = SlurmError(2029, "Invalid feature specification")
BAD_PREFER: Final = SlurmError(2133, "Invalid preferred feature specification")
HOLDS: Final = SlurmError(2038, "Job dependency problem")
UNKNOWN_USER: Final = SlurmError(2166, "Unable to resolve user ID to user name")
NO_REQUEUE: Final = SlurmError(2037, "Requested operation is presently disabled")
WAITING_JOB: Final = SlurmError(2024, "Job is pending execution")
JOB_HELD: Final = SlurmError(2042, "Job is in held state, pending scheduler release")
NO_RESERVATION: Final = SlurmError(2053, "Requested reservation is invalid")
NO_DIRECTORY: Final = SlurmError(
    2063, "Job cannot be submitted without the current working directory specified."
)
NOT_AVAILABLE: Final = SlurmError(2068, "Required node not available (down, drained or reserved)")
NOT_PENDING: Final = SlurmError(2073, "Job is no longer pending execution")
BAD_GRES: Final = SlurmError(2072, "Invalid generic resource (gres) specification")
BAD_ARRAY: Final = SlurmError(2081, "Invalid job array specification")
JOB_FINISHED: Final = SlurmError(2084, "Job has already finished")
BAD_TRES: Final = SlurmError(2115, "Invalid Trackable RESource (TRES) specification")
BAD_EXTERNAL: Final = SlurmError(2189, "Invalid configuration for external job")
NO_CONTROLLER: Final = SlurmError(1800, "Unable to contact slurm controller (connect failure)")
UNAUTHENTICATED: Final = SlurmError(1007, "Protocol authentication error")
CONVERSION: Final = SlurmError(9202, "Unable to convert Data type")
BAD_QUERY: Final = SlurmError(9000, "Query empty or not RFC7320 compliant")
UNSPECIFIED: Final = SlurmError(-1, "Unspecified error")
