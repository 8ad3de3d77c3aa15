"""Schemas for kubeconform from the OpenAPI documents of a real API server."""

import json
from pathlib import Path
from typing import Any

from tests.real.testbed import KubeServer

LOCATION = "{{ .ResourceKind }}{{ .KindSuffix }}.json"
"""The name that kubeconform gives a kind: `deployment-apps-v1.json`."""


def extract(kube: KubeServer, groups: set[str], folder: Path) -> None:
    """Write one file for each kind of these groups: `v1`, `apps/v1`."""
    for group in groups:
        path = f"/openapi/v3/{'api' if group == 'v1' else 'apis'}/{group}"
        every = kube.rest.call("GET", path)["components"]
        schemas = every["schemas"]
        for schema in schemas.values():
            _close(schema)
        for name, schema in schemas.items():
            for kind in schema.get("x-kubernetes-group-version-kind", ()):
                described = {"$ref": f"#/components/schemas/{name}", "components": every}
                (folder / _file(kind)).write_text(json.dumps(described))


def _close(schema: dict[str, Any]) -> None:
    """Refuse unknown fields."""
    if "properties" in schema:
        schema.setdefault("additionalProperties", False)


def _file(kind: dict[str, str]) -> str:
    words = [kind["kind"], kind["group"].partition(".")[0], kind["version"]]
    return "-".join(filter(None, words)).lower() + ".json"
