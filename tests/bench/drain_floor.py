"""The floor that drains cordoned Nodes: `python -m tests.bench.drain_floor …` (see floors.py)."""

import sys

from tests.bench.floors import Kube, Slurm


def main(kube: str, ca_file: str, token_file: str, *slurm: str) -> None:
    api, rest = Kube(kube, ca_file, token_file), Slurm(*slurm)
    cordoned: set[str] = set()
    for event in api.watch("/api/v1/nodes", {}):
        node = event["object"]
        name, wanted = node["metadata"]["name"], bool(node["spec"].get("unschedulable"))
        if wanted == (name in cordoned):
            continue
        (cordoned.add if wanted else cordoned.discard)(name)
        drained = "DRAIN" in rest.ask("GET", f"node/{name}")["nodes"][0]["state"]
        if wanted != drained:
            state = "DRAIN" if wanted else "UNDRAIN"
            rest.ask("POST", f"node/{name}", {"state": [state], "reason": "k8s: floor"})


if __name__ == "__main__":
    main(*sys.argv[1:])
