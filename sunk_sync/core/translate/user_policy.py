"""The file of --user-policy: what the Pods of each namespace may ask of Slurm (P5).

```yaml
team-a:
  default-user: 1001
  default-account: games
  users: [1002, 2000-2999]
  qos: [low, normal]
  max-priority: 1000
team-b: 1001
"*": {root: true}
```
`*` as a namespace means all others. Rules allow nothing that they do not name. A namespace with
uids alone is of the first form of this file: it restricts only the users.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from sunk_sync.core.model.names import PREFIX
from sunk_sync.core.model.user_policy import (
    NO_DEFAULTS,
    OTHERS,
    Names,
    NamespaceDefaults,
    Problem,
    Ranges,
    Rules,
    UserPolicy,
    row_of,
    rule_against,
)
from sunk_sync.core.translate.job_annotations import ID_MAX, PRIORITY_MAX, quoted
from sunk_sync.core.translate.kube_forms import is_namespace

Row = tuple[str, object, int]
"""Key, value and line. A value is a text, a list of texts, a tuple of rows, or None."""

ROOT: Final[Ranges] = ((0, 0),)

_ids = re.compile(r"(\d{1,10})(?:\s*-\s*(\d{1,10}))?", re.ASCII).fullmatch
_IDS: Final = "numbers above 0 such as 1001, [1001, 2000-2999] or '*'; `root: true` allows 0"
_NUMBER: Final = "a number from 1 to 2147483646; `root: true` allows 0"
_NAMES: Final = "names such as games, [games, chess] or '*'"


def user_policy_of(rows: Iterable[Row]) -> UserPolicy:
    """Build the policy from rows (namespace, rules, line). ValueError: each problem is a line."""
    problems: list[str] = []
    table: dict[str, Rules] = {}
    for namespace, value, line in rows:
        if namespace != OTHERS and not is_namespace(namespace):
            problems.append(f"line {line}: {namespace[:70]!r} is no name of a namespace, nor '*'")
        elif namespace in table:
            problems.append(f"line {line}: namespace {namespace} is listed twice")
        rules, wrong = _rules(value, line)
        table[namespace] = rules
        problems += wrong
    if problems:
        raise ValueError("\n".join(problems))
    if not table:
        raise ValueError("must be a mapping: `namespace: {rules}` on each line")
    return UserPolicy(tuple(sorted(table.items(), key=lambda row: row[0])))


def restricted_in_users_alone(policy: UserPolicy) -> list[str]:
    """Return the namespaces in the first form of the file."""
    return [name for name, rules in policy.namespaces if rules.is_first_form]


def with_namespace_defaults(
    policy: UserPolicy, own: NamespaceDefaults, *, namespace: str
) -> tuple[UserPolicy, list[Problem]]:
    """Return the policy with the defaults that annotations of the Namespace name.

    The rules must allow them. A wrong one concerns only jobs that name no value of their own.
    """
    row, rules = row_of(policy, namespace)
    if rules is None or not rules.namespace_defaults or own == NO_DEFAULTS:
        return policy, []
    fields: dict[str, Any] = {}
    problems: list[Problem] = []
    for one in _DEFAULTS:
        text = getattr(own, one.own)
        user = fields.get("default_user", rules.default_user)
        try:
            value = _default(one, text, rules=rules, row=row, user=user) if text else None
        except ValueError as error:
            where = f"annotation {PREFIX}{one.rule} of Namespace {namespace}"
            problems.append((one.annotation, f"{where} is {quoted(text)}: {error}"))
        else:
            fields |= {_RULES[one.rule].field: value} if text else {}
    return UserPolicy(((row, replace(rules, **fields)),)), problems


def _default(one: "_Default", text: str, *, rules: Rules, row: str, user: int) -> object:
    """Read a default, and ask the rules as if a Pod had named it. ValueError says what is wrong."""
    rule = _RULES[one.rule]
    try:
        value: Any = rule.read(text)
    except ValueError:
        raise ValueError(f"allowed is {rule.allowed}") from None
    asked = {"user-id": user, one.annotation: value}
    against = rule_against(rules, asked, annotation=one.annotation, row=row)
    if against:
        raise ValueError(against)
    return value


def _rules(value: object, line: int) -> tuple[Rules, list[str]]:
    if isinstance(value, tuple):
        return _named_rules(value)
    try:
        return _first_form(value), []
    except ValueError:
        forms = "{users: [1001, 2000-2999], accounts: games}"
        uids = "uids alone such as 1001, [1001, 2000-2999] or '*'"
        return Rules(), [f"line {line}: allowed are rules such as {forms}, or {uids}"]


def _first_form(uids: object) -> Rules:
    users = _ranges(uids, least=0)
    if not users:
        raise ValueError
    return Rules(
        users=users,
        groups=((0, ID_MAX),),
        accounts=None,
        qos=None,
        partitions=None,
        reservations=None,
        priority_max=PRIORITY_MAX,
        exclusive=True,
        required_nodes=True,
        is_first_form=True,
    )


def _named_rules(rows: tuple[Row, ...]) -> tuple[Rules, list[str]]:
    problems: list[str] = []
    fields: dict[str, Any] = {}
    for key, value, line in rows:
        rule = _RULES.get(key)
        if rule is None:
            known = ", ".join(_RULES)
            problems.append(f"line {line}: {key[:70]!r} is no rule; the rules are {known}")
        elif rule.field in fields:
            problems.append(f"line {line}: rule {key} is set twice")
        else:
            try:
                fields[rule.field] = rule.read(value)
            except ValueError:
                fields[rule.field] = None
                problems.append(f"line {line}: rule {key}: allowed is {rule.allowed}")
    return (Rules(), problems) if problems else (_combined(fields), [])


def _combined(fields: dict[str, Any]) -> Rules:
    """The default user is allowed; `root` allows user and group 0."""
    root = ROOT if fields.pop("root", False) else ()
    default = fields.get("default_user", 0)
    own = ((default, default),) if default else ()
    users = (*root, *own, *fields.pop("users", ()))
    return Rules(users=users, groups=(*root, *fields.pop("groups", ())), **fields)


def _ranges(value: object, *, least: int = 1) -> Ranges:
    return tuple(sorted(_range(word, least=least) for word in _words(value)))


def _range(word: str, *, least: int) -> tuple[int, int]:
    if word == "*":
        return (least, ID_MAX)
    match = _ids(word)
    if match is None:
        raise ValueError
    first, last = int(match.group(1)), int(match.group(2) or match.group(1))
    if not least <= first <= last <= ID_MAX:
        raise ValueError
    return first, last


def _names(value: object) -> Names:
    words = _words(value)
    if words == ["*"]:
        return None
    if not all(word and word.isprintable() and not {" ", "*"} & {*word} for word in words):
        raise ValueError
    return tuple(sorted(set(words)))


def _name(value: object) -> str:
    names = _names(value)
    if names is None or len(names) != 1:
        raise ValueError
    return names[0]


def _words(value: object) -> list[str]:
    """Return the words of a comma list or of a list of texts."""
    if not isinstance(value, str | list):
        raise ValueError
    parts = value if isinstance(value, list) else [value]
    return [word.strip() for part in parts for word in str(part).split(",")]


def _id(value: object) -> int:
    first, last = _range(str(value), least=1)
    if first != last:
        raise ValueError
    return first


def _priority(value: object) -> int:
    word = str(value)
    if not (word.isascii() and word.isdigit() and len(word) <= 10 and int(word) <= PRIORITY_MAX):
        raise ValueError
    return int(word)


def _switch(value: object) -> bool:
    if value not in ("true", "false"):
        raise ValueError
    return value == "true"


class _Default(NamedTuple):
    """A default that a Namespace may name by an annotation with the name of the rule."""

    own: str
    """Field of NamespaceDefaults."""
    rule: str
    annotation: str
    """The annotation of a Pod that it is the default of."""


_DEFAULTS: Final = (
    _Default("user", "default-user", "user-id"),
    _Default("group", "default-group", "group-id"),
    _Default("account", "default-account", "account"),
)


class _Rule(NamedTuple):
    field: str
    """Field of Rules, or `root`."""
    read: Callable[[object], object]
    allowed: str


_RULES: Final = {
    "default-user": _Rule("default_user", _id, _NUMBER),
    "default-group": _Rule("default_group", _id, _NUMBER),
    "default-account": _Rule("default_account", _name, "one name"),
    "namespace-defaults": _Rule("namespace_defaults", _switch, "true or false"),
    "users": _Rule("users", _ranges, _IDS),
    "groups": _Rule("groups", _ranges, _IDS),
    "root": _Rule("root", _switch, "true or false"),
    "accounts": _Rule("accounts", _names, _NAMES),
    "qos": _Rule("qos", _names, _NAMES),
    "partitions": _Rule("partitions", _names, _NAMES),
    "reservations": _Rule("reservations", _names, _NAMES),
    "max-priority": _Rule("priority_max", _priority, f"a number from 0 to {PRIORITY_MAX}"),
    "exclusive": _Rule("exclusive", _switch, "true or false"),
    "required-nodes": _Rule("required_nodes", _switch, "true or false"),
}
