"""What foreign Pods take on each Node, from a watch of all Pods: rows P8 and P28."""

from msgspec.structs import replace

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
from sunk_sync.core.model.pod_spec import (
    HostPort,
    OtherPod,
    PodRules,
    PodSpec,
    PodTerm,
    Requirement,
)
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


def taken(node_name: str, count: int) -> Taken:
    """So many equal Pods are on the Node."""
    amounts = (("cpu", 500 * count), ("pods", count))
    return Taken(node_name, amounts, ((OtherPod(namespace="a"), count),))


def gone(uid: str) -> Deleted:
    return Deleted(SOURCE, "a", uid, uid, 2.0)


async def test_the_end_of_a_listing_reports_one_sum_for_each_node_P28() -> None:
    others = Others()
    assert await others.hear(BEGUN, on("k1", "u1"), on("k2", "u2")) == [BEGUN]
    assert await others.hear(on("k1", "u3"), ENDED) == [taken("k1", 2), taken("k2", 1), ENDED]


async def test_a_listing_reports_only_nodes_whose_sum_changed() -> None:
    others = Others()
    await others.hear(BEGUN, on("k1", "u1"), on("k2", "u2"), ENDED)
    assert await others.hear(BEGUN, on("k1", "u1"), ENDED) == [BEGUN, Taken("k2", ()), ENDED]


async def test_an_event_reports_its_node_if_the_sum_changed() -> None:
    others = Others()
    await others.hear(BEGUN, on("k1", "u1"), ENDED)
    assert await others.hear(on("k1", "u2")) == [taken("k1", 2)]
    assert await others.hear(on("k1", "u2")) == []
    assert await others.hear(gone("u1"), gone("u2"), gone("u3")) == [Taken("k1", ())]


async def test_a_new_label_is_reported_as_a_change_of_its_node_P8() -> None:
    others = Others()
    await others.hear(BEGUN, on("k1", "u1"), on("k1", "u2"), ENDED)
    labelled = replace(on("k1", "u1").row, labels=(("app", "web"),))
    (news,) = await others.hear(Observed(labelled, 2.0))
    assert isinstance(news, Taken)
    assert dict(news.pods) == {
        OtherPod(namespace="a", labels=(("app", "web"),)): 1,
        OtherPod(namespace="a"): 1,
    }


async def test_a_broken_listing_removes_no_pod() -> None:
    others = Others()
    await others.hear(BEGUN, on("k1", "u1"), on("k2", "u2"), ENDED)
    lost = Lost(SOURCE, "cut")
    reported = await others.hear(BEGUN, on("k3", "u3"), lost)
    assert taken("k3", 1) in reported
    assert lost in reported
    assert not [one for one in reported if one in (Taken("k1", ()), Taken("k2", ()))]


def test_of_a_foreign_pod_the_rules_that_keep_others_away_are_read_P8() -> None:
    made = pod("p", 1)
    made["metadata"] |= {"labels": {"app": "web"}, "deletionTimestamp": "2026-01-01T00:00:00Z"}
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    made["spec"] = {
        "nodeName": "k1",
        "affinity": {"podAntiAffinity": required, "podAffinity": required},
        "containers": [{**asks(cpu="1"), "ports": [{"containerPort": 80, "hostPort": 80}]}],
    }
    theirs = seen(OTHERS, made)
    assert (theirs.labels, theirs.terminating) == ((("app", "web"),), True)
    web = (Requirement("app", "In", ("web",)),)
    assert theirs.spec.rules == PodRules(ports=(HostPort(80),), apart=(PodTerm("zone", web),))


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
