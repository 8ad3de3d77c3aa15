"""The sources that a process reads from the start: each has metrics, and an alert while unread."""

import pytest

from sunk_sync.core.model.facts import VOLUME_SOURCES, Source
from sunk_sync.service.wiring import selections_of, sources_of
from sunk_sync.settings.model import Settings
from sunk_sync.settings.types import Component

OF_THE_SCHEDULER = {"jobs", "namespaces"}


@pytest.mark.parametrize(
    "components", [("syncer",), ("syncer", "scheduler"), ("syncer", "nodesets")]
)
@pytest.mark.parametrize("watch_all_pods", [False, True])
def test_a_source_has_metrics_exactly_if_it_is_read(
    components: tuple[Component, ...], watch_all_pods: bool
) -> None:
    """A source that nobody reads would never be listed, and its alert would fire forever."""
    settings = Settings(components=components, watch_all_pods=watch_all_pods)
    slurm: set[Source] = {"slurm_nodes"}
    if "scheduler" in components:
        slurm.add("jobs")
    read = (selections_of(settings).keys() | slurm) - set(VOLUME_SOURCES)
    assert set(sources_of(settings)) == read
    assert OF_THE_SCHEDULER.isdisjoint(read) == ("scheduler" not in components)
