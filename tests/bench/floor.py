"""The minimal script that drains cordoned Nodes. It has no state and no safety.

`python -m tests.bench.floor KUBE_HOST:PORT CA_FILE TOKEN_FILE SLURM_HOST:PORT VERSION SLURM_TOKEN`
"""

import http.client
import json
import ssl
import sys
from pathlib import Path
from typing import Any

JSON = {"Content-Type": "application/json"}


def main(kube: str, ca: str, kube_token: str, slurm: str, version: str, slurm_token: str) -> None:
    own = {"Authorization": f"Bearer {Path(kube_token).read_text()}"}
    api = http.client.HTTPSConnection(kube, context=ssl.create_default_context(cafile=ca))
    rest = http.client.HTTPConnection(slurm)
    headers = {**JSON, "X-SLURM-USER-TOKEN": slurm_token}

    def ask(method: str, name: str, body: Any = None) -> Any:
        path = f"/slurm/{version}/node/{name}"
        rest.request(method, path, body and json.dumps(body), headers)
        return json.loads(rest.getresponse().read())

    api.request("GET", "/api/v1/nodes?limit=1", headers=own)
    begin = json.loads(api.getresponse().read())["metadata"]["resourceVersion"]
    api.request("GET", f"/api/v1/nodes?watch=true&resourceVersion={begin}", headers=own)
    lines = api.getresponse()
    print("ready", flush=True)
    cordoned: set[str] = set()
    while line := lines.readline():
        node = json.loads(line)["object"]
        name, wanted = node["metadata"]["name"], bool(node["spec"].get("unschedulable"))
        if wanted == (name in cordoned):
            continue
        (cordoned.add if wanted else cordoned.discard)(name)
        drained = "DRAIN" in ask("GET", name)["nodes"][0]["state"]
        if wanted != drained:
            word = "DRAIN" if wanted else "UNDRAIN"
            ask("POST", name, {"state": [word], "reason": "k8s: floor"})


if __name__ == "__main__":
    main(*sys.argv[1:])
