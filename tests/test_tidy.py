"""Rules of this repository, checked in its source: sizes, names, imports, one owner per field."""

import ast
import gc
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import get_args

from sunk_sync.core.decide import (
    CLUSTER_RULES,
    HOST_RULES,
    NODE_SET_RULES,
    RIVAL_RULES,
    WORKLOAD_RULES,
)
from sunk_sync.core.model import actions, names
from sunk_sync.core.model.event_kinds import EVENTS

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "sunk_sync"
SOURCES = sorted(PACKAGE.rglob("*.py"))
CORE = sorted((PACKAGE / "core").rglob("*.py"))
RULES = sorted(
    path for path in (PACKAGE / "core" / "rules").rglob("*.py") if path.stem != "__init__"
)
Function = ast.FunctionDef | ast.AsyncFunctionDef

MUTABLE = {"entry", "standing", "period", "table"}
"""Rows that the core keeps and changes."""

FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 40
PARAMETERS_MAX = 5
POSITIONAL_MAX = 2

RULE_SHAPE = "(host or workload, configuration, now): the shape of every rule"
JOURNAL = "calls of the journal, always with variables in the same order"
MORE_POSITIONAL = {
    "core/decide.py::decide": RULE_SHAPE,
    "core/rules/host/drain.py::drain": RULE_SHAPE,
    **{f"core/rules/workload/{name}.py::{name}": RULE_SHAPE for name in WORKLOAD_RULES},
    "core/rules/cluster/relist.py::relist": RULE_SHAPE,
    **{
        f"core/rules/host/{name}.py::{name}": RULE_SHAPE
        for name in ("enrol", "forget", "gate", "lock", "requeue")
    },
    **{
        f"core/rules/node_set/{name}.py::{name}": RULE_SHAPE
        for name in ("populate", "condemn", "reserve", "tally", "tell")
    },
    "core/policy.py::screen": "(graph, key, verdict) belong together; `now` is keyword-only",
    **{
        f"{file}.py::{name}": JOURNAL
        for file in ("controller/loop", "telemetry/telemetry")
        for name in ("stepped", "wrote", "kept", "rule_failed", "surprise")
    },
    "slurm/api/client.py::read_records": "(call, name of the list, callback)",
    "settings/sources.py::load": "(flags, environment, file): in order of precedence",
    "cli/doctor.py::examine_kubernetes": "(findings, settings, client)",
    "core/translate/counted.py::counted": "(number, one, many): read as a sentence",
    "cli/findings.py::warn": "(topic, text, cure): the columns of a line",
    "cli/findings.py::fail": "(topic, text, cure): the columns of a line",
    "cli/findings.py::blind": "(topic, text, cure): the columns of a line",
    "server/metrics_server.py::heartbeat": "(name, age, limit)",
    "kube/write/apply.py::object_path": "(kind, namespace, name): as Kubernetes spells it",
}
"""Public functions with more than two positional parameters, and the reason."""

BANNED = {"manager", "helper", "helpers", "util", "utils", "handler", "processor", "data", "info"}


def short(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


@cache
def tree(path: Path) -> ast.Module:
    """Parse the source. In Python 3.11 a garbage collection meanwhile can raise SystemError."""
    gc.disable()
    try:
        return ast.parse(path.read_text())
    finally:
        gc.enable()


def functions(path: Path) -> Iterator[Function]:
    return (node for node in ast.walk(tree(path)) if isinstance(node, Function))


def length(function: Function) -> int:
    """Count the lines of a function without its docstring."""
    assert function.end_lineno is not None
    first = function.body[0]
    documented = ast.get_docstring(function) is not None
    docstring = (first.end_lineno or first.lineno) - first.lineno + 1 if documented else 0
    return function.end_lineno - function.lineno + 1 - docstring


def positional(function: Function) -> list[str]:
    every = [*function.args.posonlyargs, *function.args.args]
    return [one.arg for one in every if one.arg not in ("self", "cls")]


def strings(path: Path) -> Iterator[str]:
    """Yield the string literals that are no docstrings."""
    for node in ast.walk(tree(path)):
        children = list(ast.iter_child_nodes(node))
        bare = [child.value for child in children if isinstance(child, ast.Expr)]
        docstrings = {id(value) for value in bare if isinstance(value, ast.Constant)}
        for child in children:
            if isinstance(node, ast.Expr) or id(child) in docstrings:
                continue
            if isinstance(child, ast.Constant) and isinstance(child.value, str):
                yield child.value


def lines_of(path: Path) -> int:
    """Count the lines of a file without its imports."""
    imports = [node for node in tree(path).body if isinstance(node, ast.Import | ast.ImportFrom)]
    imported = sum((node.end_lineno or node.lineno) - node.lineno + 1 for node in imports)
    return len(path.read_text().splitlines()) - imported


@cache
def named_functions() -> list[tuple[str, Function]]:
    return [(f"{short(path)}::{one.name}", one) for path in SOURCES for one in functions(path)]


def test_files_stay_small() -> None:
    assert not [short(path) for path in SOURCES if lines_of(path) > FILE_LINES_MAX]


def test_functions_stay_small_and_have_few_parameters() -> None:
    every = named_functions()
    assert not [name for name, one in every if length(one) > FUNCTION_LINES_MAX]
    many = [
        name
        for name, one in every
        if len(positional(one)) + len(one.args.kwonlyargs) > PARAMETERS_MAX
    ]
    assert not many


def test_parameters_beyond_two_are_named_in_the_call_with_no_needless_exception() -> None:
    public = [(name, one) for name, one in named_functions() if not one.name.startswith("_")]
    found = {name for name, one in public if len(positional(one)) > POSITIONAL_MAX}
    assert found == MORE_POSITIONAL.keys()


def words_of(name: str) -> set[str]:
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return {word.lower() for word in spaced.split("_")}


def test_no_name_has_a_banned_word() -> None:
    classes = [
        (short(path), node.name)
        for path in SOURCES
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ClassDef)
    ]
    found = [*((short(path), path.stem) for path in SOURCES), *classes]
    assert not [(path, name) for path, name in found if words_of(name) & BANNED]


KINDS = {"kind", "phase", "status", "found", "outcome", "verdict"}


def test_no_kind_in_the_core_is_a_bare_string() -> None:
    """A misspelt word in a comparison must not pass the check of types."""
    bare = [
        (short(path), one.name, field.target.id)
        for path in CORE
        for one in ast.walk(tree(path))
        if isinstance(one, ast.ClassDef)
        for field in one.body
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if field.target.id in KINDS and ast.unparse(field.annotation).partition(" ")[0] == "str"
    ]
    assert not bare


EMBEDDED = sorted((PACKAGE / "embedded").rglob("*.py"))
EMBEDDED_MAY_IMPORT = ("sunk_sync.embedded", "sunk_sync.core.translate")


def test_the_embedded_clusters_import_only_the_translation_tables() -> None:
    """Their answers must not depend on the code that is tested against them."""
    modules = [
        (short(path), node.module or "")
        for path in EMBEDDED
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ImportFrom)
    ]
    ours = [one for one in modules if one[1].startswith("sunk_sync")]
    assert not [one for one in ours if not one[1].startswith(EMBEDDED_MAY_IMPORT)]


def test_no_function_of_the_core_changes_its_arguments() -> None:
    """An object changes its own fields; tables and the reconciler keep rows that change."""
    written = [
        (short(path), ast.unparse(node))
        for path in CORE
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load)
    ]
    mine = {"self", *MUTABLE}
    assert not [(path, name) for path, name in written if name.partition(".")[0] not in mine]
    assert not [short(path) for path in CORE if "setattr" in path.read_text()]


def test_the_prefix_of_annotations_is_one_constant() -> None:
    prefix = names.PREFIX.rstrip("/")
    found = [short(path) for path in SOURCES if any(prefix in text for text in strings(path))]
    assert found == ["core/model/names.py"]


def test_every_rule_runs_once_and_is_in_the_docs() -> None:
    page = (ROOT / "docs" / "development" / "rules.md").read_text()
    listed = set(re.findall(r"^\| `(\w+)` \|", page, re.M))
    run = [*HOST_RULES, *RIVAL_RULES, *CLUSTER_RULES, *WORKLOAD_RULES, *NODE_SET_RULES]
    assert listed == {path.stem for path in RULES} == set(run)
    assert {name for name in run if run.count(name) > 1} == {"gate", "lock"}, "of rivals too"


ACTIONS = {one.__name__ for one in get_args(actions.Action)}
ASKS = {kind.__name__ for kind, traits in actions.TRAITS.items() if traits.reads}
"""Reads have no owner."""


def owners() -> dict[str, set[str]]:
    """Return the rules that make each action, with its manager or Event if several rules do."""
    made: defaultdict[str, set[str]] = defaultdict(set)
    for path in RULES:
        for node in ast.walk(tree(path)):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                continue
            if node.func.id not in ACTIONS:
                continue
            reported = [one.id for one in node.args if isinstance(one, ast.Name)]
            for mark in events(path) if node.func.id == "RecordEvent" else [None]:
                managers = [one for one in reported if one.startswith("MANAGER_")]
                made[" ".join([node.func.id, *([mark] if mark else managers)])].add(path.stem)
    return dict(made)


def events(path: Path) -> set[str]:
    """Return the reasons of Events in the file of a rule."""
    named = (one.id for one in ast.walk(tree(path)) if isinstance(one, ast.Name))
    return {name for name in named if name.startswith("EVENT_")}


def test_every_action_has_one_rule_and_metadata_one_for_each_manager() -> None:
    """`mirror` or `conflict` set those of a slurmd Pod, `outgrow` those of a workload Pod."""
    made = {name: rules for name, rules in owners().items() if name not in ASKS}
    assert made.pop("SetConditions") == {"mirror", "conflict", "outgrow"}
    assert HOST_RULES.keys() & RIVAL_RULES.keys() == {"gate", "lock"}
    assert all(len(rules) == 1 for rules in made.values()), made
    assert not {"SetMetadata", "RecordEvent"} & made.keys(), "without a manager or a reason"


def test_some_rule_makes_every_action() -> None:
    assert {name.partition(" ")[0] for name in owners()} == ACTIONS


def test_every_action_has_target_queue_and_urgency() -> None:
    assert set(actions.TRAITS) == set(get_args(actions.Action))


def test_managers_and_event_reasons_have_different_values() -> None:
    """Two owners with one name would remove each other's fields."""
    managers = [value for name, value in vars(names).items() if name.startswith("MANAGER_")]
    for values in (managers, [event.reason for event in EVENTS]):
        assert len(values) == len(set(values))


PLURALS = (
    "Pods|Nodes|nodes|hosts|jobs|writes|rows|records|keys|CPUs|GPUs|times|fields|checks|drains"
    "|weights|reasons|differences|objects|namespaces|findings"
)
PLURAL_BEHIND = re.compile(
    rf" (?:of the |of |slurmd |Slurm |live |more |such |new )?(?:{PLURALS})\b(?!=)"
)
PLURAL_ALWAYS = {
    "core/translate/node_fit.py": "`0/1 nodes are available`: the words of kube-scheduler",
    "core/translate/topology_lines.py": "a comment in topology.conf",
    "core/views/unregistered.py": "one time is `once`",
}
"""Files with a count and a plural, and why they need no `counted`."""


def test_a_count_before_a_noun_is_made_by_counted() -> None:
    found = [(short(path), text) for path in SOURCES for text in _counts(path)]
    ours = [(file, text) for file, text in found if not file.startswith("embedded/")]
    assert not [(file, text) for file, text in ours if file not in PLURAL_ALWAYS]
    assert {file for file, _ in ours} == {*PLURAL_ALWAYS}, "no needless exception"


def _counts(path: Path) -> Iterator[str]:
    """Yield each f-string with a plural behind a value that is no constant."""
    for node in ast.walk(tree(path)):
        parts = node.values if isinstance(node, ast.JoinedStr) else []
        for value, text in pairwise(parts):
            match value, text:
                case ast.FormattedValue(value=count), ast.Constant(value=str() as words):
                    if PLURAL_BEHIND.match(words) and not ast.unparse(count).isupper():
                        yield ast.unparse(node)


CONSTANTS = r"/(?:home|root|work|Users)/"


def test_the_source_has_no_path_of_a_machine() -> None:
    assert not [short(path) for path in SOURCES if re.search(CONSTANTS, path.read_text())]
