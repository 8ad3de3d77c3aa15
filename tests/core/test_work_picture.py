"""What is found out about a Work is a field of Work."""

import ast
import inspect
from collections.abc import Iterator

import msgspec

from sunk_sync import work_picture
from sunk_sync.views import Work
from sunk_sync.work_picture import NOTHING_KNOWN


def found() -> Iterator[str]:
    """Every name that work_picture.py writes into what it found, also where no test comes by."""
    for node in ast.walk(ast.parse(inspect.getsource(work_picture))):
        match node:
            case ast.Subscript(
                value=ast.Name(id="found"), slice=ast.Constant(value=str(name)), ctx=ast.Store()
            ):
                yield name
            case _:
                pass


def test_what_is_found_out_is_a_field_of_work_by_its_name() -> None:
    """A name that is none would make the Work of nothing: it is handed over by its place."""
    names = {field.name for field in msgspec.structs.fields(Work)}
    assert set(found()) <= names
    assert len(set(found())) > 40


def test_a_work_of_which_nothing_was_found_out_is_as_its_fields_say() -> None:
    """Each in its place."""
    assert list(NOTHING_KNOWN) == list(Work.__struct_fields__)
    known = NOTHING_KNOWN | {"key": "key", "id": "id", "pods": ()}
    assert Work(*known.values()) == Work(key="key", id="id", pods=())
