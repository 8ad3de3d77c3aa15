"""Random changes of Kubernetes and Slurm, and the checks that must pass after them.

The users here act on one host at a time and never within REST_S of a change in Kubernetes on the
same host. What a human writes between our read and our write is lost (S0), and a test could not
tell which of the two came first.
"""

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from tests.real.stage import PREFIX, Host, annotation
from tests.real.testbed import RestError
from tests.real.testbed.kube_objects import Object, conditions, status_of

REST_S = 0.4
PAUSE_S = 0.03
HUMAN = ("fan broken", "bad DIMM", "")
Act = Callable[[Host], None]


class Churn:
    """A thread that changes both at random; `humans` records who drained what."""

    def __init__(self, hosts: list[Host], *, seed: int) -> None:
        self.hosts = hosts
        self.humans: dict[str, str] = {}
        """Host -> reason of a human's drain that is still in force."""
        self.done = 0
        self.failure: BaseException | None = None
        self._random = random.Random(seed)
        self._touched = dict.fromkeys((host.name for host in hosts), 0.0)
        self._going = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        self._going.set()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Wait for the last operation; raise the thread's exception."""
        self._going.clear()
        assert self._thread is not None
        self._thread.join()
        if self.failure is not None:
            raise self.failure

    def _run(self) -> None:
        try:
            while self._going.is_set():
                self._act()
                time.sleep(PAUSE_S * self._random.random())
        except BaseException as error:  # noqa: BLE001 - raised by end()
            self.failure = error

    def _act(self) -> None:
        host = self._random.choice(self.hosts)
        if self._random.random() < 0.3:
            if time.monotonic() - self._touched[host.name] > REST_S:
                self._human(host)
            return
        acts: tuple[Act, ...] = (self._cordon, self._annotate, self._ready, self._delete)
        weights = (4, 4, 2, 1)
        self._random.choices(acts, weights)[0](host)
        self._touched[host.name] = time.monotonic()
        self.done += 1

    def _cordon(self, host: Host) -> None:
        host.bed.kube.cordon(host.name, unschedulable=self._random.random() < 0.5)

    def _annotate(self, host: Host) -> None:
        name = self._random.choice(("cordon", "pending_deletion"))
        value = self._random.choice((None, None, "yes"))
        _if_there(lambda: host.annotate_pod(**{name: value}))

    def _ready(self, host: Host) -> None:
        _if_there(lambda: host.set_pod_ready(ready=self._random.random() < 0.7))

    def _delete(self, host: Host) -> None:
        """Delete the Pod or create it; a terminating Pod can disappear in between."""
        try:
            host.create_pod()
        except RestError as error:
            if error.status != 409:
                raise
            _if_there(host.delete_pod)

    def _human(self, host: Host) -> None:
        """Perform one operation of an administrator that fits the current state."""
        row = host.slurm
        drained, reason = "DRAIN" in row["state"], row["reason"]
        if not drained:
            if not reason.startswith("k8s:") and not cause_of(host):
                self._drain(host, self._random.choice(HUMAN), before=reason)
        elif host.name in self.humans:
            host.update(state="undrain")
            del self.humans[host.name]
        elif self._random.random() < 0.5:
            if reason == cause_of(host):
                self._drain(host, HUMAN[0], before=reason)
        else:
            host.update(state="undrain")

    def _drain(self, host: Host, reason: str, *, before: str) -> None:
        """Drain a node; without a reason the text `before` stays, which can be ours on 24.11."""
        fields = {"reason": reason} if reason else {}
        host.bed.slurm.update_slurm_node(host.name, state=["DRAIN"], **fields)
        self.humans[host.name] = reason or before


def _if_there(act: Callable[[], None]) -> None:
    try:
        act()
    except RestError as error:
        if error.status != 404:
            raise


@dataclass(frozen=True)
class Truth:
    """One host as both servers report it, read at once."""

    drained: bool
    reason: str
    comment: str
    state: frozenset[str]
    node: Object
    pod: Object | None


def read(host: Host) -> Truth:
    row = host.slurm
    state, reason, comment = frozenset(row["state"]), row["reason"], row["comment"]
    return Truth("DRAIN" in state, reason, comment, state, host.node, host.pod_if_any)


def cause_of(host: Host) -> str:
    """Return the reason that S9 requires, from the API server alone; empty: none."""
    pod, node = host.pod_if_any, host.node
    if pod is None:
        return "k8s: pod terminated"
    if "deletionTimestamp" in pod["metadata"]:
        return "k8s: pod terminating"
    if (value := annotation(pod, "pending-deletion")) is not None:
        return f"k8s: pod pending deletion: {value}"
    if node["spec"].get("unschedulable"):
        return "k8s: node cordoned"
    if annotation(pod, "cordon"):
        return "k8s: pod cordoned"
    return "" if status_of(pod, "Ready") == "True" else "k8s: pod not ready"


def faults(host: Host, human: str | None) -> list[str]:
    """Return the deviations; `human`: reason of a human's drain, None if there is none."""
    truth, cause = read(host), cause_of(host)
    found = [*_drain_faults(truth, cause, human), *_node_faults(truth, host), *_pod_faults(truth)]
    if "NOT_RESPONDING" in truth.state:
        found.append("NOT_RESPONDING, as after each undrain until the next ping")
    return [f"{host.name}: {fault}" for fault in found]


def _drain_faults(truth: Truth, cause: str, human: str | None) -> list[str]:
    stands = (truth.drained, truth.reason)
    wanted = cause if human is None else human
    if human is not None or cause:
        return [] if stands == (True, wanted) else [f"expected {wanted!r}, but {stands}"]
    fine = not truth.drained and not truth.reason.startswith("k8s:")
    return [] if fine else [f"expected no drain, but {stands}"]


def _node_faults(truth: Truth, host: Host) -> list[str]:
    """M2, M3, M4, M8."""
    ours = truth.reason.startswith("k8s:")
    wanted = {
        "SlurmDrain": str(truth.drained),
        "SlurmCordon": str(truth.drained and not ours),
        "SlurmRunning": "False",
        "SlurmNotResponding": str("NOT_RESPONDING" in truth.state),
        "Ready": "True",
    }
    shown = {kind: status_of(truth.node, kind) for kind in wanted}
    found = [] if shown == wanted else [f"Node shows {shown}, expected {wanted}"]
    found += _annotation_faults(truth, truth.node)
    pod = truth.node["metadata"]["labels"].get(PREFIX + "pod")
    if pod != (host.pod_name if truth.pod else None):
        found.append(f"label pod is {pod}")
    uid = truth.pod["metadata"]["uid"] if truth.pod else None
    if uid and f'"uid":"{uid}"' not in truth.comment:
        found.append(f"mark is {truth.comment}, Pod is {uid}")
    return found


def _annotation_faults(truth: Truth, an_object: Object) -> list[str]:
    shown = annotation(an_object, "drain")
    wanted = (truth.reason or "(no reason given)") if truth.drained else None
    return [] if shown == wanted else [f"annotation drain is {shown!r}, expected {wanted!r}"]


def _pod_faults(truth: Truth) -> list[str]:
    """M1, M3, S6."""
    if truth.pod is None:
        return []
    found = _annotation_faults(truth, truth.pod)
    wanted = {f"SlurmNodeState{camel(flag)}" for flag in truth.state}
    shown = {kind for kind in conditions(truth.pod) if kind.startswith("SlurmNodeState")}
    if shown != wanted:
        found.append(f"Pod shows {sorted(shown)}, expected {sorted(wanted)}")
    done = truth.drained and annotation(truth.pod, "pending-deletion") is not None
    if (annotation(truth.pod, "drained") == "true") != done:
        found.append(f"annotation drained is {'missing' if done else 'set'}")
    return found


def camel(flag: str) -> str:
    """Spell a state of Slurm as conditions do."""
    return "".join(word.capitalize() for word in flag.split("_"))
