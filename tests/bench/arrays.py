"""Many identical Pods at once as job arrays on hosts with slurmd, compared with a floor.

The jobs of the floor run the same placeholder script, but a server of the benchmark releases them.
The floor binds a Pod as soon as its job is RUNNING. sunk-sync waits until the script reports its
start (P11), so its time alone includes the start of hundreds of scripts on one machine.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path

from sunk_sync.server.placeholder import script_of
from tests.bench.figures import Figure
from tests.bench.flood import floods_beside_floor
from tests.bench.pod_site import pod_site
from tests.bench.post_server import ReleaseAll
from tests.real.testbed import SlurmConf

CONF = SlurmConf(slurmds=50, cpus=20, extra_lines=("MinJobAge=2",))
COUNT, ROUNDS = 300, 1


def arrays() -> Iterator[Figure]:
    """Create 300 equal Pods at once: kind script, job arrays on both sides, 50 hosts."""
    with (
        pod_site(CONF, hooks=(), flags=["--placeholder", "script"]) as here,
        ReleaseAll() as server,
        tempfile.NamedTemporaryFile(prefix="sunk-sync-bench-") as script,
    ):
        text = script_of(url=server.url, token="none", kill_wait_s=CONF.kill_wait_s)
        Path(script.name).write_text(text)
        yield from floods_beside_floor(here, COUNT, ROUNDS, script.name)
