"""Runs mutmut in the present folder with our choice of mutations, and writes down what came of it.

A script of its own, in a process of its own: mutmut imports the project's tests from its own copy,
so nothing of the package `tests` may be imported before.
"""

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import libcst as cst
from mutmut.__main__ import cli
from mutmut.mutation.data import SourceFileMutationData
from mutmut.mutation.diff_apply import get_diff_for_mutant
from mutmut.mutation.file_mutation import NEVER_MUTATE_FUNCTION_CALLS
from mutmut.mutation.mutators import mutation_operators, operator_string
from mutmut.stats import status_by_exit_code
from mutmut.utils.file_utils import walk_mutatable_files


def word(node: cst.BaseString) -> Iterable[cst.CSTNode]:
    """A word changed in one way; a sentence is for people and may be worded as one likes."""
    if isinstance(node, cst.SimpleString) and " " in str(node.evaluated_value):
        return ()
    return list(operator_string(node))[:1]


def forced(node: cst.If) -> Iterator[cst.CSTNode]:
    """`if` taken always, and never."""
    for value in ("True", "False"):
        yield node.with_changes(test=cst.Name(value))


def half(node: cst.BooleanOperation) -> Iterator[cst.CSTNode]:
    """`a and b`, `a or b`: one of them alone."""
    for side in (node.left, node.right):
        yield side.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


def unsaid(node: cst.Expr) -> Iterator[cst.CSTNode]:
    """A statement that is a call, left out."""
    if isinstance(node.value, cst.Call | cst.Await):
        yield node.with_changes(value=cst.Name("None"))


def unanswered(node: cst.Return) -> Iterator[cst.CSTNode]:
    """`return x` as `return None`."""
    if node.value is not None and not cst.Name("None").deep_equals(node.value):
        yield node.with_changes(value=cst.Name("None"))


def unfiltered(node: cst.CompFor) -> Iterator[cst.CSTNode]:
    """A comprehension without its `if`."""
    if node.ifs:
        yield node.with_changes(ifs=())


def thinned(node: cst.Tuple) -> Iterator[cst.CSTNode]:
    """A tuple put together of others, without one of them."""
    for left_out in node.elements:
        if isinstance(left_out, cst.StarredElement):
            kept = [one for one in node.elements if one is not left_out]
            yield node.with_changes(elements=kept)


OPERATORS = (
    (cst.BaseString, word),
    (cst.If, forced),
    (cst.BooleanOperation, half),
    (cst.Expr, unsaid),
    (cst.Return, unanswered),
    (cst.CompFor, unfiltered),
    (cst.Tuple, thinned),
)


def choose() -> None:
    """mutmut's own mutations, but for those of sentences and of `zip(..., strict=True)`; and ours.

    `strict` is an assertion: it can only fail where the lengths differ, which they never do.
    """
    assert isinstance(mutation_operators, list)
    mutation_operators[:] = [one for one in mutation_operators if one[1] is not operator_string]
    mutation_operators.extend(OPERATORS)
    NEVER_MUTATE_FUNCTION_CALLS.add("zip")


def results() -> Iterator[dict[str, str]]:
    """Each mutant that ran: its name, what came of it, and the change where it survived."""
    for path in walk_mutatable_files():
        run = SourceFileMutationData(path=path)
        run.load()
        for name, code in run.exit_code_by_key.items():
            status = status_by_exit_code[code]
            diff = "" if status == "killed" else get_diff_for_mutant(name, path=path)
            yield {"name": name, "status": status, "diff": diff}


def main(names: list[str]) -> None:
    """Run these mutants, all where none is named, one at a time."""
    choose()
    cli(["run", "--max-children", "1", *names], standalone_mode=False)
    Path("results.json").write_text(json.dumps(list(results())))


if __name__ == "__main__":
    main(sys.argv[1:])
