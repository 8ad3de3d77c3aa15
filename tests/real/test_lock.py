"""The lock of Nodes with a real prolog, real taints and their eviction (L1-L4a).

The Pods are ended by kube-controller-manager; the stand-in for the kubelet takes as long as an
annotation says. Each figure is printed (`-rP`).
"""

import contextlib
import json
import time
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sunk_sync.server.tokens import LOCK, make_token
from tests.real.conftest import check_health, for_each_slurm
from tests.real.pod_bed import EXTRA_LINES, FOLDER, PARTITIONS, PodBed, configure_scripts, pod_bed
from tests.real.service import MANIFESTS, Service
from tests.real.stage import PREFIX, annotation, stays
from tests.real.testbed import SlurmConf, kube_objects
from tests.real.testbed.kubelet import END_DELAY

pytestmark = pytest.mark.real

LOCK_LINES = (
    f"Prolog={FOLDER}/sunk-sync-lock.sh",
    "PrologFlags=Alloc",
    "BatchStartTimeout=120",
)
HOSTS = 8
OURS = {"key": f"{PREFIX}lock", "value": "true", "effect": "NoExecute"}
THEIRS = {"key": "test/team", "value": "a", "effect": "NoSchedule"}
TOLERATION = {"key": f"{PREFIX}lock", "operator": "Exists"}
SOON_S = 0.5
"""A twentieth of the wait, a write, and a busy machine."""
CALLS = 200


class LockBed:
    """Jobs and foreign Pods; each test takes a host that no other has used."""

    def __init__(self, bed: PodBed) -> None:
        self.pods, self.kube, self.slurm = bed, bed.bed.kube, bed.bed.slurm
        self._fresh = iter(self.slurm.conf.slurmd_names)
        (self.slurm.root / FOLDER.lstrip("/") / "lock-token").write_text(
            make_token(bed.key, LOCK) + "\n"
        )
        self.configure()
        self.kube.kubectl("apply", "-k", MANIFESTS.parent / "lock")

    def configure(self, **settings: str) -> None:
        url = f"http://127.0.0.1:{self.pods.hooks_port}"
        token = f"{FOLDER}/lock-token"
        configure_scripts(self.slurm, url=url, lock_token_file=token, **settings)

    @contextlib.contextmanager
    def serve(self, **flags: str) -> Iterator[Service]:
        """Run the service with the lock; at the end show its log and check it for errors."""
        given = {"lock": "true", "lock_linger": "1s", **flags}
        service = self.pods.service(gate=False, **given)
        service.start().wait_ready().settle()
        try:
            yield service
            check_health(service, since=service.begun)
        finally:
            print(*service.lines("write")[-30:], sep="\n")
            service.kill9()

    def take(self) -> str:
        return next(self._fresh)

    def foreign(self, name: str, host: str, *, end_s: float | str, tolerates: bool = False) -> None:
        """Create a running Pod of another scheduler; its kubelet takes `end_s` to end it."""
        spec = {"tolerations": [TOLERATION] if tolerates else []}
        annotations = {END_DELAY: str(end_s)}
        made = kube_objects.pod(name, node=host, annotations=annotations, spec=spec)
        self.kube.create_pod(made)

    def lives(self, name: str) -> bool:
        return self.kube.pod_if_any(name, "default") is not None

    def end(self, name: str) -> None:
        self.kube.annotate_pod(name, "default", {END_DELAY: "0"})

    def delete(self, name: str) -> None:
        self.end(name)
        self.kube.delete_pod(name, "default")

    def state(self, host: str) -> str:
        return annotation(self.kube.node(host), "lock") or ""

    def taints(self, host: str) -> list[dict[str, str]]:
        """Return its taints without the times that Kubernetes adds to NoExecute."""
        taints = self.kube.node(host)["spec"].get("taints", [])
        return [{k: v for k, v in one.items() if k != "timeAdded"} for one in taints]

    def submit(self, name: str, host: str) -> str:
        return self.pods.submit(name, host)

    def began(self, name: str) -> float:
        self.until(lambda: self.pods.began(name), f"job {name} runs")
        at = self.pods.began(name)
        assert at is not None
        return at

    def until(self, claim: Callable[[], Any], what: str, *, within_s: float = 40) -> float:
        self.pods.until(claim, what, within_s=within_s)
        return time.time()

    def until_state(self, host: str, state: str) -> float:
        return self.until(lambda: self.state(host) == state, f"{host} has the lock {state!r}")

    def events(self, host: str) -> str:
        return self.kube.kubectl("describe", "node", host)

    def drained(self, host: str) -> bool:
        return "DRAIN" in self.slurm.slurm_node(host)["state"]

    def ask(self, job: str, host: str) -> tuple[float, str]:
        """Call as the prolog does; return the time that it took, and the answer."""
        body = {"job_id": job, "node": host, "nodes": host, "deadline_s": 15}
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.pods.hooks_port}/v1/lock",
            json.dumps(body).encode(),
            {"Authorization": f"Bearer {make_token(self.pods.key, LOCK)}"},
        )
        began = time.perf_counter()
        with urllib.request.urlopen(request, timeout=20) as answer:
            text = answer.read().decode()
        return time.perf_counter() - began, text


@contextlib.contextmanager
def started(version: str) -> Iterator[LockBed]:
    conf = SlurmConf(
        slurmds=HOSTS,
        kill_wait_s=4,
        partitions=PARTITIONS,
        extra_lines=(*EXTRA_LINES, *LOCK_LINES),
    )
    with pod_bed(version, conf) as made:
        yield LockBed(made)


bed = for_each_slurm(started)


def test_the_job_starts_when_the_last_foreign_pod_is_gone_L1_L3_L4(bed: LockBed) -> None:
    host = bed.take()
    bed.kube.patch(f"/api/v1/nodes/{host}", {"spec": {"taints": [THEIRS]}})
    for name, end_s in (("a", 0.3), ("b", 0.7), ("c", 1.2)):
        bed.foreign(name, host, end_s=end_s)
    bed.foreign("stays", host, end_s=0, tolerates=True)
    with bed.serve():
        asked_s = time.time()
        job = bed.submit("first", host)
        pending_s = bed.until_state(host, "pending")
        assert bed.taints(host) == [THEIRS, OURS]
        gone_s = bed.until(lambda: not any(map(bed.lives, "abc")), "the foreign Pods are gone")
        locked_s = bed.until_state(host, "locked")
        began_s = bed.began("first")
        bed.pods.say(
            f"submitted → pending {pending_s - asked_s:.3f} s, last Pod gone → locked "
            f"{locked_s - gone_s:.3f} s, → job runs {began_s - gone_s:.3f} s"
        )
        assert locked_s - gone_s < SOON_S
        assert began_s >= gone_s - 0.1
        assert bed.lives("stays")
        assert not bed.drained(host)

        took = sorted(bed.ask(job, host) for _ in range(CALLS))
        assert {text for _, text in took} == {'{"action":"go"}\n'}
        p99 = took[int(CALLS * 0.99) - 1][0]
        p50 = took[CALLS // 2][0]
        bed.pods.say(f"held already: p50 {p50 * 1e3:.1f} ms, p99 {p99 * 1e3:.1f} ms")
        assert p99 < 0.2

        bed.pods.cancel(job)
        ended_s = time.time()
        released_s = bed.until_state(host, "")
        bed.pods.say(f"cancelled → released {released_s - ended_s:.3f} s (linger 1 s)")
        assert bed.taints(host) == [THEIRS]
        assert bed.lives("stays")
    bed.delete("stays")


def test_the_next_job_finds_the_lock_L1(bed: LockBed) -> None:
    host = bed.take()
    with bed.serve(lock_linger="5s"):
        job = bed.submit("one", host)
        bed.began("one")
        assert bed.state(host) == "locked"
        bed.pods.cancel(job)
        bed.until(lambda: "IDLE" in bed.slurm.slurm_node(host)["state"], "the node is idle")
        job = bed.submit("two", host)
        bed.began("two")
        assert bed.state(host) == "locked"
        assert stays(lambda: bed.state(host) == "locked", for_s=7)
        bed.pods.cancel(job)
        bed.until_state(host, "")


def test_a_service_killed_while_pending_ends_the_same_L4(bed: LockBed) -> None:
    host = bed.take()
    bed.configure(lock_silent="5m")
    bed.foreign("slow", host, end_s="inf")
    with bed.serve() as service:
        job = bed.submit("held", host)
        bed.until_state(host, "pending")
        service.kill9()
        bed.end("slow")
        gone_s = bed.until(lambda: not bed.lives("slow"), "the foreign Pod is gone")
        assert bed.state(host) == "pending"
        restarted_s = time.time()
        service.start().wait_ready()
        ready_s = time.time()
        locked_s = bed.until_state(host, "locked")
        began_s = bed.began("held")
        bed.pods.say(
            f"started {restarted_s - gone_s:.3f} s after the Pod's end, ready after "
            f"{ready_s - restarted_s:.3f} s; ready → locked {locked_s - ready_s:.3f} s, "
            f"→ job runs {began_s - ready_s:.3f} s"
        )
        service.kill9()
        bed.pods.cancel(job)
        service.start().wait_ready()
        bed.until_state(host, "")
        assert bed.taints(host) == []
    bed.configure()


def test_a_job_cancelled_while_pending_leaves_no_lock_L3(bed: LockBed) -> None:
    host = bed.take()
    bed.foreign("stuck", host, end_s="inf")
    bed.configure(lock_silent="6s", lock_max="6s")
    with bed.serve():
        job = bed.submit("gone", host)
        bed.until_state(host, "pending")
        bed.pods.cancel(job)
        began_s = time.time()
        released_s = bed.until_state(host, "")
        bed.pods.say(f"cancelled while pending → released {released_s - began_s:.3f} s")
        assert released_s - began_s < 60
        assert bed.taints(host) == []
    bed.configure()
    bed.end("stuck")


def test_a_placeholder_waits_for_pods_that_tolerate_too_L2_L1(bed: LockBed) -> None:
    host = bed.take()
    bed.foreign("tolerant", host, end_s=0, tolerates=True)
    with bed.serve():
        bed.pods.make_pod("ours", host=host, tolerations=[])
        bed.until_state(host, "pending")
        assert stays(lambda: bed.state(host) == "pending" and not bed.pods.host_of("ours"))
        bed.delete("tolerant")
        bed.until_state(host, "locked_strict")
        bed.pods.until_bound("ours")
        tolerations = bed.pods.pod("ours")["spec"]["tolerations"]
        shield = {"key": OURS["key"], "operator": "Exists", "effect": "NoExecute"}
        assert tolerations.count(shield) == 1
        running = lambda: bed.pods.pod("ours")["status"]["phase"] == "Running"  # noqa: E731
        bed.until(running, "our Pod runs")
        assert stays(running, for_s=2)
        assert "deletionTimestamp" not in bed.pods.pod("ours")["metadata"]
        bed.pods.delete_pod("ours")
        bed.until_state(host, "")


def test_a_late_lock_starts_the_job_with_an_event_and_drains_nothing_L4a(bed: LockBed) -> None:
    host = bed.take()
    bed.foreign("stubborn", host, end_s="inf")
    with bed.serve(lock_wait="2s"):
        asked_s = time.time()
        job = bed.submit("late", host)
        took_s = bed.began("late") - asked_s
        bed.pods.say(f"foreign Pod that never ends, --lock-wait 2s: job runs after {took_s:.3f} s")
        assert 1.9 < took_s < 10
        bed.until(lambda: "NodeLockLate" in bed.events(host), "an Event on the Node")
        assert "Pods default/stubborn live there" in bed.events(host)
        assert not bed.drained(host)
        assert bed.state(host) == "pending"
        bed.end("stubborn")
        bed.until_state(host, "locked")
        bed.pods.cancel(job)
        bed.until_state(host, "")


def test_by_choice_a_late_job_is_held_until_the_pods_are_gone_L4a(bed: LockBed) -> None:
    host = bed.take()
    bed.foreign("held-up", host, end_s="inf")
    with bed.serve(lock_wait="1s", lock_late="hold"):
        job = bed.submit("patient", host)
        bed.until(lambda: "NodeLockLate" in bed.events(host), "an Event on the Node")
        assert stays(lambda: bed.pods.began("patient") is None, for_s=3)
        bed.end("held-up")
        bed.began("patient")
        assert bed.state(host) == "locked"
        bed.pods.cancel(job)
        bed.until_state(host, "")


def test_while_nobody_answers_the_job_starts_and_no_node_drains_L4a(bed: LockBed) -> None:
    host = bed.take()
    bed.configure(lock_silent="2s")
    asked_s = time.time()
    job = bed.submit("alone", host)
    took_s = bed.began("alone") - asked_s
    bed.pods.say(f"no service, lock-silent 2s: job runs after {took_s:.3f} s")
    assert took_s > 0.9
    assert not bed.drained(host)
    assert bed.state(host) == ""
    bed.pods.cancel(job)
    bed.configure()
