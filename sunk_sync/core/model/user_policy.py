"""What the Pods of each namespace may ask of Slurm: the rules of --user-policy (P5).

Jobs are submitted with the token of root or SlurmUser, so Slurm itself refuses few of them.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from msgspec import Struct

from sunk_sync.core.model.names import PREFIX

Range = tuple[int, int]
"""The first and the last of some uids or gids."""
Ranges = tuple[Range, ...]
Names = tuple[str, ...] | None
"""None: any name."""

OTHERS: Final = "*"
"""The row of all namespaces that have none of their own."""
NAMES_SHOWN: Final = 5


class Rules(Struct, frozen=True, kw_only=True, gc=False):
    """One namespace's rules. Nothing that they do not name is allowed."""

    users: Ranges = ()
    groups: Ranges = ()
    accounts: Names = ()
    qos: Names = ()
    partitions: Names = ()
    reservations: Names = ()
    priority_max: int = -1
    """-1: no priority may be asked for."""
    exclusive: bool = False
    required_nodes: bool = False
    default_user: int = 0
    default_group: int | None = None
    """None: the group with the number of the user."""
    default_account: str = ""
    """Empty: Slurm's default account of the user."""
    namespace_defaults: bool = False
    """Annotations of the Namespace may name other defaults, of those that the rules allow."""
    is_first_form: bool = False
    """The file names only uids for the namespace, and restricts nothing else."""


class NamespaceDefaults(Struct, frozen=True, gc=False):
    """Annotations of a Namespace as written; empty: absent."""

    user: str = ""
    group: str = ""
    account: str = ""


NO_DEFAULTS: Final = NamespaceDefaults()


class Namespace(Struct, frozen=True, gc=False):
    """A namespace, the defaults that it names (P5), and its labels. Source: watch of Namespaces."""

    name: str
    uid: str
    defaults: NamespaceDefaults = NO_DEFAULTS
    labels: tuple[tuple[str, str], ...] = ()
    """All of them, sorted."""


class UserPolicy(Struct, frozen=True, gc=False, cache_hash=True):
    namespaces: tuple[tuple[str, Rules], ...] = ()
    """Each namespace, or `*`, and its rules; sorted."""


Asked = Mapping[str, str | int]
"""Annotations without prefix, and their values as JobDescription has them."""
Problem = tuple[str, str]
"""The annotation that is not allowed, and a sentence with the rule."""

NAMED: Final = {
    "account": "accounts",
    "partition": "partitions",
    "qos": "qos",
    "reservation": "reservations",
}
"""Annotation with names → its rule."""
SWITCHED: Final = {"exclusive": "exclusive", "required-nodes": "required_nodes"}


def problems_of(policy: UserPolicy, asked: Asked, *, namespace: str) -> list[Problem]:
    """Return what the policy refuses of a request from this namespace."""
    row, rules = row_of(policy, namespace)
    if rules is None:
        return [("", f"--user-policy has neither a row for namespace {namespace} nor a row *")]
    return [
        (one.annotation, f"namespace {namespace} may not {one.text}: {_rule(one, row)}")
        for one in _refusals(rules, asked)
    ]


def rule_against(rules: Rules, asked: Asked, *, annotation: str, row: str) -> str:
    """Return the rule of this row that refuses the value of the annotation, or an empty text."""
    refusals = _refusals(rules, asked)
    return next((_rule(one, row) for one in refusals if one.annotation == annotation), "")


def _refusals(rules: Rules, asked: Asked) -> "Iterator[_Refused]":
    yield from _of_ids(rules, asked)
    yield from _of_names(rules, asked)
    yield from _of_limits(rules, asked)


def _rule(refused: "_Refused", row: str) -> str:
    return f"rule {refused.rule} of {row} in --user-policy allows {refused.allowed}"


def takes_defaults(policy: UserPolicy, namespace: str) -> bool:
    """Whether annotations of this Namespace name defaults of its Pods."""
    _, rules = row_of(policy, namespace)
    return rules is not None and rules.namespace_defaults


def with_defaults(policy: UserPolicy, asked: Asked, *, namespace: str) -> Asked:
    """Add the user, group and account that the policy gives to jobs that name none."""
    _, rules = row_of(policy, namespace)
    if rules is None:
        return asked
    defaults: dict[str, str | int] = {}
    if rules.default_user:
        defaults["user-id"] = rules.default_user
    if rules.default_group is not None:
        defaults["group-id"] = rules.default_group
    if rules.default_account:
        defaults["account"] = rules.default_account
    return {**defaults, **asked}


def row_of(policy: UserPolicy, namespace: str) -> tuple[str, Rules | None]:
    rows = _by_namespace(policy)
    row = namespace if namespace in rows else OTHERS
    return row, rows.get(row)


@lru_cache(maxsize=4)
def _by_namespace(policy: UserPolicy) -> Mapping[str, Rules]:
    return dict(policy.namespaces)


class _Refused(NamedTuple):
    annotation: str
    text: str
    rule: str
    allowed: str


def _of_ids(rules: Rules, asked: Asked) -> Iterator[_Refused]:
    """Check the user even if no annotation sets it. Its number is also its default group."""
    user = int(asked.get("user-id", rules.default_user))
    if not _is_in(rules.users, user):
        text = f"run jobs as user {user} (annotation {PREFIX}user-id)"
        yield _Refused("user-id", text, _rule_of_id(rules, "users", user), _ranges(rules.users))
    group = int(asked.get("group-id", user))
    if group not in (user, rules.default_group) and not _is_in(rules.groups, group):
        text = f"run jobs as group {group}"
        yield _Refused("group-id", text, _rule_of_id(rules, "groups", group), _ranges(rules.groups))


def _rule_of_id(rules: Rules, rule: str, number: int) -> str:
    return rule if number or rules.is_first_form else "root"


def _of_names(rules: Rules, asked: Asked) -> Iterator[_Refused]:
    """Check each name: Slurm takes lists of partitions and of reservations."""
    for name, rule in NAMED.items():
        allowed: Names = getattr(rules, rule)
        text = str(asked.get(name, ""))
        if not text or allowed is None or {*text.split(",")} <= {*allowed}:
            continue
        if name != "account" or text != rules.default_account:
            yield _Refused(name, f"use {name} {_cut(text)}", rule, _listed(allowed))


def _of_limits(rules: Rules, asked: Asked) -> Iterator[_Refused]:
    priority = asked.get("priority")
    if priority is not None and int(priority) > rules.priority_max:
        most = f"at most {rules.priority_max}" if rules.priority_max >= 0 else "none"
        yield _Refused("priority", f"ask for priority {priority}", "max-priority", most)
    for name, field in SWITCHED.items():
        if asked.get(name) and not getattr(rules, field):
            yield _Refused(name, f"use annotation {PREFIX}{name}", name, "none")


def _is_in(ranges: Ranges, number: int) -> bool:
    return any(first <= number <= last for first, last in ranges)


def _ranges(ranges: Ranges) -> str:
    one = [str(first) if first == last else f"{first}-{last}" for first, last in ranges]
    return _listed(one)


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:NAMES_SHOWN])
    more = len(names) - NAMES_SHOWN
    return (f"{shown} and {more} more" if more > 0 else shown) or "none"


def _cut(text: str) -> str:
    return text if len(text) <= 60 else text[:60] + "…"


class PolicyRead(Struct, frozen=True, gc=False):
    """The file of --user-policy has another content, and all of it is valid (P5)."""

    policy: UserPolicy
