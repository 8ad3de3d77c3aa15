"""The version of this installation."""

from importlib import metadata


def version() -> str:
    """Version of the installed package; `0+source` where it runs from a checkout that is not
    installed.
    """
    try:
        return metadata.version("sunk-sync")
    except metadata.PackageNotFoundError:
        return "0+source"
