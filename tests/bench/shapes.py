"""Recorded objects (see record.py) for any number of hosts, as bytes of the real servers."""

import re
from pathlib import Path

import msgspec

FOLDER = Path(__file__).parent / "shapes"
HOST = b"host-00000"
"""Name of the recorded host; all others have the same length."""
PODS_PER_HOST = 9
"""Workload Pods of a host: 90,000 on 10,000 hosts."""

_VERSION = re.compile(rb'(?<="resourceVersion":")\d+(?=")')
_UID = re.compile(rb'(?<="uid":")[-0-9a-f]{36}(?=")')


def recorded(name: str) -> bytes:
    return (FOLDER / f"{name}.json").read_bytes().strip()


def host_name(number: int) -> bytes:
    return b"host-%05d" % number


def workload_name(host: bytes, place: int) -> bytes:
    return b"work-%b-%d" % (host[-5:], place)


class Shape:
    """One recorded object, split where the objects of its kind differ."""

    def __init__(self, content: bytes) -> None:
        version = _VERSION.search(content)
        uid = _UID.search(content)
        if version is None or uid is None:
            raise ValueError("no resourceVersion or no uid in a recorded object")
        content = _VERSION.sub(b"%(version)d", content.replace(b"%", b"%%"), count=1)
        self._uid_prefix = uid.group()[:24]
        self._format = content.replace(uid.group(), b"%(uid)b").replace(HOST, b"%(host)b")

    def made(self, host: bytes, *, version: int, uid: int = 0, name: bytes = b"") -> bytes:
        """Return the object of this host; `name` replaces the name `work` of the workload Pod."""
        content = self._format % {
            b"host": host,
            b"version": version,
            b"uid": self._uid_prefix + b"%012x" % (uid or int(host[-5:])),
        }
        return content.replace(b'"name":"work"', b'"name":"' + name + b'"', 1) if name else content


class SlurmShape:
    """The recorded Slurm node as one element of a listing."""

    def __init__(self, age: str) -> None:
        listing = msgspec.json.decode(recorded(f"slurm-node-{age}"), type=_Nodes)
        pod_uid = _UID.search(recorded(f"slurmd-pod-{age}"))
        assert pod_uid is not None
        self.record = bytes(listing.nodes[0])
        self._pod_uid = pod_uid.group()

    def made(self, host: bytes, *, state: bytes = b"IDLE") -> bytes:
        """Return the node of this host; our mark names the Pod that `Shape` makes for it."""
        uid = self._pod_uid[:24] + b"%012x" % int(host[-5:])
        record = self.record.replace(HOST, host).replace(self._pod_uid, uid)
        return record.replace(b'"IDLE"', b'"' + state + b'"', 1)


class Shapes:
    """All recorded objects of one age: cold or warm."""

    def __init__(self, age: str) -> None:
        self.node = Shape(recorded(f"node-{age}"))
        self.slurmd_pod = Shape(recorded(f"slurmd-pod-{age}"))
        self.slurm_node = SlurmShape(age)
        self._pod = Shape(recorded(f"pod-{age}"))

    def workload(self, host: bytes, place: int, *, version: int) -> bytes:
        """Return a workload Pod; its UID differs from those of the hosts."""
        uid = 10**6 + int(host[-5:]) * PODS_PER_HOST + place
        return self._pod.made(host, version=version, uid=uid, name=workload_name(host, place))


class _Nodes(msgspec.Struct):
    nodes: list[msgspec.Raw]


def cluster_uid() -> str:
    """Return the UID of the recorded cluster, from our mark in the warm shapes."""
    match = re.search(rb'\\"cluster\\":\\"([-0-9a-f]{36})', recorded("slurm-node-warm"))
    assert match is not None
    return match.group(1).decode()


def event(kind: bytes, content: bytes) -> bytes:
    return b'{"type":"' + kind + b'","object":' + content + b"}"
