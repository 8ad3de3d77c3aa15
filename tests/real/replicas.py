"""Two processes of the service with leader election, each behind proxies that see its writes."""

import json
import threading
import time
import urllib.error
import urllib.request
from base64 import b64decode
from collections.abc import Callable
from itertools import count
from typing import Any, NamedTuple

from sunk_sync.kube.write.hooks_key import secret_name
from sunk_sync.server.tokens import GATE, make_token
from tests.real.service import NAMESPACE, QUICK, Service
from tests.real.stage import eventually
from tests.real.tap import Tap, tapped_kubeconfig
from tests.real.testbed import Bed
from tests.real.testbed.closing import Closing

OURSELVES = ("/leases", "/secrets/")
"""Paths of writes that every replica may send: to the Lease and to the hooks key."""
FLIP_EVERY_S = 0.08
CALL_EVERY_S = 0.25
ATTEMPT_S = 5.0
FOLLOWS = {"leader_elect": "true", **QUICK}
_numbers = count(1)


class Write(NamedTuple):
    at: float
    name: str
    what: str


class Line:
    """One replica's way to one server: it records writes, and can be cut."""

    def __init__(self, name: str, writes: list[Write]) -> None:
        self._name = name
        self._writes = writes
        self._cut = threading.Event()
        self._closed = threading.Event()

    def hook(self, when: str, method: str, path: str) -> bool:
        if self._cut.is_set():
            self._closed.wait()  # as packets that nobody answers
            return False
        ours = method == "GET" or any(one in path for one in OURSELVES)
        if when == "before" and not ours:
            self._writes.append(Write(time.monotonic(), self._name, f"{method} {path}"))
        return True

    def cut(self) -> None:
        self._cut.set()

    def close(self) -> None:
        self._cut.set()
        self._closed.set()


class Replica(Closing):
    """One process; a new one is a new object."""

    def __init__(self, bed: Bed, writes: list[Write], **flags: str) -> None:
        self.name = f"replica-{next(_numbers)}"
        self.to_kube, self._to_slurm = Line(self.name, writes), Line(self.name, writes)
        kube, slurm = bed.kube, bed.slurm
        self._taps = (
            Tap(kube.url, self.to_kube.hook, ca_file=kube.ca_file),
            Tap(slurm.url, self._to_slurm.hook),
        )
        self.service = Service(
            bed,
            **{
                **FOLLOWS,
                "kubeconfig": str(tapped_kubeconfig(bed, self._taps[0], self.name)),
                "slurm_api_base": self._taps[1].url,
                **flags,
            },
        ).start()

    @property
    def leads(self) -> bool:
        return self.service.metric("leader_election_master_status") == 1

    @property
    def hooks_url(self) -> str:
        (line,) = self.service.lines("hooks server open")
        return f"http://{line['address']}"

    def close(self) -> None:
        self.service.kill9()
        self.to_kube.close()
        self._to_slurm.close()
        for tap in self._taps:
            tap.close()


class Pair(Closing):
    """Two replicas, one of which leads."""

    def __init__(self, bed: Bed, **flags: str) -> None:
        self.bed = bed
        self.writes: list[Write] = []
        """Every write that reached a proxy, in this order."""
        self._flags = flags
        self.replicas = [self._new(), self._new()]
        self.settle()

    def _new(self) -> Replica:
        return Replica(self.bed, self.writes, **self._flags)

    def settle(self) -> None:
        """Wait until one leads, and both are ready and know it."""
        for one in self.replicas:
            one.service.wait_ready()
        eventually(
            lambda: (
                sum(one.leads for one in self.replicas) == 1
                and self.leader.service.lines("writes from now on")
                and "the leader is" in self.standby.service.readyz_verbose()[1]
            ),
            "one of two replicas leads",
            show=lambda: "\n".join(one.service.tail() for one in self.replicas),
        )

    @property
    def leader(self) -> Replica:
        return next(one for one in self.replicas if one.leads)

    @property
    def standby(self) -> Replica:
        return next(one for one in self.replicas if not one.leads)

    def replace(self, ended: Replica) -> None:
        """Start a new process for one that ended, as a Deployment does."""
        ended.close()
        self.replicas[self.replicas.index(ended)] = self._new()
        self.settle()

    def revive(self) -> None:
        """Replace those that ended without being asked: a busy machine can cost them the Lease."""
        for one in [one for one in self.replicas if not one.service.running]:
            print(f"{one.name} ended:", *one.service.tail().splitlines()[-5:], sep="\n")
            self.replace(one)

    def written_by(self, replica: Replica) -> list[Write]:
        return [one for one in self.writes if one.name == replica.name]

    def close(self) -> None:
        for one in self.replicas:
            one.close()


class Repeated(Closing):
    """Calls a function in a thread again and again."""

    def __init__(self, doing: Callable[[int], None], *, every_s: float) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(doing, every_s), daemon=True)
        self._thread.start()

    def _run(self, doing: Callable[[int], None], every_s: float) -> None:
        for number in count():
            if self._stop.wait(every_s):
                return
            doing(number)

    def close(self) -> None:
        self._stop.set()
        self._thread.join()


def flipping(bed: Bed) -> Repeated:
    """Cordon and uncordon one Node after the other, so that there is always something to write."""
    names = bed.slurm.conf.external_names

    def flip(number: int) -> None:
        turn, place = divmod(number, len(names))
        bed.kube.cordon(names[place], unschedulable=turn % 2 == 0)

    return Repeated(flip, every_s=FLIP_EVERY_S)


class Calls(Closing):
    """Gate calls to either replica, as through their Service. A call is repeated until it is
    answered, as the scripts do."""

    def __init__(self, pair: Pair) -> None:
        self._pair = pair
        self._key = hooks_key(pair.bed)
        self.begun = 0
        self.waited_s: list[float] = []
        """Of each answered call."""
        self._threads: list[threading.Thread] = []
        self._stop = threading.Event()
        self._repeated = Repeated(self._begin, every_s=CALL_EVERY_S)

    def _begin(self, number: int) -> None:
        self.begun += 1
        self._threads = [one for one in self._threads if one.is_alive()]
        thread = threading.Thread(target=self._until_answered, args=(number,), daemon=True)
        self._threads.append(thread)
        thread.start()

    def _until_answered(self, number: int) -> None:
        began_s = time.monotonic()
        for attempt in count(number):
            replicas = self._pair.replicas
            if self._ask(replicas[attempt % len(replicas)]):
                self.waited_s.append(time.monotonic() - began_s)
                return
            if self._stop.wait(0.2):
                return

    def _ask(self, replica: Replica) -> bool:
        body = {"job_id": "999999", "nodes": "n1", "deadline_s": ATTEMPT_S - 1}
        try:
            return bool(call(replica.hooks_url, self._key, "/v1/gate", body)["action"] == "go")
        except (OSError, ValueError, KeyError):
            return False

    def close(self) -> None:
        """End; every call has some time left to be answered."""
        self._repeated.close()
        for thread in self._threads:
            thread.join(2 * ATTEMPT_S)
        self._stop.set()


def hooks_key(bed: Bed) -> bytes:
    name = secret_name("slurm")
    secret = bed.kube.rest.call("GET", f"/api/v1/namespaces/{NAMESPACE}/secrets/{name}")
    return b64decode(secret["data"]["key"])


def call(url: str, key: bytes, path: str, body: Any) -> Any:
    """Send one call as the gate does; return the body of a 200."""
    request = urllib.request.Request(
        url + path,
        json.dumps(body).encode(),
        {"Authorization": f"Bearer {make_token(key, GATE)}", "Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=ATTEMPT_S) as answer:
            return json.loads(answer.read())
    except urllib.error.HTTPError as error:
        raise ConnectionError(str(error.code)) from error
