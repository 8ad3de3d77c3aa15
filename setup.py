"""`SUNK_SYNC_COMPILED=1` builds the core as C extensions with mypyc; all else is in pyproject.toml.

What may be compiled is what the contracts of purity name. A module that writes a class with
keywords (`class X(Struct, frozen=True)`) stays as it is: mypyc drops them without a word.
"""

import ast
import itertools
import os
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

from setuptools import Extension, setup

ROOT = Path(__file__).parent
CONTRACTS = (
    "The core knows no clock, no chance, no world",
    "What stands on the wire becomes facts without a clock, a socket or a log",
)
CALLS = ("-fno-semantic-interposition", "-fno-plt")
"""Nobody replaces our functions at run time, so they call each other, and Python, directly."""


def compiled() -> list[str]:
    """Paths of the modules that are compiled."""
    return [str(path) for path in _pure() if not _has_keywords(path)]


def _pure() -> Iterator[Path]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = project["tool"]["importlinter"]["contracts"]
    pure = [one["source_modules"] for one in contracts if one["name"] in CONTRACTS]
    for name in itertools.chain.from_iterable(pure):
        place = Path(*name.split("."))
        if (ROOT / place).is_dir():
            found = sorted((ROOT / place).glob("*.py"))
            yield from (place / path.name for path in found if path.stem != "__init__")
        else:
            yield place.with_suffix(".py")


def _has_keywords(path: Path) -> bool:
    tree = ast.parse((ROOT / path).read_text())
    return any(isinstance(node, ast.ClassDef) and node.keywords for node in ast.walk(tree))


def extensions() -> list[Extension]:
    """The core as C extensions."""
    from mypyc.build import mypycify

    made: list[Extension] = mypycify(compiled(), group_name="sunk_sync")
    for one in made if sys.platform == "linux" else []:
        one.extra_compile_args += CALLS
    return made


if __name__ == "__main__":
    setup(ext_modules=extensions() if os.environ.get("SUNK_SYNC_COMPILED") == "1" else [])
