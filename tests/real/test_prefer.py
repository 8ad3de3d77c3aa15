"""What Slurm makes of a preference: the facts behind decision 47."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.real.conftest import require
from tests.real.testbed import SlurmConf, SlurmServer
from tests.real.testbed.rest import RestError
from tests.real.testbed.sandbox import wait_until

pytestmark = pytest.mark.real

SCRIPT = "#!/bin/sh\nsleep 600\n"
IMPOSSIBLE = 2014
CONF = SlurmConf(slurmds=3, cpus=4, kinds={"n3": "Feature=fast"})


@pytest.fixture(scope="module", params=["26.05", "24.11"])
def server(request: pytest.FixtureRequest) -> Iterator[SlurmServer]:
    require(slurm=request.param)
    with SlurmServer(request.param, CONF) as server:
        server.wait_until_idle()
        yield server


@pytest.fixture
def host_of(server: SlurmServer) -> Iterator[Callable[..., str]]:
    """Submit a job that prefers `fast`; return its node once it runs."""
    jobs: list[str] = []

    def submit(**fields: Any) -> str:
        jobs.append(server.submit(SCRIPT, tasks=1, prefer="fast", **fields))
        found = ["-h", "-j", jobs[-1], "-o"]
        wait_until(
            lambda: server.squeue(*found, "%T").strip() == "RUNNING", "the job", deadline_s=60
        )
        return server.squeue(*found, "%N").strip()

    yield submit
    for job in jobs:
        server.cancel(job)


def test_a_preferred_node_is_taken_first_and_another_one_if_it_is_drained(
    server: SlurmServer, host_of: Callable[..., str]
) -> None:
    assert host_of() == "n3"
    server.scontrol("update", "NodeName=n3", "State=DRAIN", "Reason=x")
    try:
        assert host_of() in ("n1", "n2")
    finally:
        server.scontrol("update", "NodeName=n3", "State=UNDRAIN")


@pytest.mark.parametrize(
    "fields",
    [{"excluded_nodes": ["n3"]}, {"required_nodes": ["n1"]}, {"nodes": "2", "tasks": 2}],
    ids=["all preferred nodes are excluded", "another node is required", "too few of them"],
)
def test_a_preference_that_cannot_be_met_at_all_is_refused_as_a_demand_is(
    server: SlurmServer, fields: dict[str, Any]
) -> None:
    with pytest.raises(RestError) as refused:
        server.submit(SCRIPT, prefer="fast", **{"tasks": 1} | fields)
    assert refused.value.body["errors"][0]["error_number"] == IMPOSSIBLE
