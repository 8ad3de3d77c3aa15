"""Jobs that wait in Slurm, counted by what they ask for. Autoscalers read them as metrics."""

from collections.abc import Mapping

from msgspec import Struct


class Demand(Struct, frozen=True, order=True):
    """What a waiting job asks for; equal jobs are counted together."""

    partition: str
    features: str
    """Its constraint as Slurm spells it, `a100&ib`; empty: none."""
    gres: str
    """What it asks for beside CPUs and memory, without numbers: `gpu` or `gpu:h100,nic`."""
    waits_for_nodes: bool
    """False: more nodes would not start it. It is held, depends on another job, or has reached a
    limit."""


class Waiting(Struct, frozen=True):
    jobs: int
    """Tasks of an array count one by one."""
    nodes: int
    """Nodes that these jobs ask for, at least."""


PendingJobs = Mapping[Demand, Waiting]
