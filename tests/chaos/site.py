"""A site's own prolog of the nodes: it writes into jobs, and it fails for one in ten of them.

Slurm drains the host of a prolog that fails, and ends or holds the job.
"""

from tests.real.pod_bed import OUT
from tests.real.testbed import SlurmServer

_PROLOG = "/etc/slurm/site-prolog.sh"
LINES = (f"Prolog={_PROLOG}", "PrologFlags=Alloc")
NOTED, FAILED = "site-noted", "site-failed"
_SCRIPT = """#!/bin/sh
# The note is written in the background: a slurmctld that is away must not delay the job.
PATH=/usr/local/bin:/usr/bin:/bin
job=$SLURM_JOB_ID
if [ $((job % 3)) -ne 0 ]; then
    setsid sh -c "timeout 20 scontrol update jobid=$job admincomment='checked by the site' &&
        echo $job >>OUT/NOTED" </dev/null >/dev/null 2>&1 &
fi
FAIL
exit 0
"""
_FAIL = """if [ $((job % 10)) -eq 3 ]; then
    echo $job >>OUT/FAILED
    exit 1
fi"""


class Site:
    """Its slurm.conf needs `LINES`, or no prolog runs."""

    def __init__(self, slurm: SlurmServer) -> None:
        self._slurm = slurm
        self._write(_SCRIPT.replace("FAIL\n", _FAIL + "\n"))

    def mend(self) -> None:
        """From now on the prolog fails for no job."""
        self._write(_SCRIPT.replace("FAIL\n", ""))

    def _write(self, text: str) -> None:
        path = self._slurm.root / _PROLOG.lstrip("/")
        fresh = path.with_suffix(".fresh")
        fresh.write_text(text.replace("OUT", OUT).replace("NOTED", NOTED).replace("FAILED", FAILED))
        fresh.chmod(0o755)
        fresh.rename(path)

    def count(self, what: str) -> int:
        """Return for how many jobs the prolog has `NOTED` something, or `FAILED`."""
        path = self._slurm.root / OUT.lstrip("/") / what
        return len(path.read_text().split()) if path.exists() else 0
