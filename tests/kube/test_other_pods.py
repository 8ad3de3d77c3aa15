"""P28: what Pods of others take of each Node, from a watch of all Pods."""

import json
from collections.abc import Sequence
from typing import Any

from sunk_sync.core.model.facts import (
    Deleted,
    ListingEnded,
    ListingStarted,
    Lost,
    News,
    Observed,
    Pod,
    Source,
    Taken,
)
from sunk_sync.core.model.pod_spec import PodSpec
from sunk_sync.kube.decode.source_decoder import OTHERS, PODS
from sunk_sync.kube.read.other_pods import OtherPods
from tests.kube.recorded.server import pod

CPU = PodSpec(requests=(("cpu", 500),))
SOURCE: Source = "other_pods"
BEGUN, ENDED = ListingStarted(SOURCE, 1.0, 1.0), ListingEnded(SOURCE)


class Desk:
    """Others, and what they hand on."""

    def __init__(self) -> None:
        self.told: list[News] = []
        self.others = OtherPods(self._tell)

    async def _tell(self, news: Sequence[News]) -> None:
        self.told += news

    async def hear(self, *news: News) -> list[News]:
        self.told = []
        await self.others.tell(news)
        return self.told


def on(node_name: str, uid: str, spec: PodSpec = CPU) -> Observed:
    return Observed(Pod(namespace="a", name=uid, uid=uid, node_name=node_name, spec=spec), 1.0)


def gone(uid: str) -> Deleted:
    return Deleted(SOURCE, "a", uid, uid, 2.0)


async def test_a_listing_is_one_word_for_each_node_P28() -> None:
    """Before it ends; none while it goes on."""
    desk = Desk()
    assert await desk.hear(BEGUN, on("k1", "u1"), on("k2", "u2")) == [BEGUN]
    assert await desk.hear(on("k1", "u3"), ENDED) == [
        Taken("k1", (("cpu", 1000), ("pods", 2))),
        Taken("k2", (("cpu", 500), ("pods", 1))),
        ENDED,
    ]


async def test_what_a_listing_does_not_name_is_gone() -> None:
    """And an unchanged Node is no news."""
    desk = Desk()
    await desk.hear(BEGUN, on("k1", "u1"), on("k2", "u2"), ENDED)
    assert await desk.hear(BEGUN, on("k1", "u1"), ENDED) == [BEGUN, Taken("k2", ()), ENDED]


async def test_events_tell_the_nodes_that_they_touch() -> None:
    """One that came, one that ended, one of which only something else changed."""
    desk = Desk()
    await desk.hear(BEGUN, on("k1", "u1"), ENDED)
    assert await desk.hear(on("k1", "u2")) == [Taken("k1", (("cpu", 1000), ("pods", 2)))]
    assert await desk.hear(on("k1", "u2")) == []
    assert await desk.hear(gone("u1"), gone("u2"), gone("u3")) == [Taken("k1", ())]


async def test_a_listing_that_broke_off_takes_nothing_away() -> None:
    """What it named is true, what it did not name is unknown."""
    desk = Desk()
    await desk.hear(BEGUN, on("k1", "u1"), on("k2", "u2"), ENDED)
    lost = Lost(SOURCE, "cut")
    told = await desk.hear(BEGUN, on("k3", "u3"), lost)
    assert Taken("k3", (("cpu", 500), ("pods", 1))) in told
    assert lost in told
    assert not [one for one in told if one in (Taken("k1", ()), Taken("k2", ()))]


def test_it_counts_as_for_pods_of_ours_P28() -> None:
    """Containers, sidecars, init containers, overhead; equal Pods share one object."""

    def asks(cpu: str, **more: str) -> dict[str, Any]:
        return {"name": "c", "resources": {"requests": {"cpu": cpu}}, **more}

    made = pod("p", 1)
    made["spec"] = {
        "nodeName": "k1",
        "containers": [asks("1"), asks("500m")],
        "initContainers": [asks("100m", restartPolicy="Always"), asks("3")],
        "overhead": {"memory": "1Mi"},
    }
    wire = json.dumps(made).encode()
    ours, theirs = PODS.object(wire), OTHERS.object(wire)
    assert isinstance(ours, Observed)
    assert isinstance(theirs, Observed)
    assert isinstance(ours.row, Pod)
    assert isinstance(theirs.row, Pod)
    assert theirs.row.spec.requests == ours.row.spec.requests
    assert dict(theirs.row.spec.requests) == {"cpu": 3100, "memory": 1 << 20}
    again = OTHERS.object(wire)
    assert isinstance(again, Observed)
    assert isinstance(again.row, Pod)
    assert again.row.spec is theirs.row.spec
