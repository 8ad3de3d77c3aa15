"""The placeholder job that Pods request, and the annotations that set its fields (P4).

A new annotation is a field of `JobDescription` with its `Setting`. The Pod's decoder, the checks,
the digest, the requests to slurmrestd and docs/reference.md follow this table.
"""

from typing import Annotated, Final, Literal, get_type_hints

from msgspec import Struct
from msgspec.structs import replace

Form = Literal[
    "comment", "directory", "id", "line", "minutes", "names", "nodes", "priority", "sharing"
]
"""How a value is written; `core/translate/job_annotations.py` reads each."""


class Setting(Struct, frozen=True, gc=False):
    """An annotation of a workload Pod that sets a field of its job."""

    annotation: str
    form: Form
    rest: str = ""
    """Field of slurmrestd's job description, equal in all versions; empty: the same name."""
    update: Literal["no", "value", "yes"] = "no"
    """Whether Slurm changes the field while the job waits. value: Slurm accepts another value, but
    cannot remove one. Without accounting, Slurm accepts a new account or qos and ignores it. An
    update of `exclusive` has unpredictable results."""
    always: bool = False
    """sunk-sync sends the field even if no Pod sets it: the default of Slurm differs."""
    field: str = ""
    """Name of the field in JobDescription."""


class JobDescription(Struct, frozen=True, kw_only=True, gc=False):
    """The request of a placeholder job; empty or 0: not requested."""

    slurm_nodes: int = 1
    """Number of nodes: one for each Pod."""
    cpus: int = 1
    """Whole CPUs per node."""
    memory_mb: int = 0
    """Per node."""
    gres: tuple[tuple[str, int], ...] = ()
    """Per node: `gpu` or `gpu:a100`, and the number."""
    account: Annotated[str, Setting("account", "names")] = ""
    comment: Annotated[str, Setting("comment", "comment", update="yes")] = ""
    constraints: Annotated[str, Setting("constraints", "line", update="yes")] = ""
    prefer: Annotated[str, Setting("prefer", "line", update="yes")] = ""
    exclusive: Annotated[str, Setting("exclusive", "sharing", "shared")] = ""
    """In Slurm's spelling: none, oversubscribe, user, mcs or topo."""
    required_nodes: Annotated[str, Setting("required-nodes", "nodes", update="yes")] = ""
    excluded_nodes: Annotated[str, Setting("excluded-nodes", "nodes", update="yes")] = ""
    """Hostlists of the user, without the hosts that sunk-sync excludes."""
    partition: Annotated[str, Setting("partition", "names", update="value")] = ""
    qos: Annotated[str, Setting("qos", "names")] = ""
    reservation: Annotated[str, Setting("reservation", "names", update="yes")] = ""
    priority: Annotated[int | None, Setting("priority", "priority", update="value")] = None
    """A job held by priority 0 stays held."""
    user_id: Annotated[int, Setting("user-id", "id", always=True)] = 0
    group_id: Annotated[int, Setting("group-id", "id", always=True)] = 0
    working_directory: Annotated[
        str,
        Setting(
            "current-working-dir", "directory", "current_working_directory", "yes", always=True
        ),
    ] = "/"
    time_limit_min: Annotated[int, Setting("timeout", "minutes", "time_limit", update="value")] = 0


def _settings() -> dict[str, Setting]:
    hints = get_type_hints(JobDescription, include_extras=True)
    found = {
        setting.annotation: replace(setting, field=name, rest=setting.rest or name)
        for name, hint in hints.items()
        for setting in getattr(hint, "__metadata__", ())
    }
    return dict(sorted(found.items()))


SETTINGS: Final = _settings()
NOT_ASKED: Final = JobDescription()
