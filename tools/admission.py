"""CEL of the admission policy, from the product's table of annotations: part of `tools.chart`.

The policy refuses at `kubectl apply` what sunk-sync would refuse later. It may accept more than
sunk-sync, never less: sunk-sync itself remains the judge.
"""

from collections.abc import Iterator

from sunk_sync.core.model.job_description import SETTINGS, Form, Setting
from sunk_sync.core.model.names import GANG, LWS_GROUP, POD_GROUP_LABELS, PREFIX
from sunk_sync.core.model.user_policy import NAMED, SWITCHED
from sunk_sync.core.translate import job_annotations
from sunk_sync.core.translate.job_annotations import (
    ID_MAX,
    NODES_BYTES_MAX,
    PATH_BYTES_MAX,
    PRIORITY_MAX,
    SHARING,
    TEXT_BYTES_MAX,
    TIMEOUT_MAX_MIN,
)

_PRINTABLE = r"{v}.matches(r'^[^\pC\p{{Zl}}\p{{Zp}}]*$')"
_TEXT = (
    r"{v}.matches(r'^([^\pC\p{{Zl}}\p{{Zp}}]|\n|\t)*$')"
    f" && bytes({{v}}).size() <= {TEXT_BYTES_MAX}"
)
_LINE = _PRINTABLE + f" && bytes({{v}}).size() <= {TEXT_BYTES_MAX}"
_NUMBER = "{v}.matches(r'^[0-9]{{1,12}}$') && int({v}) <= "
_DAYS = "[0-9]{{1,6}}-[0-9]{{1,2}}(:[0-9]{{1,2}}){{0,2}}"
_CLOCK = "[0-9]{{1,6}}(:[0-9]{{1,2}}){{2}}"
_UNITS = "([0-9]{{1,6}}d)?([0-9]{{1,6}}h)?([0-9]{{1,8}}m)?([0-9]{{1,9}}s)?"
_MINUTES = (
    f"{{v}}.lowerAscii().matches(r'^([0-9]{{{{1,12}}}}|{_DAYS}|{_CLOCK}|{_UNITS})$')"
    " && {v}.matches('[1-9]')"
    f" && (!{{v}}.matches('^[0-9]+$') || int({{v}}) <= {TIMEOUT_MAX_MIN})"
)
_RANGE = "[0-9]{{1,18}}(-[0-9]{{1,18}})?"
_BRACKETS = rf"\[{_RANGE}(,{_RANGE})*\]"
_NODES = (
    rf"{{v}}.matches(r'^[\s,]*([^\s\pC,\[\]]|{_BRACKETS})+([\s,]+([^\s\pC,\[\]]|{_BRACKETS})*)*$')"
    f" && bytes({{v}}).size() <= {NODES_BYTES_MAX}"
)

FORMS: dict[Form, tuple[str, str]] = {
    "comment": (_TEXT, "\0"),
    "directory": (
        "{v}.startsWith('/') && " + _PRINTABLE + f" && bytes({{v}}).size() <= {PATH_BYTES_MAX}",
        "home",
    ),
    "id": (f"{_NUMBER}{ID_MAX}", "alice"),
    "line": (_LINE, "\0"),
    "minutes": (_MINUTES, "soon"),
    "names": (f"!{{v}}.contains(' ') && {_LINE}", "a b"),
    "nodes": (_NODES, "n[1"),
    "priority": (f"{_NUMBER}{PRIORITY_MAX}", "high"),
    "sharing": (f"{{v}}.lowerAscii() in {[*SHARING]}", "maybe"),
}
"""Form → whether `{v}` has it, and a text without it: the product words the refusal of that."""
assert job_annotations.FORMS.keys() == FORMS.keys()


MADE = "{{/* Made by `python -m tools.chart` with tools/admission.py. Do not edit. */}}"


def annotations() -> str:
    """Return `_annotations.tpl`."""
    parts = {
        "variables": [*_variables(), *_gang()],
        "forms": _forms(),
        "rules": _rules(),
        "changed": [_changed()],
    }
    texts = [MADE]
    for name, lines in parts.items():
        body = "\n".join(lines)
        texts.append(f'{{{{- define "sunk-sync.annotations.{name}" -}}}}\n{body}\n{{{{- end }}}}')
    return "\n\n".join(texts) + "\n"


def variable(annotation: str) -> str:
    return "variables." + annotation.replace("-", "_")


def _variables() -> Iterator[str]:
    """Each annotation as the product reads it: trimmed, empty if it is absent."""
    for name in SETTINGS:
        key = f"'{PREFIX}{name}'"
        given = f"{key} in variables.annotations ? variables.annotations[{key}].trim() : ''"
        yield _variable(variable(name).partition(".")[2], given)


def _variable(name: str, expression: str) -> str:
    return f"- name: {name}\n  expression: >-\n    {expression}"


def _gang() -> Iterator[str]:
    """A member of a gang may leave settings to another, so what it does not set is not judged."""
    labels = " || ".join(
        f"'{label}' in variables.labels" for label in (*POD_GROUP_LABELS, LWS_GROUP)
    )
    yield _variable("is_gang", f"'{GANG}' in variables.annotations || {labels}")


def _validation(expression: str, message: str, *, key: str = "message") -> str:
    return f"- expression: >-\n    {expression}\n  {key}: >-\n    {message}"


def _forms() -> Iterator[str]:
    for name, setting in SETTINGS.items():
        expression, wrong = FORMS[setting.form]
        v = variable(name)
        yield _validation(f"{v} == '' || ({expression.format(v=v)})", _allowed(setting, wrong))


def _allowed(setting: Setting, wrong: str) -> str:
    """Return the product's own sentence, without the wrong value."""
    (problem,) = job_annotations.read_settings(((setting.annotation, wrong),)).problems
    name, _, rest = problem.partition(": '")
    allowed = rest.rpartition("': ")[2].partition(": ")[0]
    return f"{name}: {allowed}"


def _rules() -> Iterator[str]:
    """The rules of --user-policy, in the words of the product."""
    yield from _ids()
    for name, rule in NAMED.items():
        v, allowed = variable(name), f"variables.rules['{rule}']"
        own = f" || {v} in variables.rules['default-account']" if name == "account" else ""
        yield _refusal(
            f"{v} == '' || '*' in {allowed} || {v}.split(',').all(one, one in {allowed}){own}",
            f"use {name} ' + {v} + '",
            rule=rule,
        )
    priority, most = "variables.priority", "variables.rules['max-priority']"
    yield _refusal(
        f"!{_digits(priority)} || {most}.exists(most, int({priority}) <= int(most))",
        f"ask for priority ' + {priority} + '",
        rule="max-priority",
    )
    for name in SWITCHED:
        unset = "['', 'false']" if name == "exclusive" else "['']"
        yield _refusal(
            f"{variable(name)}.lowerAscii() in {unset} || 'true' in variables.rules['{name}']",
            f"use annotation {PREFIX}{name}",
            rule=name,
        )


def _ids() -> Iterator[str]:
    """A Pod that names no user may get that of another member of its gang, or of its Namespace."""
    own = "'true' in variables.rules['namespace-defaults']"
    left_open = f"(variables.is_gang || {own}) && variables.user_id == ''"
    user, group = "variables.user", "variables.group_id"
    same = f"{_digits(user)} && int({group}) == int({user})"
    default = f"{group} in variables.rules['default-group']"
    yield _refusal(
        f"{left_open} || !{_digits(user)} || {_is_in('users', user)}",
        f"run jobs as user ' + {user} + ' (annotation {PREFIX}user-id)",
        rule=f"' + (int({user}) == 0 ? 'root' : 'users') + '",
        allowed_by="users",
    )
    yield _refusal(
        f"{left_open} || {own} || !{_digits(group)} || ({same}) || {default}"
        f" || {_is_in('groups', group)}",
        f"run jobs as group ' + {group} + '",
        rule=f"' + (int({group}) == 0 ? 'root' : 'groups') + '",
        allowed_by="groups",
    )


def _digits(value: str) -> str:
    return f"{value}.matches(r'^[0-9]{{1,12}}$')"


def _is_in(rule: str, value: str) -> str:
    """Whether an id is in a list of ids, ranges and `*`, which does not contain 0."""
    first, last = "int(r.split('-')[0].trim())", "int(r.split('-')[1].trim())"
    in_range = f"{first} <= int({value}) && int({value}) <= {last}"
    one = f"r == '*' ? int({value}) > 0 : r.contains('-') ? {in_range} : int(r) == int({value})"
    return f"variables.rules['{rule}'].exists(r, {one})"


def _refusal(expression: str, text: str, *, rule: str, allowed_by: str = "") -> str:
    allowed = f"variables.rules['{allowed_by or rule}']"
    sentence = (
        f"'namespace ' + request.namespace + ' may not {text}: rule {rule} of ' + variables.row"
        f" + ' in --user-policy allows ' + ({allowed}.size() == 0 ? 'none' : {allowed}.join(', '))"
    )
    return _validation(expression, sentence, key="messageExpression")


def _changed() -> str:
    """Whether an update changes an annotation that is judged; sunk-sync itself sets others."""
    names = ", ".join(f"'{PREFIX}{name}'" for name in SETTINGS)
    return (
        f"[{names}].exists(a, (has(object.metadata.annotations) && a in object.metadata.annotations"
        " ? object.metadata.annotations[a] : '') != (has(oldObject.metadata.annotations)"
        " && a in oldObject.metadata.annotations ? oldObject.metadata.annotations[a] : ''))"
    )
