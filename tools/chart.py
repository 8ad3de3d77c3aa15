"""Renews what the Helm chart takes from elsewhere: `python -m tools.chart`.

- `templates/_rules.tpl`: the rules of all roles, from `sunk_sync/kube/rbac.py`
- `values.schema.json`: its definition of `settings`, from `sunk_sync/settings/model.py`
- `templates/_annotations.tpl`: the CEL of the admission policy, by `tools/admission.py`
- `files/`: the scripts of the gate, from deploy/slurm
- `README.md`: the table of values, from the comments in `values.yaml`; the table of the fields of
  `compute.nodes`, from their descriptions in `values.schema.json`

`tools/manifests.py` then renders deploy/manifests.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import yaml

from sunk_sync.cli.flags import ABOUT, About
from sunk_sync.kube.rbac import ALL_PODS, LOCKED_PODS, PERMISSIONS, Permission
from sunk_sync.settings.model import key_of
from tools import admission

DEPLOY = Path(__file__).parent.parent / "deploy"
CHART = DEPLOY / "helm" / "sunk-sync"
SCRIPTS = DEPLOY / "slurm"
OWN_VALUES = {
    "components": "scheduler.enabled",
    "cluster-name": "clusterName",
    "watch-namespace": "scheduler.scope",
    "slurmd-namespace": "slurmd.namespaces",
    "slurmd-selector": "slurmd.selector",
    "scheduler-name": "scheduler.name",
    "slurm-api-base": "slurm.apiBase",
    "slurm-auth-token": "slurm.auth",
    "slurm-auth-token-file": "slurm.auth",
    "user-policy": "scheduler.userPolicy",
    "watch-all-pods": "scheduler.watchAllPods",
    "lock": "lock.enabled",
    "hooks-url": "hooks.url",
    "hooks-key-file": "hooks.key",
    "leader-elect": "leaderElection.enabled",
    "traces-endpoint": "traces.endpoint",
    "traces-sample": "traces.sample",
    "kubeconfig": "",
    "context": "",
    "metrics-bind-address": "",
    "health-probe-bind-address": "",
    "hooks-api-bind-address": "",
    "operators-bind-address": "",
}
"""Settings that `settings` may not hold → the value that sets them; empty: the chart alone does."""

OWN_OBJECTS = {"leases": "own-lease", "secrets": "own-hooks-key"}
"""Granted only with leader election, and only with the hooks server: templates of their own."""
VERBS = ("get", "list", "watch", "create", "patch", "delete")
OBJECT = "sunk-sync-slurm"
OBJECT_NAME = '{{ include "sunk-sync.objectName" . }}'
"""The table has the names for --cluster-name=slurm."""


def rules() -> str:
    """Return `_rules.tpl`: one template for each place and component."""
    parts = ["{{/* Made by `python -m tools.chart` from sunk_sync/kube/rbac.py. Do not edit. */}}"]
    optional = {"all-pods": [ALL_PODS], "lock": [LOCKED_PODS]}
    for name, permissions in {**_roles(), **optional}.items():
        body = "\n".join(line for rule in _merged(permissions) for line in _rule(rule))
        parts.append(f'{{{{- define "sunk-sync.rules.{name}" -}}}}\n{body}\n{{{{- end }}}}')
    return "\n\n".join(parts) + "\n"


def _roles() -> Mapping[str, list[Permission]]:
    """`work-scheduler` → what the scheduler needs in the namespaces of workload Pods."""
    roles: dict[str, list[Permission]] = {name: [] for name in OWN_OBJECTS.values()}
    for one in PERMISSIONS:
        name = one.where if one.component == "syncer" else f"{one.where}-{one.component}"
        roles.setdefault(OWN_OBJECTS.get(one.resource, name), []).append(one)
    return roles


def _merged(permissions: Iterable[Permission]) -> Iterator[list[Permission]]:
    """Permissions on the same objects become one rule."""
    found: dict[tuple[str, str], list[Permission]] = {}
    for one in permissions:
        found.setdefault((one.group, one.spelled), []).append(one)
    yield from found.values()


def _rule(permissions: list[Permission]) -> Iterator[str]:
    first = permissions[0]
    yield f"- apiGroups: [{first.group or json.dumps('')}]"
    yield f"  resources: [{first.resource}]"
    if first.names:
        names = ", ".join(first.names).replace(OBJECT, OBJECT_NAME)
        yield f"  resourceNames: [{names}]"
    yield "  verbs:"
    verbs = [verb for one in permissions for verb in one.verbs]
    for verb, why in sorted(verbs, key=lambda verb: VERBS.index(verb[0])):
        yield f"    - {verb} # {why}"


def settings() -> Mapping[str, object]:
    """Return the schema of `settings`."""
    rows = {key_of(one.field): _checked(one) for one in ABOUT}
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {key: row for key, row in rows.items() if key not in OWN_VALUES},
    }


def _checked(about: About) -> Mapping[str, object]:
    if about.switch:
        return {"type": "boolean"}
    if "|" in about.form:
        return {"enum": about.form.split("|")}
    if "=" in about.form or about.field == "node_overhead":
        return {"type": ["string", "object", "array"]}
    if about.form == "DURATION":
        pattern = "^([0-9.]+(ms|s|m|h|d)?)+$"
        return {"type": ["string", "number"], "pattern": pattern, "minimum": 0}
    if about.form == "N":
        return {"type": "integer", "minimum": 0}
    return {"type": "string", "minLength": 1}


def schema() -> str:
    """Return `values.schema.json` with the definition of `settings` made anew."""
    text: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    text["properties"]["settings"] = settings()
    return json.dumps(text, indent=2, ensure_ascii=False) + "\n"


BEGIN = """\
# Helm chart of sunk-sync

`python -m tools.chart` generates this page from the comments in `values.yaml`.

```
kubectl create namespace slurm            # the namespace of the slurmd Pods, if it does not exist
kubectl -n slurm create secret generic sunk-sync-slurm-token --from-file=token=PATH
helm upgrade --install sunk-sync deploy/helm/sunk-sync -n slurm \\
  --set image.repository=REGISTRY/sunk-sync
```

[deploy/README.md](../../README.md) describes Secrets, upgrades and what `helm uninstall` leaves.
`values.schema.json` refuses unknown keys and wrong types before anything is installed. Values with
the names of SUNK's chart have the same meaning: `syncer.enabled`, `scheduler.enabled`,
`scheduler.name`, `scheduler.scope.type`, `scheduler.scope.namespaces`, `compute.nodes`.

| values | permissions |
|---|---|
| `scheduler.scope.type: namespace` | Roles in the namespaces of the workload Pods |
| `scheduler.scope.type: cluster` | ClusterRoles for workload Pods in all namespaces |
| `scheduler.enabled: true` | list and watch of Namespaces, volumes and storage classes |
| `scheduler.enabled: false` | nothing that binds, ends or annotates workload Pods |
| `scheduler.enabled: false`, `nodesets.enabled: false` | no hooks key |
| `scheduler.watchAllPods: true` | list and watch of every Pod |
| `lock.enabled: true` | list of every Pod |
| `nodesets.enabled: true` | create and delete Pods where slurmd Pods are; NodeSets there |
| any | a ClusterRole for Nodes, Roles for slurmd Pods, and Events in the namespace `default` |

[docs/reference.md](../../../docs/reference.md#permissions) has the reason for each verb.
"""


DEFINITIONS = """\
### `compute.nodes.NAME`

A definition may name others that it inherits from. Any other field is refused; for those of SUNK
that have no counterpart, helm says what to use instead.

| field | meaning |
|---|---|"""


class Value:
    """A value of the chart: its path, default and comment."""

    def __init__(self, path: str, default: object, text: str) -> None:
        self.path = path
        self.default = default
        self.text = text


def values() -> Iterator[tuple[str, list[Value]]]:
    """Each section of `values.yaml` and its values. LookupError: one has no comment."""
    text = (CHART / "values.yaml").read_text(encoding="utf-8")
    lines = text.splitlines()
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    assert isinstance(root, yaml.MappingNode)
    headings = {at: line[3:] for at, line in enumerate(lines) if line.startswith("## ")}
    found = list(_leaves(root, "", lines))

    def heading(row: tuple[int, Value]) -> str:
        return headings[max(at for at in headings if at < row[0])]

    for title, rows in groupby(found, key=heading):
        yield title, [value for _, value in rows]


def _leaves(node: yaml.MappingNode, prefix: str, lines: list[str]) -> Iterator[tuple[int, Value]]:
    for key, value in node.value:
        path, at = f"{prefix}{key.value}", key.start_mark.line
        text = _comment(lines, at)
        if text or not (isinstance(value, yaml.MappingNode) and value.value):
            if not text:
                raise LookupError(f"values.yaml: {path} has no comment")
            yield at, Value(path, yaml.SafeLoader("").construct_object(value, deep=True), text)
        else:
            yield from _leaves(value, f"{path}.", lines)


def _comment(lines: list[str], at: int) -> str:
    """Return the comment right above a line, without section headings."""
    words: list[str] = []
    while at and re.match(r" *# ", lines[at - 1]):
        at -= 1
        words.insert(0, lines[at].strip().removeprefix("# "))
    return " ".join(words)


def readme() -> str:
    """Return `README.md`."""
    rows = [BEGIN]
    for title, section in values():
        rows += [f"## {title}\n", "| value | default | meaning |", "|---|---|---|"]
        rows += [f"| `{one.path}` | {_shown(one.default)} | {_cell(one.text)} |" for one in section]
        rows.append("")
        if any(one.path == "compute.nodes" for one in section):
            rows += [DEFINITIONS, *definition_fields(), ""]
    return "\n".join(rows).rstrip() + "\n"


def definition_fields() -> Iterator[str]:
    """Yield a row for each field of `compute.nodes.NAME`, from its description in the schema."""
    text = (CHART / "values.schema.json").read_text(encoding="utf-8")
    for name, field in json.loads(text)["definitions"]["computeNode"]["properties"].items():
        if isinstance(field, dict):  # `true`: helm says what to use instead
            yield f"| `{name}` | {_cell(field['description'])} |"


def _shown(default: object) -> str:
    bare = isinstance(default, str) and default
    return f"`{default if bare else json.dumps(default, ensure_ascii=False)}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def scripts() -> Mapping[str, str]:
    """Return the scripts of the gate by name."""
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(SCRIPTS.glob("*.sh"))}


def made() -> Mapping[Path, str]:
    """Return every file that this tool makes, with its text."""
    return {
        CHART / "templates" / "_rules.tpl": rules(),
        CHART / "templates" / "_annotations.tpl": admission.annotations(),
        CHART / "values.schema.json": schema(),
        CHART / "README.md": readme(),
        **{CHART / "files" / name: text for name, text in scripts().items()},
    }


if __name__ == "__main__":
    for path, text in made().items():
        path.write_text(text, encoding="utf-8")
