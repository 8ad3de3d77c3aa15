"""Names in use in one run, and creation of hosts."""

from typing import Any

import msgspec

from tests.sim import words
from tests.sim.worlds import Worlds

PERSON = "person"
END_DELAY = "embedded/end-delay-s"
START_DELAY = "embedded/start-delay-s"


def other_mark(worlds: Worlds) -> str:
    """Return the mark of a sunk-sync in another Kubernetes cluster."""
    mark = {"cluster": f"not-{worlds.cluster_uid}", "node": "n1", "namespace": "x", "pod": "p"}
    return msgspec.json.encode({"sunk-sync": {**mark, "uid": "u"}}).decode()


class Cast:
    def __init__(self, worlds: Worlds, hosts: int, *, namespaces: tuple[str, ...]) -> None:
        self.worlds = worlds
        self.namespaces = namespaces
        self.slurm_nodes = [f"n{number}" for number in range(1, hosts + 1)]
        self.nodes = [f"k{number}" for number in range(1, hosts + 1)]
        self.spare = f"n{hosts + 1}"

    def add_pod(
        self, name: str, *, node: str, claims: str = "", hostname: str = "", end_s: float = 2.0
    ) -> None:
        """Create a slurmd Pod; after its deletion it takes `end_s` to end."""
        number = int("".join(one for one in name if one.isdigit()) or "0")
        annotations = {END_DELAY: str(end_s), START_DELAY: str(number % 3)}
        annotations |= {words.SLURM_NODE: claims} if claims else {}
        self.worlds.kube.add_pod(
            name,
            namespace=self.namespaces[number % len(self.namespaces)],
            node=node,
            metadata={"labels": dict([words.SELECTOR]), "annotations": annotations},
            spec={"hostname": hostname} if hostname else {},
        )

    def pods(self) -> list[dict[str, Any]]:
        return [
            pod
            for pod in self.worlds.kube.pods()
            if pod["metadata"]["namespace"] in self.namespaces
        ]
