"""Runs mutmut in the current folder with our choice of mutations, and writes results.json.

It is a script in a process of its own: mutmut imports the project's tests from its own copy, so
nothing of the package `tests` may be imported before.
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


def change_word(node: cst.BaseString) -> Iterable[cst.CSTNode]:
    """Change a word in one way. Sentences are for people, and no test checks their words."""
    if isinstance(node, cst.SimpleString) and " " in str(node.evaluated_value):
        return ()
    return list(operator_string(node))[:1]


def force_if(node: cst.If) -> Iterator[cst.CSTNode]:
    """Enter the `if` always, or never."""
    for value in ("True", "False"):
        yield node.with_changes(test=cst.Name(value))


def keep_one_side(node: cst.BooleanOperation) -> Iterator[cst.CSTNode]:
    """Keep one side of `a and b` or `a or b`."""
    for side in (node.left, node.right):
        yield side.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


def drop_call(node: cst.Expr) -> Iterator[cst.CSTNode]:
    """Drop a statement that is a call."""
    if isinstance(node.value, cst.Call | cst.Await):
        yield node.with_changes(value=cst.Name("None"))


def return_none(node: cst.Return) -> Iterator[cst.CSTNode]:
    if node.value is not None and not cst.Name("None").deep_equals(node.value):
        yield node.with_changes(value=cst.Name("None"))


def drop_filter(node: cst.CompFor) -> Iterator[cst.CSTNode]:
    """Drop the `if` of a comprehension."""
    if node.ifs:
        yield node.with_changes(ifs=())


def drop_part(node: cst.Tuple) -> Iterator[cst.CSTNode]:
    """Drop one of the sequences that a tuple joins."""
    for left_out in node.elements:
        if isinstance(left_out, cst.StarredElement):
            kept = [one for one in node.elements if one is not left_out]
            yield node.with_changes(elements=kept)


OPERATORS = (
    (cst.BaseString, change_word),
    (cst.If, force_if),
    (cst.BooleanOperation, keep_one_side),
    (cst.Expr, drop_call),
    (cst.Return, return_none),
    (cst.CompFor, drop_filter),
    (cst.Tuple, drop_part),
)


def choose() -> None:
    """Use mutmut's mutations and ours, without those of sentences and of `zip(..., strict=True)`.

    `strict` is an assertion that never fails: the lengths are always equal.
    """
    assert isinstance(mutation_operators, list)
    mutation_operators[:] = [one for one in mutation_operators if one[1] is not operator_string]
    mutation_operators.extend(OPERATORS)
    NEVER_MUTATE_FUNCTION_CALLS.add("zip")


def results() -> Iterator[dict[str, str]]:
    """Yield name and status of each mutant, and the change of those that were not killed."""
    for path in walk_mutatable_files():
        run = SourceFileMutationData(path=path)
        run.load()
        for name, code in run.exit_code_by_key.items():
            status = status_by_exit_code[code]
            diff = "" if status == "killed" else get_diff_for_mutant(name, path=path)
            yield {"name": name, "status": status, "diff": diff}


def main(names: list[str]) -> None:
    """Run these mutants, by default all, one at a time."""
    choose()
    cli(["run", "--max-children", "1", *names], standalone_mode=False)
    Path("results.json").write_text(json.dumps(list(results())))


if __name__ == "__main__":
    main(sys.argv[1:])
