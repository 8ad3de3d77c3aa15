"""The batch script of a placeholder job."""

import re
import shlex
from importlib.resources import files
from typing import Final

_place = re.compile("@(?:URL|TOKEN|EXTRA|KILL_WAIT)@").sub
_TEMPLATE: Final = (files("sunk_sync.server") / "placeholder.sh").read_text(encoding="utf-8")


def script_of(*, url: str, token: str, kill_wait_s: float, extra: str = "") -> str:
    """Return the script for the job of this token; one script serves all tasks of an array.

    `url` is --hooks-url; `extra` is the submitted field, to which the script appends `: started`.
    """
    given = {
        "@URL@": shlex.quote(url),
        "@TOKEN@": shlex.quote(token),
        "@EXTRA@": shlex.quote(extra),
        "@KILL_WAIT@": str(max(3, int(kill_wait_s))),
    }
    return _place(lambda found: given[found.group()], _TEMPLATE)
