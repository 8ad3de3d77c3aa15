"""What this installation is: its version, and whether its core is compiled (decision 17)."""

from importlib import metadata
from importlib.util import find_spec


def version() -> str:
    """Of the installed package."""
    return metadata.version("sunk-sync")


def core() -> str:
    """`compiled` or `interpreted`; imports nothing."""
    found = find_spec("sunk_sync.graph")
    assert found is not None
    return "interpreted" if str(found.origin).endswith(".py") else "compiled"
