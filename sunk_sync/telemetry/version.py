"""The version of this installation."""

from importlib import metadata


def version() -> str:
    """Return the version of the installed package; `0+source`: an uninstalled checkout."""
    try:
        return metadata.version("sunk-sync")
    except metadata.PackageNotFoundError:
        return "0+source"
