"""P28: the resources that foreign Pods take on each Node, from a watch of all Pods."""

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
from tests.kit.news import NewsLog
from tests.kit.pod_rows import asks, seen
from tests.kube.recorded.server import pod

CPU = PodSpec(requests=(("cpu", 500),))
SOURCE: Source = "other_pods"
BEGUN, ENDED = ListingStarted(SOURCE, 1.0, 1.0), ListingEnded(SOURCE)


class Others(NewsLog):
    """The sum of foreign Pods, and the news that it sends on."""

    def __init__(self) -> None:
        super().__init__()
        self.others = OtherPods(self.tell)

    async def hear(self, *news: News) -> list[News]:
        self.news = []
        await self.others.tell(news)
        return self.news


def on(node_name: str, uid: str, spec: PodSpec = CPU) -> Observed:
    return Observed(Pod(namespace="a", name=uid, uid=uid, node_name=node_name, spec=spec), 1.0)


def gone(uid: str) -> Deleted:
    return Deleted(SOURCE, "a", uid, uid, 2.0)


async def test_the_end_of_a_listing_reports_one_sum_for_each_node_P28() -> None:
    others = Others()
    assert await others.hear(BEGUN, on("k1", "u1"), on("k2", "u2")) == [BEGUN]
    assert await others.hear(on("k1", "u3"), ENDED) == [
        Taken("k1", (("cpu", 1000), ("pods", 2))),
        Taken("k2", (("cpu", 500), ("pods", 1))),
        ENDED,
    ]


async def test_a_listing_reports_only_nodes_whose_sum_changed() -> None:
    others = Others()
    await others.hear(BEGUN, on("k1", "u1"), on("k2", "u2"), ENDED)
    assert await others.hear(BEGUN, on("k1", "u1"), ENDED) == [BEGUN, Taken("k2", ()), ENDED]


async def test_an_event_reports_its_node_if_the_sum_changed() -> None:
    others = Others()
    await others.hear(BEGUN, on("k1", "u1"), ENDED)
    assert await others.hear(on("k1", "u2")) == [Taken("k1", (("cpu", 1000), ("pods", 2)))]
    assert await others.hear(on("k1", "u2")) == []
    assert await others.hear(gone("u1"), gone("u2"), gone("u3")) == [Taken("k1", ())]


async def test_a_broken_listing_removes_no_pod() -> None:
    others = Others()
    await others.hear(BEGUN, on("k1", "u1"), on("k2", "u2"), ENDED)
    lost = Lost(SOURCE, "cut")
    reported = await others.hear(BEGUN, on("k3", "u3"), lost)
    assert Taken("k3", (("cpu", 500), ("pods", 1))) in reported
    assert lost in reported
    assert not [one for one in reported if one in (Taken("k1", ()), Taken("k2", ()))]


def test_requests_of_foreign_pods_are_summed_as_for_our_pods_P28() -> None:
    made = pod("p", 1)
    made["spec"] = {
        "nodeName": "k1",
        "containers": [asks(cpu="1"), asks(cpu="500m")],
        "initContainers": [asks("Always", cpu="100m"), asks(cpu="3")],
        "overhead": {"memory": "1Mi"},
    }
    ours, theirs, again = (seen(decoder, made).spec for decoder in (PODS, OTHERS, OTHERS))
    assert theirs.requests == ours.requests
    assert dict(theirs.requests) == {"cpu": 3100, "memory": 1 << 20}
    assert again is theirs
