"""What is decided about: a host, a Work or the cluster."""

Key = tuple[str, str]
CLUSTER: Key = ("cluster", "")


def host_key(slurm_node: str) -> Key:
    """Key of the host that this Slurm node names."""
    return ("host", slurm_node)


def work_key(key: str) -> Key:
    """Key of a Work."""
    return ("work", key)
