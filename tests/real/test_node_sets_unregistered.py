"""N3: a slurmd that lives and never registers, because Slurm takes no more nodes.

Seconds are printed (`-rP`).
"""

import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from sunk_sync.core.views.unregistered import PATIENCE_S
from tests.real.conftest import require
from tests.real.node_farm import CONF, Farm, farm_with
from tests.real.slurmd_pods import wait_for
from tests.real.testbed.bed import SLURM_DEFAULT
from tests.real.testbed.cache import KUBE_DEFAULT

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

FULL = "Slurm has 2 nodes, and MaxNodeCount in slurm.conf allows 2"
LINES = ("MaxNodeCount=2", *CONF.extra_lines)


@pytest.fixture(scope="module")
def farm() -> Iterator[Farm]:
    require(kube=KUBE_DEFAULT, slurm=SLURM_DEFAULT)
    with farm_with(SLURM_DEFAULT, conf=replace(CONF, extra_lines=LINES)) as made:
        yield made


def test_a_node_beyond_max_node_count_is_named_and_its_pod_made_anew_ever_more_rarely_N3(
    farm: Farm,
) -> None:
    """slurmd waits without a word; the answer of slurmctld stands in its log alone."""
    farm.make(2)
    wait_for(lambda: farm.usable(1), "one node in Slurm")
    (name,) = {"cpu-0", "cpu-1"} - set(farm.records())
    born_s: dict[str, float] = {}

    def seen(number: int) -> bool:
        pod = farm.pods_of().get(name)
        if pod is not None:
            born_s.setdefault(pod["metadata"]["uid"], time.monotonic())
        return len(born_s) == number

    wait_for(lambda: seen(3), "the third Pod", deadline_s=120)
    first, second, third = born_s.values()
    print(f"made anew after {second - first:.1f} s and {third - second:.1f} s")
    assert third - second > 1.5 * PATIENCE_S  # the second Pod has twice as long as the first
    wait_for(lambda: farm.condition()[0] == "NotRegistered", "the condition")
    message = farm.condition()[1]
    print(message)
    assert message.startswith(f"{name}: Slurm shows no node of this name")
    assert message.endswith(FULL)
    farm.scale(1)
    wait_for(lambda: farm.condition()[0] == "Complete", "the scale-in", deadline_s=40)
    assert farm.usable(1)
    farm.clear()
