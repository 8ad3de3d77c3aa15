"""Large answers are cut into records while they arrive."""

import gc
import json
import time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sunk_sync.slurm.api.answers import UNREADABLE
from sunk_sync.slurm.api.json_stream import CutError, Cutter, TooLargeError
from sunk_sync.slurm.decode.nodes import read_node
from tests.slurm.recorded import recorded

Parts = tuple[dict[str, Any], list[Any], dict[str, Any]]
text = st.text(max_size=12) | st.sampled_from(["},{", '"', "\\", '\\"', "]}", "[{", "\\u007b"])
scalar = (
    st.none()
    | st.booleans()
    | st.integers(-9, 9**9)
    | st.floats(allow_nan=False, allow_infinity=False)
    | text
)
value = st.recursive(
    scalar,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=12,
)
member = st.dictionaries(text.filter(lambda key: key != "nodes"), value, max_size=4)
document = st.tuples(member, st.lists(value, max_size=6), member)
indent = st.sampled_from([None, 0, 1, 2])


def cut(body: bytes, cuts: list[int], **limits: int) -> tuple[list[Any], Any]:
    """Return the decoded records and envelope of a body fed in pieces."""
    cutter = Cutter("nodes", **limits)
    records: list[bytes] = []
    ends = sorted({min(end, len(body)) for end in cuts} | {len(body)})
    start = 0
    for end in ends:
        records += cutter.feed(body[start:end])
        start = end
    rest, envelope = cutter.finish()
    assert cutter.found
    return [msgspec.json.decode(record) for record in records + rest], msgspec.json.decode(envelope)


def written(parts: Parts, indent: int | None) -> bytes:
    before, nodes, after = parts
    whole = {**before, "nodes": nodes, **{k: v for k, v in after.items() if k not in before}}
    return json.dumps(whole, indent=indent).encode()


@given(document, indent, st.lists(st.integers(0, 400), max_size=12))
def test_a_document_in_any_pieces_gives_its_records(
    parts: Parts, indent: int | None, cuts: list[int]
) -> None:
    body = written(parts, indent)
    whole = json.loads(body)
    records, envelope = cut(body, cuts)
    assert records == whole.pop("nodes")
    assert envelope == whole


@given(document, indent, st.data())
def test_a_body_that_ends_early_is_never_complete(
    parts: Parts, indent: int | None, data: st.DataObject
) -> None:
    body = written(parts, indent)
    end = data.draw(st.integers(0, len(body) - 1))
    with pytest.raises(CutError):
        cut(body[:end], [])


@given(document, st.data())
def test_one_changed_byte_is_an_error_or_still_json(parts: Parts, data: st.DataObject) -> None:
    body = bytearray(written(parts, None))
    body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    try:
        cut(bytes(body), data.draw(st.lists(st.integers(0, 400), max_size=3)))
    except (CutError, AssertionError, *UNREADABLE):
        return


@pytest.mark.parametrize(
    ("release", "name", "nodes"),
    [("24.11", "nodes-3-idle", 3), ("26.05", "nodes-3-idle", 3), ("26.05", "nodes-drain-mixed", 3)],
)
@pytest.mark.parametrize("size", [1, 7, 100, 64 * 1024])
def test_recorded_listings_are_cut(release: str, name: str, nodes: int, size: int) -> None:
    body = recorded(release, name)
    records, envelope = cut(body, list(range(size, len(body), size)))
    assert records == json.loads(body)["nodes"]
    assert len(records) == nodes
    assert envelope["errors"] == []


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"<html>busy</html>",
        b'{"nodes":[{}],"nodes":[{}]}',
        b'{"nodes":[{}]} {"nodes":[]}',
        b'{"nodes":[{},]}',
        b'{"nodes":[,{}]}',
        b'{"nodes":[{} {}]}',
        b'{"nodes":[{}],}',
        b'{,"nodes":[{}]}',
        b'{"nodes" [{}]}',
        b'{"nodes":[{}]]',
        b'{"nodes":[' + b"[" * 40 + b"]" * 40 + b"]}",
    ],
)
def test_a_body_of_another_shape_is_an_error(body: bytes) -> None:
    cutter = Cutter("nodes")
    with pytest.raises(CutError):
        _ = (cutter.feed(body), cutter.finish())


def test_an_absent_array_differs_from_an_empty_one() -> None:
    found = {}
    for body in (b'{"nodes":[]}', b'{"nodes":null}', b"{}"):
        cutter = Cutter("nodes")
        cutter.feed(body)
        assert cutter.finish()[0] == []
        found[body] = cutter.found
    assert list(found.values()) == [True, False, False]


def test_records_envelope_and_body_are_bounded() -> None:
    long = b'"' + b"x" * 5000 + b'"'
    for body in (b'{"nodes":[' + long, b'{"a":' + long + b',"b":' + long + b"}", long):
        with pytest.raises(TooLargeError):
            Cutter("nodes", record_max=4096).feed(body)
    with pytest.raises(TooLargeError, match="the body is larger"):
        Cutter("nodes", body_max=10).feed(b" " * 11)


def test_a_large_record_in_small_pieces_is_scanned_few_times() -> None:
    """Scans double in size."""
    cutter = Cutter("nodes")
    scans = 0
    inner = cutter._cut

    def counted() -> None:
        nonlocal scans
        scans += 1
        inner()

    cutter._cut = counted  # type: ignore[method-assign]
    body = b'{"nodes":[{"a":"' + b"x" * 2_000_000 + b'"}]}'
    records = [r for i in range(0, len(body), 16_384) for r in cutter.feed(body[i : i + 16_384])]
    rest, _ = cutter.finish()
    assert len(records + rest) == 1
    assert scans < 25


@pytest.mark.no_cover  # tracing costs our lines, not those of json
def test_cutting_and_decoding_costs_less_than_json_loads() -> None:
    """Measured side by side: a ratio of 0.3."""
    listing = json.loads(recorded("26.05", "nodes-drain-mixed"))
    listing["nodes"] *= 700
    body = json.dumps(listing, indent=2).encode()
    pieces = [body[start : start + 65_536] for start in range(0, len(body), 65_536)]

    def ours() -> int:
        cutter = Cutter("nodes")
        nodes = [read_node(record) for piece in pieces for record in cutter.feed(piece)]
        return len(nodes) + len(cutter.finish()[0])

    def theirs() -> int:
        return len(json.loads(body)["nodes"])

    assert ours() == theirs() == 2100
    assert min(cpu_s(ours) for _ in range(5)) < min(cpu_s(theirs) for _ in range(5))


def cpu_s(workload: Callable[[], object]) -> float:
    began_s = time.process_time()
    workload()
    return time.process_time() - began_s


def test_a_cutter_leaves_no_reference_cycle_wherever_it_stops() -> None:
    for body in (b'{"nodes":[{"a":1},{"a":2}],"b":3}', b'{"nodes":[{"a"'):
        cutter = Cutter("nodes")
        cutter.feed(body)
        gc.collect()
        gc.disable()
        del cutter
        gc.enable()
        assert not [one for one in gc.get_objects() if isinstance(one, Cutter)]
