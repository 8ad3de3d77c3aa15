"""Good and bad Pods: the admission policy and sunk-sync must judge each alike."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from sunk_sync.core.model.names import PREFIX
from tests.chart.helm import Values

SCHEDULER = "slurm-slurm"
VALUES: Values = {
    "scheduler": {
        "scope": {"namespaces": "team-a, team-b, team-c, team-d, team-e"},
        "userPolicy": {
            "team-a": {
                "default-user": 1001,
                "default-group": 500,
                "default-account": "games",
                "users": [1002, "2000-2999"],
                "groups": "501, 600-700",
                "accounts": ["chess", "go"],
                "qos": "low, normal",
                "partitions": "*",
                "reservations": "theirs",
                "max-priority": 1000,
                "exclusive": True,
                "root": False,
            },
            "team-b": [1002, "3000000-3999999"],
            "team-c": {"users": "*", "max-priority": 4294967293, "required-nodes": True},
            "team-e": {"users": "5-9", "accounts": "games", "namespace-defaults": True},
            "*": {"root": True},
        },
    },
    "settings": {"slurm-kill-wait": "1m30s"},
}
"""team-d has no row of its own."""

ASKS = {"requests": {"cpu": "1", "memory": "1Gi"}}
CONTAINER: dict[str, Any] = {"name": "main", "image": "none", "resources": ASKS}


class Case(NamedTuple):
    """A Pod; `refused`: a part of the sentence of both judges, or empty."""

    annotations: dict[str, str]
    refused: str = ""
    namespace: str = "team-a"
    spec: Mapping[str, Any] = MappingProxyType({})
    owner: str = ""
    """Kind of its controller."""

    def manifest(self, name: str) -> dict[str, Any]:
        spec = {
            "schedulerName": SCHEDULER,
            "terminationGracePeriodSeconds": 5,
            "containers": [CONTAINER],
            **self.spec,
        }
        annotations = {PREFIX + key: value for key, value in self.annotations.items()}
        metadata: dict[str, Any] = {"name": name, "annotations": annotations}
        if self.owner:
            owner = {"apiVersion": "apps/v1", "kind": self.owner, "name": "theirs", "uid": "u1"}
            metadata["ownerReferences"] = [{**owner, "controller": True}]
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def containers(*requests: dict[str, str], init: tuple[dict[str, str], ...] = ()) -> dict[str, Any]:
    def made(name: str, asks: dict[str, str]) -> dict[str, Any]:
        return {"name": name, "image": "none", "resources": {"requests": asks}}

    spec = {"containers": [made(f"c{at}", one) for at, one in enumerate(requests)]}
    first = {"initContainers": [made(f"i{at}", one) for at, one in enumerate(init)]}
    return spec | (first if init else {})


def forms() -> dict[str, Case]:
    """Values of each form: what the product takes, and what it refuses."""
    good = {
        "comment": ("two\nlines\tand tabs", "ü" * 512),
        "constraints": ("a&b|c", "  x  "),
        "current-working-dir": ("/", " /home/a b "),
        "excluded-nodes": ("n1", "n[1-3,07],m2", "a, b", "r[1-2]n[01-03]-ib", "n1,,n2", ",n1,"),
        "exclusive": ("none", "OK", "user", "mcs", "topo", "true", "false", ""),
        "prefer": ("a",),
        "priority": ("0", "1000", "007"),
        "timeout": ("1", "90s", "2h", "1h30m", "02:30:00", "1-00:00:00", "1-12", "2D", "52560000"),
        "user-id": ("1001", "2000", " 2999 ", "", "01002"),
        "group-id": ("501", "500"),
        "account": ("games", "chess,go"),
        "partition": ("a,b",),
        "qos": ("low",),
        "reservation": ("theirs",),
    }
    bad = {
        "comment": ("a\x07b", "ü" * 513),
        "constraints": ("a\nb", "x" * 1025),
        "current-working-dir": ("home", "/a\tb"),
        "excluded-nodes": ("n[1-3", "n1]", "n[a]", "n[]", ",", "n[1-2]]", "a\x07"),
        "exclusive": ("yes", "shared"),
        "prefer": ("x\u2028y",),
        "priority": ("-1", "high", "1.5", "4294967294", "1234567890123"),
        "timeout": ("0", "soon", "0s", "-5", "52560001", "1:30", "1d1d", "5w"),
        "user-id": ("alice", "-1", "1e3", "2147483647", "1001 1002"),
        "group-id": ("games", "2147483647"),
        "account": ("a b",),
        "partition": ("a\nb",),
        "qos": ("low normal",),
        "reservation": ("x" * 1025,),
    }
    cases = {f"{key}={text[:20]!r}": Case({key: text}) for key in good for text in good[key]}
    for key, texts in bad.items():
        cases |= {
            f"{key}={text[:20]!r}": Case({key: text}, f"annotation {PREFIX}{key}: ")
            for text in texts
        }
    return cases


def rule(text: str, name: str) -> str:
    return f"{text}: rule {name} of team-a in --user-policy allows "


GANG = {"gang": "g", "gang-size": "2"}
OTHERS = {
    "no annotation": Case({}),
    "no annotation, root by the row of others": Case({}, namespace="team-d"),
    "no annotation, root not allowed": Case({}, "run jobs as user 0", "team-c"),
    "no annotation, other users": Case({}, "run jobs as user 0", "team-b"),
    "root": Case({"user-id": "0"}, "rule root of team-a"),
    "foreign user": Case({"user-id": "1003"}, "rule users of team-a"),
    "user beyond the range": Case({"user-id": "3000"}, "rule users of team-a"),
    "any user but root": Case({"user-id": "1"}, namespace="team-c"),
    "another user in the row of others": Case({"user-id": "5"}, "rule users of *", "team-d"),
    "large numbers in a range": Case({"user-id": "3000001"}, namespace="team-b"),
    "uids alone: any account, priority, nodes": Case(
        {
            "user-id": "1002", "account": "x", "qos": "y", "priority": "4294967293",
            "required-nodes": "n1", "exclusive": "none", "group-id": "0", "reservation": "z",
        },
        namespace="team-b",
    ),
    "uids alone: foreign user": Case({"user-id": "1"}, "run jobs as user 1 ", "team-b"),
    "group of the user's number": Case({"user-id": "2000", "group-id": "2000"}),
    "group of another number": Case({"user-id": "2000", "group-id": "2001"}, "rule groups"),
    "group of a range": Case({"group-id": "650"}),
    "group of root": Case({"group-id": "0"}, "rule root of team-a"),
    "foreign account": Case({"account": "chess,root"}, rule("account chess,root", "accounts")),
    "account in the row of others": Case({"account": "games"}, "rule accounts of *", "team-d"),
    "foreign QOS": Case({"qos": "high"}, rule("qos high", "qos")),
    "foreign reservation": Case({"reservation": "r"}, rule("reservation r", "reservations")),
    "partition in the row of others": Case({"partition": "p"}, "rule partitions of *", "team-d"),
    "priority too high": Case({"priority": "1001"}, rule("priority 1001", "max-priority")),
    "highest priority": Case({"user-id": "1", "priority": "4294967293"}, namespace="team-c"),
    "no priority allowed": Case({"priority": "0"}, "rule max-priority of *", "team-d"),
    "sharing not allowed": Case({"exclusive": "ok"}, "rule exclusive of *", "team-d"),
    "sharing not asked for": Case({"exclusive": "False"}, namespace="team-d"),
    "nodes not allowed": Case({"required-nodes": "n1"}, "rule required-nodes of team-a"),
    "nodes allowed": Case({"user-id": "1", "required-nodes": "n1"}, namespace="team-c"),
    "a member of a gang leaves its user to another": Case(GANG, namespace="team-d"),
    "a member of a gang with a foreign user": Case(GANG | {"user-id": "9"}, "rule users", "team-d"),
    "a user where the namespace names one": Case({"user-id": "5"}, namespace="team-e"),
    "a foreign user where the namespace names one": Case(
        {"user-id": "4"}, "rule users of team-e", "team-e"
    ),
    "a foreign account where the namespace names one": Case(
        {"user-id": "5", "account": "chess"}, "rule accounts of team-e", "team-e"
    ),
    "no requests": Case({}, "requests must be above 0", spec=containers({})),
    "no memory": Case({}, "requests must be above 0", spec=containers({"cpu": "1"})),
    "no CPU": Case({}, "requests must be above 0", spec=containers({"memory": "1Gi"})),
    "zero CPU": Case({}, "requests must be above 0", spec=containers({"cpu": "0", "memory": "1"})),
    "requests of two containers": Case({}, spec=containers({"cpu": "100m"}, {"memory": "1Mi"})),
    "requests of an init container": Case(
        {}, spec=containers({"memory": "1Mi"}, init=({"cpu": "1"},))
    ),
    "requests of the Pod": Case({}, spec={**containers({}), "resources": ASKS}),
    "many nodes": Case({"excluded-nodes": ",".join(f"n{at}" for at in range(10_000))}),
    "limits alone": Case(
        {},
        spec={
            "containers": [CONTAINER | {"resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}]
        },
    ),
    "grace just short enough": Case({}, spec={"terminationGracePeriodSeconds": 84}),
    "grace too long": Case(
        {},
        "terminationGracePeriodSeconds",
        spec={"terminationGracePeriodSeconds": 85},
    ),
    "resource claims": Case(
        {},
        "resourceClaims are not supported",
        spec={"resourceClaims": [{"name": "c", "resourceClaimTemplateName": "t"}]},
    ),
    "of a DaemonSet": Case({}, "a Pod of a DaemonSet gets no Slurm job", owner="DaemonSet"),
    "of a StatefulSet": Case({}, owner="StatefulSet"),
}  # fmt: skip
CASES = forms() | OTHERS
