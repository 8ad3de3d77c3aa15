"""`sunk-sync convert-nodeset FILE`: print NodeSets of Slinky or SUNK as NodeSets of sunk-sync.

The YAML is on stdout, with a comment for each field that has no counterpart. It reads the file
alone, and asks no server.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

import yaml

from sunk_sync.cli.node_set_conversion import Conversion, Object
from sunk_sync.cli.slinky_node_set import slinky_node_set
from sunk_sync.cli.sunk_node_set import sunk_node_set
from sunk_sync.core.model.names import PREFIX
from sunk_sync.core.translate.counted import counted

ALL, SOME, CANNOT_READ = 0, 1, 2
FILE_BYTES_MAX = 1 << 22
STDIN = "-"
SOURCES: Mapping[str, Callable[[Object], Conversion]] = {
    "slinky.slurm.net/v1alpha1": slinky_node_set,
    "slinky.slurm.net/v1beta1": slinky_node_set,
    f"{PREFIX}v1alpha1": sunk_node_set,
}
"""apiVersion → the conversion."""


class UnreadableFileError(Exception):
    """The text says why."""


def convert_nodeset(path: str, *, out: TextIO, errors: TextIO) -> int:
    """Return 0: all was taken, 1: something was left out, 2: the file cannot be read."""
    try:
        conversions = [_converted(one) for one in _node_sets(path, errors)]
    except UnreadableFileError as error:
        print(f"sunk-sync: {path}: {error}", file=errors)
        return CANNOT_READ
    results = [one.result() for one in conversions]
    for conversion, result in zip(conversions, results, strict=True):
        out.write(_shown(conversion, result))
    left = sum(len(one.left) for one in conversions)
    if not left:
        return ALL
    print(
        f"sunk-sync: {counted(left, 'field is', 'fields are')} not taken over: see the comments",
        file=errors,
    )
    return SOME


def _converted(source: Object) -> Conversion:
    try:
        return SOURCES[str(source["apiVersion"])](source)
    except (AttributeError, TypeError, ValueError) as error:
        raise UnreadableFileError(f"a NodeSet has another form: {error}") from None


def _node_sets(path: str, errors: TextIO) -> Iterator[Object]:
    """Yield the NodeSets of the file; name other objects."""
    found = False
    for one in _objects(path):
        kind, version = one.get("kind"), one.get("apiVersion")
        if kind == "NodeSet" and version in SOURCES:
            found = True
            yield one
        elif kind == "NodeSet":
            known = ", ".join(SOURCES)
            raise UnreadableFileError(f"NodeSet of {version}: known are {known}")
        else:
            print(f"sunk-sync: {kind} of {version} is no NodeSet: skipped", file=errors)
    if not found:
        raise UnreadableFileError("no NodeSet in it")


def _objects(path: str) -> Iterator[Object]:
    for document in _documents(_content(path)):
        if document is None:
            continue
        if not isinstance(document, dict):
            raise UnreadableFileError("a document is no mapping")
        if str(document.get("kind", "")).endswith("List"):
            yield from (one for one in document.get("items") or () if isinstance(one, dict))
        else:
            yield document


def _documents(content: bytes) -> list[Any]:
    try:
        return list(yaml.safe_load_all(content.decode()))
    except UnicodeDecodeError:
        raise UnreadableFileError("is not UTF-8 text") from None
    except (yaml.YAMLError, ValueError) as error:
        raise UnreadableFileError(f"is not YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise UnreadableFileError("is nested too deeply") from None


def _content(path: str) -> bytes:
    try:
        if path == STDIN:
            content = sys.stdin.buffer.read(FILE_BYTES_MAX + 1)
        else:
            with Path(path).open("rb") as file:
                content = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise UnreadableFileError(error.strerror or type(error).__name__) from None
    if len(content) > FILE_BYTES_MAX:
        raise UnreadableFileError("is larger than 4 MiB")
    return content


def _shown(conversion: Conversion, result: Object) -> str:
    lines = ["---", f"# NodeSet {conversion.name}"]
    if conversion.left:
        lines.append("# Not taken over:")
    lines += [f"#   {_line(one.path)}: {_line(one.instead)}" for one in conversion.left]
    text = yaml.safe_dump(result, sort_keys=False, default_flow_style=False, allow_unicode=True)
    return "\n".join(lines) + "\n" + text


def _line(text: str) -> str:
    """Keep a comment on one line, whatever the file contains."""
    return " ".join(text.split())
