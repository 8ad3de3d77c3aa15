"""Recorded bytes of both releases, decoded to facts; the same bytes cut and changed."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sunk_sync.core.model.facts import SlurmNode
from sunk_sync.slurm.api.answers import (
    Envelope,
    NumberObject,
    SlurmError,
    number_of,
    printable,
    read_envelope,
)
from sunk_sync.slurm.decode.nodes import COMMENT_KEPT, REASON_KEPT, read_node, read_nodes
from tests.kit.slurm_client import kind_of
from tests.slurm.recorded import RELEASES, all_recorded, changed, recorded


def node(name: str, *state: str, reason: str = "", comment: str = "") -> SlurmNode:
    return SlurmNode(name=name, state=frozenset(state), reason=reason, comment=comment)


IDLE = [node(name, "IDLE") for name in ("n1", "n2", "n3")]
DRAINING = [
    node("n1", "ALLOCATED"),
    node("n2", "ALLOCATED", "DRAIN", reason="k8s: cordoned"),
    node("n3", "ALLOCATED"),
]
DYNAMIC = [node("dyn1", "IDLE", "DYNAMIC_NORM")]
COUNT_TEXT = "gres/gpu count reported lower than configured (2 < 4)"
INVALID = [node("n2", "MIXED", "DRAIN", "INVALID_REG", reason=COUNT_TEXT)]


@pytest.mark.parametrize(
    ("release", "name", "nodes"),
    [
        ("24.11", "nodes-3-idle", IDLE),
        ("26.05", "nodes-3-idle", IDLE),
        ("26.05", "nodes-drain-mixed", DRAINING),
        ("24.11", "node-dynamic", DYNAMIC),
        ("26.05", "node-dynamic", DYNAMIC),
        ("24.11", "node-invalid-reg", INVALID),
        ("26.05", "node-invalid-reg", INVALID),
    ],
)
def test_recorded_nodes_become_facts(release: str, name: str, nodes: list[SlurmNode]) -> None:
    body = recorded(release, name)
    assert isinstance(read_envelope(body), Envelope)
    assert read_nodes(body) == nodes
    assert [read_node(json.dumps(each).encode()) for each in json.loads(body)["nodes"]] == nodes


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize(
    ("name", "kind", "number"),
    [
        ("error-bad-token", "auth", 1007),
        ("error-expired-token-jobs-state", "auth", 1007),
        ("error-ctld-down-nodes", "controller_down", 1800),
        ("error-ctld-down-node-n1", "controller_down", 1800),
        ("error-ctld-down-jobs-state", "controller_down", -1),
        ("error-get-node-unknown", "no_such", 0),
        ("error-node-unknown", "no_such", 2018),
        ("error-job-unknown", "refused", 2017),
    ],
)
def test_recorded_errors_become_values_F4(release: str, name: str, kind: str, number: int) -> None:
    """The number counts: the HTTP status differs between releases."""
    failure = read_envelope(recorded(release, name))
    assert isinstance(failure, SlurmError)
    assert (failure.kind, failure.error_number) == (kind, number)


@pytest.mark.parametrize("release", RELEASES)
def test_the_release_and_the_time_of_a_listing_are_read(release: str) -> None:
    envelope = read_envelope(recorded(release, "nodes-3-idle"))
    assert isinstance(envelope, Envelope)
    assert envelope.release.startswith(release)
    assert number_of(envelope.last_update)


@pytest.mark.parametrize(
    ("number", "value"),
    [
        (7, 7),
        (None, None),
        (NumberObject(number=7), 7),
        (NumberObject(set=False, number=7), None),
        (NumberObject(infinite=True, number=0), None),
        (NumberObject(), None),
    ],
)
def test_numbers_are_plain_or_objects_F4(number: Any, value: float | None) -> None:
    assert number_of(number) == value


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (["idle", "Drain"], {"IDLE", "DRAIN"}),
        ("IDLE+DRAIN", {"IDLE", "DRAIN"}),
        ("idle", {"IDLE"}),
        ("", set()),
        ([], set()),
        (None, set()),
    ],
)
def test_states_are_read_from_a_list_or_a_word_F4(state: Any, expected: set[str]) -> None:
    body = json.dumps({"name": "n1", "state": state, "reason": None, "new_field": [{}]}).encode()
    assert read_node(body) == SlurmNode(name="n1", state=frozenset(expected))


def test_equal_states_are_one_object() -> None:
    one, two = (
        read_node(b'{"name":"%s","state":["IDLE","DRAIN"]}' % name) for name in (b"a", b"b")
    )
    assert isinstance(one, SlurmNode)
    assert isinstance(two, SlurmNode)
    assert one.state is two.state


IN_USE = (
    b'{"name":"n1","state":["MIXED"],"weight":%d,"cpus":16,"effective_cpus":14,"alloc_cpus":3,'
    b'"real_memory":64000,"alloc_memory":100,"gres":"gpu:a100:8(S:0)","gres_used":"gpu:a100:5(IDX:0-4)"}'
)


@pytest.mark.parametrize(
    ("weight", "usage", "shown"),
    [(1, False, (0, None)), (10_000_127, False, (10_000_127, None)), (1, True, (1, 3))],
    ids=["without packing", "packed before", "with packing"],
)
def test_without_packing_no_row_changes_with_the_use_of_its_node_W2(
    weight: int, usage: bool, shown: tuple[int, int | None]
) -> None:
    record = IN_USE % weight
    for fact in (
        read_node(record, usage=usage),
        read_nodes(b'{"nodes":[' + record + b"]}", usage=usage),
    ):
        (fact,) = fact if isinstance(fact, list) else (fact,)
        assert isinstance(fact, SlurmNode)
        assert (fact.weight, fact.fill) == shown


def test_reasons_and_comments_are_bounded() -> None:
    record = json.dumps({"name": "n", "reason": "r" * 9999, "comment": "c" * 9999}).encode()
    fact = read_node(record)
    assert isinstance(fact, SlurmNode)
    assert (len(fact.reason), len(fact.comment)) == (REASON_KEPT, COMMENT_KEPT)


@pytest.mark.parametrize("bad", [b"caf\xe9", b"\xff\xfe", b"\xed\xa0\x80", b"\xe4", b"\xf0\x9f"])
def test_bytes_of_another_encoding_are_replaced_F4(bad: bytes) -> None:
    """slurmrestd sends the bytes that an administrator typed."""
    record = b'{"name":"n1","state":["IDLE","DRAIN"],"reason":"k8s: ' + bad + b'","comment":"c"}'
    for fact in (read_node(record), read_nodes(b'{"nodes":[' + record + b"]}")):
        (fact,) = fact if isinstance(fact, list) else (fact,)
        assert isinstance(fact, SlurmNode)
        assert fact.reason.startswith("k8s: ")
        assert "\ufffd" in fact.reason
        assert fact.comment == "c"
    error = b'{"errors":[{"error_number":2018,"description":"' + bad + b'"}]}'
    assert kind_of(read_envelope(error)) == "no_such"


@pytest.mark.parametrize("record", [b"", b"{}", b"null", b'{"name":1}', b'{"name":"n","state":3}'])
def test_a_node_that_cannot_be_read_is_a_value_F4(record: bytes) -> None:
    """It must not be skipped: a node missing from a listing counts as gone."""
    assert kind_of(read_node(record)) == "garbage"


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>", b"{}", b"[]", b"null", b'{"nodes":[]}', b'{"errors":3}', b"\xff", b"[" * 9999],
)
def test_a_body_that_is_not_from_slurmrestd_is_garbage_F4(body: bytes) -> None:
    failure = read_envelope(body)
    assert isinstance(failure, SlurmError)
    assert failure.kind == "garbage"
    assert not failure.final


def test_errors_are_read_before_the_payload_F4() -> None:
    body = b'{"nodes":[],"meta":{},"errors":[{"error_number":2002,"error":"Access denied"}]}'
    assert read_envelope(body) == SlurmError("refused", "Access denied (2002)", 2002)


@pytest.mark.parametrize(
    ("numbers", "kind"),
    [
        ([9207, 2028], "refused"),
        ([9207, 1007], "auth"),
        ([2018, 1800], "controller_down"),
        ([2018, 2028], "refused"),
        ([None], "refused"),
        ([2027], "controller_down"),
        ([5004], "controller_down"),
    ],
)
def test_of_several_errors_the_temporary_one_counts(numbers: list[int | None], kind: str) -> None:
    """A refusal is final only if no error says that slurmctld was not asked."""
    errors = [{"error_number": number, "description": "x"} for number in numbers]
    assert kind_of(read_envelope(json.dumps({"errors": errors}).encode())) == kind


def test_a_text_of_the_server_is_one_bounded_line() -> None:
    assert printable("a\nb\x00\u202ec  d") == "a b c d"
    assert len(printable("x" * 10_000)) == 300


@given(st.sampled_from(all_recorded()), st.data())
def test_recorded_bytes_cut_and_changed_raise_nothing_F4(body: bytes, data: st.DataObject) -> None:
    bad = changed(body, data)
    assert isinstance(read_envelope(bad), Envelope | SlurmError)
    assert isinstance(read_node(bad), SlurmNode | SlurmError)
    assert isinstance(read_nodes(bad), list | SlurmError)
