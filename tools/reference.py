"""Generator of the tables of docs/reference.md: `python -m tools.reference`."""

import re
from collections.abc import Callable, Iterable
from pathlib import Path

from sunk_sync.cli.flags import ABOUT, About
from sunk_sync.core.model.condition_kinds import CONDITIONS, ConditionKind, Meaning
from sunk_sync.core.model.event_kinds import EVENTS
from sunk_sync.core.model.job_description import SETTINGS, Form
from sunk_sync.kube.rbac import ALL_PODS, LOCKED_PODS, PERMISSIONS
from sunk_sync.settings.model import flag_of, key_of, variable_of
from sunk_sync.telemetry.log_events import LOG_EVENTS, LogEvent
from sunk_sync.telemetry.metrics import SPECS
from tests.real.permissions.claims import LOCKED, WITHOUT

FILE = Path(__file__).parent.parent / "docs" / "reference.md"


def settings() -> Iterable[str]:
    groups = dict.fromkeys(about.group for about in ABOUT)
    for group in groups:
        yield f"### {group}\n"
        yield "| flag, variable, file key | default | meaning |"
        yield "|---|---|---|"
        yield from (_setting(about) for about in ABOUT if about.group == group)
        yield ""


def _setting(about: About) -> str:
    field = about.field
    names = f"`{flag_of(field)}` `{variable_of(field)}` `{key_of(field)}`"
    return f"| {names} | {_cell(about.default)} | {_cell(about.text)} |"


def metrics() -> Iterable[str]:
    yield "| metric | kind | labels | meaning |"
    yield "|---|---|---|---|"
    for spec in SPECS:
        labels = ", ".join(f"`{label}`" for label in spec.labels)
        yield f"| `{spec.name}` | {spec.kind} | {labels} | {_cell(spec.text)} |"


def events() -> Iterable[str]:
    yield "| reason, and what to do | type | object | action | repeats when | meaning |"
    yield "|---|---|---|---|---|---|"
    for one in EVENTS:
        reason = cure(one.reason, one.reason.lower())
        yield (
            f"| {reason} | {one.type} | {one.on} | {one.action} | {_cell(one.repeats)}"
            f" | {_cell(one.text)} |"
        )


def conditions() -> Iterable[str]:
    yield "| condition | on | status | reason, and what to do | meaning |"
    yield "|---|---|---|---|---|"
    for kind in CONDITIONS:
        yield from (_condition(kind, one) for one in kind.meanings)


def _condition(kind: ConditionKind, one: Meaning) -> str:
    name = f"{kind.type}…" if kind.family else kind.type
    reason = cure(one.reason, one.reason.lower())
    return f"| `{name}` | {kind.on} | {one.status} | {reason} | {_cell(one.text)} |"


def log_events() -> Iterable[str]:
    yield "| `event` | level | fields | meaning |"
    yield "|---|---|---|---|"
    for one in LOG_EVENTS:
        fields = ", ".join("…" if field == "…" else f"`{field}`" for field in one.fields)
        name = cure(one.name, log_anchor(one.name)) if is_loud(one) else f"`{one.name}`"
        yield f"| {name} | {', '.join(one.levels)} | {fields} | {_cell(one.text)} |"


def is_loud(one: LogEvent) -> bool:
    """Whether it can be a warning or an error: then docs/troubleshooting.md has an entry."""
    return not {"warning", "error"}.isdisjoint(one.levels)


def log_anchor(name: str) -> str:
    """Return the anchor of a log event in docs/troubleshooting.md."""
    return "log-" + re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def cure(name: str, anchor: str) -> str:
    return f"[`{name}`](troubleshooting.md#{anchor})"


VALUES: dict[Form, str] = {
    "comment": "text, at most 1,024 bytes",
    "directory": "absolute path",
    "id": "0 … 2147483646",
    "line": "features, in sbatch's syntax",
    "minutes": "minutes, or `90s`, `2h`, `1h30m`, `02:30:00`, `1-00:00:00`; rounded up to minutes",
    "names": "name, or several with commas",
    "nodes": "Slurm nodes with commas, or a hostlist: `n[1-3,7]`",
    "priority": "0 … 4294967293; 0 holds the job",
    "sharing": "`none`, `ok`, `user`, `mcs`, `topo` (see below)",
}
UPDATES = {
    "yes": "the job is updated",
    "value": "the job is updated; where the annotation is removed or added, replaced",
    "no": "the job is replaced",
}


def annotations() -> Iterable[str]:
    yield "| annotation | value | in Slurm | edited while the job waits |"
    yield "|---|---|---|---|"
    for one in SETTINGS.values():
        value, update = VALUES[one.form], UPDATES[one.update]
        yield f"| `{one.annotation}` | {value} | `{one.rest}` | {update} |"


def permissions() -> Iterable[str]:
    yield "| where | resource | verb | why | fails without it |"
    yield "|---|---|---|---|---|"
    for one in (*PERMISSIONS, ALL_PODS):
        for verb, why in one.verbs:
            claim = WITHOUT[one.where, one.spelled, verb]
            yield f"| {one.where} | `{one.spelled}` | {verb} | {_cell(why)} | {claim} |"
    for verb, why in LOCKED_PODS.verbs:
        yield f"| cluster | `pods` | {verb} | {_cell(why)} | {LOCKED} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


TABLES: dict[str, Callable[[], Iterable[str]]] = {
    "settings": settings,
    "metrics": metrics,
    "log events": log_events,
    "Events": events,
    "conditions": conditions,
    "annotations": annotations,
    "permissions": permissions,
}


def renewed() -> str:
    """Return the page with new tables."""
    text = FILE.read_text(encoding="utf-8")
    for name, rows in TABLES.items():
        table = "\n".join(rows()).strip()
        begin, end = f"<!-- {name}: made by tools/reference.py -->", f"<!-- end of {name} -->"
        pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
        fresh = f"{begin}\n\n{table}\n\n{end}"
        text, found = pattern.subn(lambda _: fresh, text)  # noqa: B023 (used at once)
        if found != 1:
            raise LookupError(f"{FILE.name} has no place for {name}")
    return text


if __name__ == "__main__":
    FILE.write_text(renewed(), encoding="utf-8")
