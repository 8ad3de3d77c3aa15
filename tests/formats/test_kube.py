"""Today's code reads and writes what earlier versions left in Kubernetes."""

import json
from datetime import datetime
from typing import Any

import pytest

from sunk_sync.core.model import names
from sunk_sync.core.model.actions import Bind
from sunk_sync.core.model.facts import Reference
from sunk_sync.kube.api.answers import Decode, KubeError, T
from sunk_sync.kube.api.client import Request
from sunk_sync.kube.decode.source_decoder import NODES, SLURMD_PODS, SourceDecoder
from sunk_sync.kube.write import hooks_key, lease
from sunk_sync.kube.write.hooks_key import SecretReference, find_key
from sunk_sync.kube.write.lease import LeaseClaim, LeasePlace, LeaseState, LeaseStore
from sunk_sync.kube.write.pod_requests import binding
from sunk_sync.service.pausing import annotation, read_annotation
from tests.formats.samples import FUTURE, each, read
from tests.kit.pod_rows import row, seen

Sample = dict[str, Any]
LATER = {f"{names.PREFIX}{FUTURE}": "x"}


class Server:
    """Answers each request with one object, and keeps the bodies."""

    def __init__(self, an_object: Any) -> None:
        self.object = an_object
        self.bodies: list[Any] = []

    async def call(self, request: Request, decode: Decode[T], /) -> T | KubeError:
        self.bodies.append(json.loads(request.body or b"{}"))
        return decode(json.dumps(self.object).encode())


def fields(row: Any, wanted: Any) -> Any:
    return {name: getattr(row, name) for name in wanted}


@each("pod-annotations")
def test_annotations_of_workload_pods_are_read(sample: Sample) -> None:
    found = row(annotations=sample["annotations"] | LATER)
    names_read = ("job_id", "bound_for", "cancelled", "resubmit")
    assert fields(found, names_read) == dict.fromkeys(names_read, "") | sample["means"]


def test_a_binding_sets_the_annotations_of_the_newest_version() -> None:
    action = Bind(Reference("Pod", "team-a", "train", "u1"), "n1", "17", "n1")
    made = json.loads(binding(action).body or b"")
    newest = read("pod-annotations")[-1]["annotations"]
    assert made["metadata"]["annotations"] == newest


OBJECTS: list[tuple[str, SourceDecoder[Any], Any]] = [
    ("slurmd-pod-annotations", SLURMD_PODS, {"kind": "Pod", "spec": {"nodeName": "n1"}}),
    ("node-annotations", NODES, {"kind": "Node"}),
]


@pytest.mark.parametrize(("name", "decoder", "an_object"), OBJECTS, ids=[one[0] for one in OBJECTS])
def test_annotations_of_hosts_are_read(
    name: str, decoder: SourceDecoder[Any], an_object: Any
) -> None:
    for sample in read(name):
        metadata = {"name": "n1", "namespace": "slurm", "uid": "u", "resourceVersion": "1"}
        metadata["annotations"] = sample["annotations"] | LATER
        found = seen(decoder, {"apiVersion": "v1", **an_object, "metadata": metadata})
        assert fields(found, sample["means"]) == sample["means"]


def test_every_field_manager_of_earlier_versions_is_still_one() -> None:
    """The fields of a manager that nobody uses any more would stay for ever."""
    modules = (names, hooks_key, lease)
    now = {
        value
        for module in modules
        for name, value in vars(module).items()
        if name.startswith("MANAGER")
    }
    managers = {one["text"] for one in read("field-managers")}
    assert managers <= now
    assert now <= managers, "a new one: add it to the samples"


@each("hooks-keys")
async def test_the_hooks_key_is_read(sample: Sample) -> None:
    """The tokens of running placeholders and of the gate are derived from it."""
    sample["object"]["data"][FUTURE] = "eA=="
    place = SecretReference("slurm", "sunk-sync-slurm-hooks-key")
    assert await find_key(Server(sample["object"]), place) == sample["means"].encode()


PLACE = LeasePlace("slurm", "sunk-sync-slurm")


@each("leases")
async def test_leases_are_read(sample: Sample) -> None:
    stored = sample["object"] | {FUTURE: 1}
    stored["spec"] |= {FUTURE: 1, "strategy": "OldestEmulationVersion"}
    stored["metadata"]["annotations"] |= LATER
    state = await LeaseStore(Server(stored), PLACE).read(deadline_s=1)
    assert state == LeaseState(**sample["means"])


async def test_leases_are_written_as_before() -> None:
    """By merge patches that name no other field: two versions elect together."""
    held, released = read("leases")
    server = Server(held["object"])
    store = LeaseStore(server, PLACE)
    before = LeaseState(**{**held["means"], "holder": "another", "transitions": 2})
    means = held["means"]
    claim = LeaseClaim(
        holder=means["holder"],
        duration_s=means["duration_s"],
        address=means["address"],
        at=datetime.fromisoformat(held["object"]["spec"]["acquireTime"]),
    )
    await store.claim(claim, before, deadline_s=1)
    await store.release(means["holder"], before, deadline_s=1)
    taken, given_back = server.bodies
    assert taken["spec"] == held["object"]["spec"] | {"renewTime": taken["spec"]["acquireTime"]}
    assert present(taken) == held["object"]["metadata"]["annotations"]
    assert given_back["spec"].items() <= released["object"]["spec"].items()
    assert present(given_back) == released["object"]["metadata"]["annotations"]


def present(body: Any) -> Any:
    found = body["metadata"]["annotations"]
    return {name: value for name, value in found.items() if value is not None}


@each("pauses")
async def test_a_pause_in_a_lease_is_read_and_written_the_same(sample: Sample) -> None:
    annotations = {names.PAUSED: sample["text"]}
    server = Server({"metadata": {"resourceVersion": "1", "annotations": annotations}})
    state = await LeaseStore(server, PLACE).set_paused(sample["text"], deadline_s=1)
    assert server.bodies == [{"metadata": {"annotations": annotations}}]
    assert isinstance(state, LeaseState)
    pause = read_annotation(state.paused)
    assert pause is not None
    assert (pause.sentence(), annotation(pause)) == (sample["means"], sample["text"])
