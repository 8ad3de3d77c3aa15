"""Many identical Pods at once as job arrays on hosts with slurmd, beside a straight script.

The floor's jobs have the very placeholder script, told by a door of its own that it may go. But its
Pods are bound as soon as their jobs read RUNNING; ours once their scripts said that they started
(P11): what slurmd needs to start hundreds of scripts on this one machine is in ours alone.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path

from sunk_sync.server.placeholder import script_of
from tests.bench.figures import Figure
from tests.bench.flood import beside_floor
from tests.bench.open_door import OpenDoor
from tests.bench.scheduled import scheduled
from tests.real.testbed import SlurmConf

CONF = SlurmConf(slurmds=50, cpus=20, extra_lines=("MinJobAge=2",))
COUNT, ROUNDS = 300, 1


def arrays() -> Iterator[Figure]:
    """Create 300 equal Pods at once: kind script, job arrays on both sides, 50 hosts."""
    with (
        scheduled(CONF, hooks=(), flags=["--placeholder", "script"]) as here,
        OpenDoor() as door,
        tempfile.TemporaryDirectory(prefix="sunk-sync-bench-") as folder,
    ):
        path = Path(folder) / "script"
        path.write_text(script_of(url=door.url, token="none", kill_wait_s=CONF.kill_wait_s))
        yield from beside_floor(here, COUNT, ROUNDS, str(path))
