"""The topology file of Slurm: what the script beside slurmctld has, and should have (T6)."""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

Format = Literal["conf", "yaml"]
"""conf: topology.conf of Slurm 24.11, with the switches. yaml: topology.yaml, with the blocks."""

SILENT_S = 60.0
"""The script calls every few seconds. After this time without a call it does not run."""


class TopologyReport(Struct, frozen=True, gc=False):
    """The script beside slurmctld asks for the file (T6). Source: hooks."""

    call: int
    format: Format
    applied: str
    """Digest of the content that slurmctld has read; empty: none, or the file changed since."""
    refused: str = ""
    """Digest of the content that was refused."""
    why: str = ""
    """Why, in the words of slurmctld."""
    asked_s: float = 0.0


class TopologyFile(Struct, frozen=True, kw_only=True):
    """What sunk-sync wants in the file. The script adds what the administrator wrote."""

    content: str = ""
    digest: str = ""
    """Of the content; empty: there is none."""
    places: Mapping[str, str] = {}
    """Slurm node → its place, as in SlurmNode.topology. Only in topology.conf."""
    joined: Mapping[str, str] = {}
    """Those of them that are registered → which registration. Slurm 24.11 lets a node in only at
    the reconfigure after its registration, and refuses its jobs until then."""
    blocks: frozenset[str] = frozenset()
    """`topology:block`. Only in topology.yaml."""


NO_FILE = TopologyFile()


class TopologyState(Struct, frozen=True, kw_only=True):
    """What is known about the file."""

    report: TopologyReport | None = None
    wanted: TopologyFile = NO_FILE
    """As of the last report."""
    applied: TopologyFile = NO_FILE
    """The one that slurmctld has read; empty: unknown."""
    unplaced: frozenset[str] = frozenset()
    """Slurm nodes whose Nodes lack a label."""
    why_not: str = ""
    """Why the wanted file cannot be known now, or empty."""


UNKNOWN = TopologyState()


class AnswerTopology(Struct, frozen=True, gc=False):
    """Answer the script: write this content, or nothing (T6, T7)."""

    call: int
    digest: str = ""
    """Empty: nothing is to be written."""
    content: str = ""
    why: str = ""
    """Why nothing is, if that is not because slurmctld has read it."""
