"""Bytes of the API server, decoded to facts: recorded, cut and invalid ones."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sunk_sync.core.model import names
from sunk_sync.core.model.condition import Condition
from sunk_sync.core.model.facts import Node, Observed, Pod, SlurmdPod
from sunk_sync.core.model.user_policy import Namespace, NamespaceDefaults
from sunk_sync.kube.api.answers import BAD_BYTES, KubeError, refusal, stream_refusal
from sunk_sync.kube.decode.source_decoder import (
    NAMESPACES,
    NODES,
    OFFERING_NODES,
    OTHERS,
    PODS,
    SLURMD_PODS,
    Bookmark,
    DeletedEvent,
    ErrorEvent,
    SourceDecoder,
    Unreadable,
)
from sunk_sync.kube.decode.strings import VALUE_LENGTH_MAX
from tests.kit.pod_rows import seen
from tests.kube.recorded.server import node, pod, recorded

Recorded = tuple[SourceDecoder[Any], bytes]
LINES = [
    (decoder, line)
    for decoder, name in (
        (NODES, "watch-nodes.json"),
        (NODES, "watchlist-nodes.json"),
        (OFFERING_NODES, "watchlist-nodes.json"),
        (NODES, "watch-gone.json"),
        (SLURMD_PODS, "watch-pods.json"),
        (PODS, "watch-pods.json"),
    )
    for line in recorded(name).splitlines()
]
PAGES = [
    (NODES, recorded("list-nodes-page-1.json")),
    (SLURMD_PODS, recorded("list-pods.json")),
    (PODS, recorded("list-pods.json")),
]


def annotated(an_object: dict[str, Any], **annotations: str) -> dict[str, Any]:
    an_object["metadata"]["annotations"] = {
        getattr(names, name): value for name, value in annotations.items()
    }
    return an_object


def test_a_recorded_node_becomes_a_fact() -> None:
    fact = NODES.object(recorded("answer-apply-node.json"))
    assert isinstance(fact, Observed)
    assert fact.order > 0
    row = fact.row
    assert isinstance(row, Node)
    assert (row.name, row.ready, row.unschedulable) == ("g0", "True", False)
    assert (row.cordon_reason, row.slurm_node) == ("kernel update", "slurm-g0")
    assert row.conditions == (Condition("SlurmDrain", "True", "Slurm", "k8s: cordoned"),)
    assert row.changed_at == ("",)


def test_a_recorded_slurmd_pod_becomes_a_fact() -> None:
    fact = SLURMD_PODS.object(recorded("answer-apply-pod.json"))
    assert isinstance(fact, Observed)
    row = fact.row
    assert isinstance(row, SlurmdPod)
    assert (row.namespace, row.name, row.node_name) == ("slurm", "slurmd-g0", "g0")
    assert (row.slurm_node, row.nodeset, row.cordon) == ("g0", "gpu", "true")
    assert row.ready
    assert [one.type for one in row.conditions] == ["SlurmNodeStateDrain", "SlurmNodeStateIdle"]


def namespace(annotations: str) -> bytes:
    """A Namespace as the API server sends it, with these annotations."""
    meta = f'"name":"team","uid":"u1","resourceVersion":"7","annotations":{annotations}'
    body = '"spec":{"finalizers":["kubernetes"]},"status":{"phase":"Active"}'
    return f'{{"kind":"Namespace","apiVersion":"v1","metadata":{{{meta}}},{body}}}'.encode()


NAMED = '{"sunk.coreweave.com/default-user":"11","sunk.coreweave.com/default-account":"games"}'


@pytest.mark.parametrize(
    ("annotations", "defaults"),
    [
        ("null", NamespaceDefaults()),
        ('{"other":"1"}', NamespaceDefaults()),
        (NAMED, NamespaceDefaults(user="11", account="games")),
        (
            '{"sunk.coreweave.com/default-group":"' + "7" * 5000 + '"}',
            NamespaceDefaults(group="7" * VALUE_LENGTH_MAX),
        ),
    ],
)
def test_a_namespace_becomes_the_defaults_that_it_names_P5(
    annotations: str, defaults: NamespaceDefaults
) -> None:
    fact = NAMESPACES.object(namespace(annotations))
    assert fact == Observed(Namespace("team", "u1", defaults), 7.0)


def test_the_labels_of_a_namespace_are_read_sorted_P8() -> None:
    body = namespace("null").replace(b'"uid":"u1"', b'"uid":"u1","labels":{"b":"2","a":"1"}')
    fact = NAMESPACES.object(body)
    assert fact == Observed(Namespace("team", "u1", labels=(("a", "1"), ("b", "2"))), 7.0)


def test_a_recorded_watch_reports_changes_in_order() -> None:
    events = [NODES.event(line) for line in recorded("watch-nodes.json").splitlines()]
    orders = [event.order for event in events if isinstance(event, Observed)]
    assert orders == sorted(orders)
    assert isinstance(events[-1], DeletedEvent)
    (*_, last) = (event.row for event in events if isinstance(event, Observed))
    assert isinstance(last, Node)
    assert last.unschedulable


def test_a_recorded_watch_list_ends_with_its_bookmark() -> None:
    *rows, end = [NODES.event(line) for line in recorded("watchlist-nodes.json").splitlines()]
    assert all(isinstance(row, Observed) for row in rows)
    assert isinstance(end, Bookmark)
    assert end.ends_listing


@pytest.mark.parametrize("decoder", [SLURMD_PODS, PODS, OTHERS], ids=lambda one: one.source)
def test_a_bookmark_of_pods_is_read_although_its_containers_are_null(
    decoder: SourceDecoder[Any],
) -> None:
    """As Kubernetes 1.30 to 1.35 sends it."""
    ends = '"annotations":{"k8s.io/initial-events-end":"true"}'
    meta = f'"metadata":{{"resourceVersion":"224",{ends}}}'
    pod = f'{{"kind":"Pod","apiVersion":"v1",{meta},"spec":{{"containers":null}},"status":{{}}}}'
    line = f'{{"type":"BOOKMARK","object":{pod}}}'
    assert decoder.event(line.encode()) == Bookmark("224", ends_listing=True)


def test_a_recorded_ERROR_event_is_an_answer_of_status_410() -> None:
    event = NODES.event(recorded("watch-gone.json").strip())
    assert isinstance(event, ErrorEvent)
    error = stream_refusal(event.status)
    assert (error.status, error.reason) == (410, "Expired")


def test_recorded_pages_have_one_version_and_a_continue_token() -> None:
    first = NODES.page(recorded("list-nodes-page-1.json"))
    second = NODES.page(recorded("list-nodes-page-2.json"))
    assert first.version == second.version
    assert first.next
    assert not second.next
    assert not NODES.page(recorded("list-nodes-empty.json")).items


@pytest.mark.parametrize(
    ("name", "code", "reason", "subject"),
    [
        ("error-not-found.json", 404, "NotFound", "none"),
        ("error-no-such-path.json", 404, "NotFound", ""),
        ("error-uid.json", 422, "Invalid", "g0"),
        ("error-uid-gone.json", 409, "Conflict", "none"),
    ],
)
def test_recorded_refusals_are_read(name: str, code: int, reason: str, subject: str) -> None:
    error = refusal(code, recorded(name))
    assert (error.status, error.reason, error.object_name) == (code, reason, subject)


@pytest.mark.parametrize(
    ("value", "cordon"), [("true", "true"), ("kernel", "kernel"), ("", ""), ("False", "")]
)
def test_a_cordon_annotation_counts_unless_it_is_empty_or_false_S3(value: str, cordon: str) -> None:
    assert seen(SLURMD_PODS, annotated(pod("p", 1), CORDON=value)).cordon == cordon


def test_the_cordon_reason_of_the_cloud_comes_before_ours_S1() -> None:
    both = annotated(node("n", 1), CLOUD_CORDON_REASON="theirs", CORDON_REASON="ours")
    ours = annotated(node("n", 1), CORDON_REASON="ours")
    assert seen(NODES, both).cordon_reason == "theirs"
    assert seen(NODES, ours).cordon_reason == "ours"


@pytest.mark.parametrize(
    ("annotation", "spec", "claim"),
    [
        ("a", {"hostname": "h", "hostNetwork": True, "nodeName": "n"}, "a"),
        (None, {"hostname": "h", "hostNetwork": True, "nodeName": "n"}, "h"),
        (None, {"hostNetwork": True, "nodeName": "n"}, "n"),
        (None, {"hostNetwork": True}, ""),
        (None, {"nodeName": "n"}, "p"),
    ],
)
def test_a_slurmd_pod_claims_a_slurm_node_by_annotation_hostname_node_or_name(
    annotation: str | None, spec: dict[str, Any], claim: str
) -> None:
    """A hostNetwork Pod without a Node claims nothing yet."""
    an_object = pod("p", 1)
    an_object["spec"] = spec
    if annotation:
        annotated(an_object, SLURM_NODE=annotation)
    assert seen(SLURMD_PODS, an_object).slurm_node == claim


def test_the_state_of_a_pod_is_read_from_phase_and_deletion() -> None:
    an_object = pod("p", 1)
    an_object["status"] = {"phase": "Failed"}
    an_object["metadata"]["deletionTimestamp"] = "2026-11-21T10:00:00Z"
    row = seen(SLURMD_PODS, an_object)
    assert (row.finished, row.terminating, row.ready) == (True, True, False)
    assert seen(PODS, an_object) == Pod(
        namespace="slurm", name="p", uid="uid-p", phase="Failed", terminating=True, ended=True
    )


SCHEDULER_SAYS = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
NO_ROOM = "0/3 nodes are available: 3 Insufficient cpu."
PULLS = {"state": {"waiting": {"reason": "ErrImagePull", "message": "not found"}}}


@pytest.mark.parametrize(
    ("node_name", "status", "words"),
    [
        ("", {"conditions": [SCHEDULER_SAYS | {"message": NO_ROOM}]}, NO_ROOM),
        ("", {"conditions": [SCHEDULER_SAYS]}, "Unschedulable"),
        ("", {}, ""),
        ("", {"conditions": [SCHEDULER_SAYS | {"status": "True", "message": "x"}]}, ""),
        ("n", {"containerStatuses": [PULLS]}, "ErrImagePull: not found"),
        ("n", {"conditions": [SCHEDULER_SAYS | {"message": "before"}]}, ""),
    ],
)
@pytest.mark.parametrize("owned", [True, False])
def test_a_pod_of_a_nodeset_says_why_it_waits_in_the_words_of_kubernetes_N13(
    node_name: str, status: dict[str, Any], words: str, owned: bool
) -> None:
    an_object = pod("p", 1)
    owner = {"apiVersion": "sunk-sync.dev/v1alpha1", "kind": "NodeSet", "name": "cpu", "uid": "u"}
    if owned:
        an_object["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    an_object["spec"] = {"nodeName": node_name} if node_name else {}
    an_object["status"] = status
    assert seen(SLURMD_PODS, an_object).waiting == (words if owned else "")


def test_our_labels_and_annotations_are_read_back() -> None:
    an_object = annotated(node("n", 1), DRAIN="why", CORDONED_FOR_DRAIN="true", KEEP_CORDON="yes")
    an_object["metadata"]["labels"] = {"x": "x", names.LABEL_POD: "p", names.LABEL_CLUSTER: "c"}
    row = seen(NODES, an_object)
    assert row.labels == ("c", None, None, "p")
    assert (row.drain, row.cordoned_for_drain, row.keep_cordon) == ("why", True, True)


def test_values_of_annotations_are_cut_after_1024_characters() -> None:
    row = seen(NODES, annotated(node("n", 1), CORDON_REASON="é" * 5000, DRAIN="x" * 5000))
    assert len(row.cordon_reason) == 1024
    assert len(row.drain) == 1024


def test_the_nodeset_is_read_from_its_label_without_an_owner_of_that_kind() -> None:
    an_object = pod("p", 1)
    an_object["metadata"]["labels"] = {names.LABEL_NODESET: "gpu"}
    an_object["metadata"]["ownerReferences"] = [{"kind": "StatefulSet", "name": "x"}]
    assert seen(SLURMD_PODS, an_object).nodeset == "gpu"


@pytest.mark.parametrize(
    "spoilt",
    [
        {"metadata": {"annotations": "none"}},
        {"metadata": {"uid": ""}},
        {"metadata": {"resourceVersion": "1e3"}},
        {"spec": {"unschedulable": "yes"}},
        {"status": {"conditions": [{"type": 3}]}},
        {"kind": "Pod"},
    ],
)
def test_an_invalid_object_is_an_error_with_its_name_F7(spoilt: dict[str, Any]) -> None:
    an_object = node("n9", 7)
    for key, value in spoilt.items():
        an_object[key] = {**an_object[key], **value} if isinstance(value, dict) else value
    body = json.dumps(an_object).encode()
    bad = NODES.object(body)
    assert isinstance(bad, Unreadable)
    assert bad.name == "n9"
    assert NODES.event(b'{"type":"MODIFIED","object":%b}' % body) == bad


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"<html>504</html>",
        b'{"kind":"NodeList","metadata":{"resourceVersion":"1"}}',
        b'{"kind":"NodeList","metadata":{"resourceVersion":""},"items":[]}',
        b'{"kind":"PodList","metadata":{"resourceVersion":"1"},"items":[]}',
        b'{"kind":"Status","metadata":{},"status":"Success"}',
        b"[" * 100_000,
    ],
)
def test_a_body_without_kind_version_or_items_is_no_empty_list_S20(body: bytes) -> None:
    with pytest.raises(BAD_BYTES):
        NODES.page(body)


@given(st.sampled_from(LINES), st.data())
def test_half_a_line_is_no_event_F4(line: Recorded, data: st.DataObject) -> None:
    decoder, whole = line
    cut = data.draw(st.integers(0, len(whole) - 1))
    assert decoder.event(whole[:cut]) is None


@given(st.sampled_from(LINES), st.data())
def test_a_line_with_changed_bytes_is_a_value_and_no_deletion_F4(
    line: Recorded, data: st.DataObject
) -> None:
    decoder, whole = line
    at = data.draw(st.integers(0, len(whole) - 1))
    some = data.draw(st.binary(max_size=8))
    event = decoder.event(whole[:at] + some + whole[at + len(some) :])
    assert not isinstance(event, DeletedEvent) or whole.startswith(b'{"type":"DELETED"')


@given(st.sampled_from(PAGES), st.data())
def test_half_a_page_is_no_page_F4_S20(page: Recorded, data: st.DataObject) -> None:
    decoder, whole = page
    cut = data.draw(st.integers(0, len(whole.rstrip()) - 1))
    with pytest.raises(BAD_BYTES):
        decoder.page(whole[:cut])


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["metadata", "spec", "status", "annotations", "name", "uid", "x"]),
            inner,
        )
    ),
)


@given(_JSON, st.sampled_from(["ADDED", "DELETED", "BOOKMARK", "ERROR", "x", ""]))
def test_any_json_in_an_event_is_a_value_F7(an_object: Any, kind: str) -> None:
    line = msgspec.json.encode({"type": kind, "object": an_object})
    for decoder in (NODES, OFFERING_NODES, SLURMD_PODS, PODS):
        assert isinstance(decoder.event(line), Unreadable | ErrorEvent | None)
        assert isinstance(decoder.object(line), Unreadable)
    assert isinstance(stream_refusal(line), KubeError)


@given(st.integers(300, 599), st.binary(max_size=100), st.text(max_size=12))
def test_any_refusal_is_a_value_F4_F8(code: int, body: bytes, retry_after: str) -> None:
    error = refusal(code, body, retry_after=retry_after)
    assert error.status == code
    assert error.retry_after_s is None or 0 <= error.retry_after_s <= 120
