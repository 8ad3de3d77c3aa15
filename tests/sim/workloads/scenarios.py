"""Scenarios of Pods and their jobs. sunk-sync is also killed at each of their points."""

from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec

from sunk_sync.embedded.slurm.memory import Partition
from sunk_sync.embedded.slurm.model.job import JobRequest
from tests.sim import words
from tests.sim.cast import END_DELAY
from tests.sim.stage import Scenario, Stage, Step
from tests.sim.words import PREFIX
from tests.sim.workloads import storage as storing
from tests.sim.workloads.group_steps import members, other, with_node, without_node, zones
from tests.sim.workloads.people import (
    EXIT_CODE,
    GATES,
    NAMESPACE,
    PREEMPTING,
    RUN,
    offer_cpus,
    pod_spec,
    with_port,
)
from tests.sim.workloads.run import SCRIPT_MARK
from tests.sim.workloads.stage import WorkloadStage
from tests.sim.workloads.storage import AT_ONCE, LOCAL, MADE
from tests.sim.workloads.teams import member
from tests.sim.workloads.truth import is_live, is_ours

Doing = Callable[[Stage], object]
PARTITIONS = (
    Partition(name="main", default=True, preempt_mode="CANCEL"),
    Partition(name=PREEMPTING, tier=2),
)


def pods(*names: str, cpus: int = 4, end_s: float = 1, gang: str = "", run_s: float = 0) -> Doing:
    annotations = {END_DELAY: str(end_s)} | ({RUN: str(run_s)} if run_s else {})
    if gang:
        annotations |= {words.GANG: gang, words.GANG_SIZE: str(len(names))}

    def doing(stage: Stage) -> None:
        for name in names:
            stage.kube.add_pod(
                name,
                namespace=NAMESPACE,
                metadata={"annotations": annotations},
                spec=pod_spec(cpus=cpus),
            )

    return doing


NEVER = (0.0, 0)
"""The containers do not end by themselves."""


def team(attempt: int = 1, **ranks: tuple[float, int]) -> Doing:
    """Create ranks of a gang of two; each runs so long, and has this exit code."""

    def doing(stage: Stage) -> None:
        for rank, (run_s, code) in ranks.items():
            knobs = {RUN: str(run_s), EXIT_CODE: str(code)} if run_s else {}
            name, metadata = member("team", rank, attempt, size=2, knobs=knobs)
            spec = pod_spec(cpus=15)
            stage.kube.add_pod(name, namespace=NAMESPACE, metadata=metadata, spec=spec)

    return doing


def pods_with_port(*names: str, claims: tuple[str, ...] = ()) -> Doing:
    """Create Pods of which a Node can have only one. Nobody creates the claims."""

    def doing(stage: Stage) -> None:
        for name in names:
            spec = storing.with_claims(with_port(pod_spec()), *claims)
            stage.kube.add_pod(name, namespace=NAMESPACE, spec=spec)

    return doing


def storage(*hosts: str, **knobs: str) -> Doing:
    """Create the classes, and on each of these hosts a volume that Pods can claim."""

    def doing(stage: Stage) -> None:
        storing.add_classes(stage.kube, **knobs)
        for node in hosts:
            storing.add_volume(stage.kube, f"disk-{node}", LOCAL, node=node)

    return doing


def disks(node: str, count: int) -> Doing:
    """Create more volumes on this host."""

    def doing(stage: Stage) -> None:
        for number in range(count):
            storing.add_volume(stage.kube, f"disk-{node}-{number}", LOCAL, node=node)

    return doing


def limits(*counts: int) -> Doing:
    """Let the hosts attach so many volumes, k1 first."""

    def doing(stage: Stage) -> None:
        for number, count in enumerate(counts, start=1):
            storing.set_limit(stage.kube, f"k{number}", count)

    return doing


def rooms(*sizes: int) -> Doing:
    """Let the driver have so many GiB for a volume on the hosts, k1 first."""

    def doing(stage: Stage) -> None:
        for number, gib in enumerate(sizes, start=1):
            storing.set_room(stage.kube, f"k{number}", gib, namespace=NAMESPACE)

    return doing


def narrow(cpus: int) -> Doing:
    """Let each Node offer less than its Slurm node has, as beside a slurmd Pod."""

    return lambda stage: offer_cpus(stage.kube, cpus)


def pinned(name: str, *, node: str) -> Doing:
    """Create a Pod whose claim is bound already, to a volume of this Node."""

    def doing(stage: Stage) -> None:
        storing.add_classes(stage.kube)
        storing.add_volume(stage.kube, f"disk-{node}", AT_ONCE, node=node)
        storing.add_claim(stage.kube, name, AT_ONCE, namespace=NAMESPACE)
        spec = storing.with_claims(pod_spec(), name)
        stage.kube.add_pod(name, namespace=NAMESPACE, spec=spec)

    return doing


def gang_with_disks(**nodes: str) -> Doing:
    """Create a gang; each Pod has a claim that is bound already, to a volume of its Node."""

    def doing(stage: Stage) -> None:
        storing.add_classes(stage.kube)
        for node in nodes.values():
            storing.add_volume(stage.kube, f"disk-{node}", AT_ONCE, node=node)
        for name, node in nodes.items():
            storing.add_bound_claim(stage.kube, name, f"disk-{node}", namespace=NAMESPACE)
        add_gang(stage, *nodes)

    return doing


def gang_with_claims(*names: str, of: str) -> Doing:
    """Create a gang; each Pod has a claim of its name, which may be there already."""

    def doing(stage: Stage) -> None:
        for name in names:
            if storing.claim_of(stage.kube, name, namespace=NAMESPACE) is None:
                storing.add_claim(stage.kube, name, of, namespace=NAMESPACE)
        add_gang(stage, *names)

    return doing


def add_gang(stage: Stage, *names: str) -> None:
    annotations = {words.GANG: "g", words.GANG_SIZE: str(len(names))}
    for name in names:
        spec = storing.with_claims(pod_spec(cpus=15), name)
        metadata = {"annotations": annotations}
        stage.kube.add_pod(name, namespace=NAMESPACE, metadata=metadata, spec=spec)


def sharing(*names: str) -> Doing:
    """Create Pods of one host each. Each host reaches the claim of all, but one at a time."""

    def doing(stage: Stage) -> None:
        storing.add_classes(stage.kube, provision_s="3", everywhere="yes")
        storing.add_claim(stage.kube, "shared", MADE, namespace=NAMESPACE)
        spec = storing.with_claims(pod_spec(cpus=15), "shared")
        for name in names:
            stage.kube.add_pod(name, namespace=NAMESPACE, spec=spec)

    return doing


def pods_with_claims(*names: str, of: str, cpus: int = 4, **knobs: str) -> Doing:
    """Create Pods, each with a claim of its name."""

    def doing(stage: Stage) -> None:
        for name in names:
            storing.add_claim(stage.kube, name, of, namespace=NAMESPACE, **knobs)
            spec = storing.with_claims(pod_spec(cpus=cpus), name)
            stage.kube.add_pod(name, namespace=NAMESPACE, spec=spec)

    return doing


def gated(name: str) -> Doing:
    return lambda stage: stage.kube.add_pod(name, namespace=NAMESPACE, spec=pod_spec(**GATES))


def slurmctld_forgets(*, ungated: str) -> Doing:
    """Let slurmctld lose all jobs. This Pod then gets the first job id again."""

    def doing(stage: Stage) -> None:
        stage.slurm.restart(now_s=stage.now_s, lose_state="everything")
        path = f"namespaces/{NAMESPACE}/pods/{ungated}"
        stage.worlds.patch(path, {"spec": {"schedulingGates": []}})

    return doing


def delete(name: str) -> Doing:
    return lambda stage: stage.kube.delete_pod(name, namespace=NAMESPACE)


def annotate(name: str, **annotations: str) -> Doing:
    keys = {PREFIX + key.replace("_", "-"): value for key, value in annotations.items()}
    return lambda stage: stage.kube.annotate(name, keys, namespace=NAMESPACE)


def their_job(*, seconds: float, nodes: int = 3, partition: str = "") -> Doing:
    request = JobRequest(
        name="theirs",
        user="alice",
        user_id=1001,
        nodes=nodes,
        cpus=16,
        memory_mb=100,
        partition=partition,
        duration_s=seconds,
    )
    return lambda stage: stage.slurm.submit(request, now_s=stage.now_s)


def with_ours(act: str) -> Doing:
    """Perform a user's operation on each live placeholder."""

    def doing(stage: Stage) -> None:
        for job in list(stage.slurm.jobs.values()):
            if is_live(job) and is_ours(job, stage.worlds.cluster_uid):
                getattr(stage.slurm, act)(job.job_id, now_s=stage.now_s)

    return doing


def write_into_jobs(**fields: str) -> Doing:
    """Let somebody write into each live placeholder."""

    def doing(stage: Stage) -> None:
        for job in list(stage.slurm.jobs.values()):
            if is_live(job) and is_ours(job, stage.worlds.cluster_uid):
                stage.slurm.update_job(job.job_id, fields, now_s=stage.now_s)

    return doing


def slurmd(name: str, *, up: bool) -> Doing:
    return lambda stage: (
        stage.slurm.start_slurmd(name, now_s=stage.now_s)
        if up
        else stage.slurm.kill_slurmd(name, now_s=stage.now_s)
    )


def ready(*names: str, on: bool) -> Doing:
    """Set the Nodes Ready or NotReady. The grace period is too long for a drain."""

    def doing(stage: Stage) -> None:
        for name in names:
            stage.kube.set_node_ready(name, ready=on)

    return doing


def slurmrestd(how: Literal["", "refused", "html"]) -> Doing:
    """Let slurmrestd answer, refuse connections, or be replaced by a proxy without a server."""

    def doing(stage: Stage) -> None:
        stage.wire.outages.clear()
        if how:
            stage.wire.outages["slurm"] = how

    return doing


def story(rows: str, *steps: Step, gate: bool = False, **settings: Any) -> Scenario:
    """Return a scenario with the usual settings."""
    return Scenario(
        rows=rows,
        steps=steps,
        settings={
            "components": ("syncer", "scheduler"),
            "watch_namespace": (NAMESPACE,),
            "gate": "on" if gate else "off",
            **settings,
        },
        knobs={"prolog_slurmctld": gate, "epilog_slurmctld": gate, "acted_script": SCRIPT_MARK},
        partitions=PARTITIONS,
        staged_by=WorkloadStage,
    )


def another_clusters_job(stage: Stage) -> object:
    """Submit a job whose identity names another Kubernetes cluster and an unknown Pod."""
    mark = {"cluster": "another", "scheduler": words.SCHEDULER, "work": "w", "pods": ["x/y/z"]}
    request = JobRequest(
        name="k8s/x/y/z",
        admin_comment=msgspec.json.encode({"sunk-sync": mark}).decode(),
        duration_s=None,
    )
    return stage.slurm.submit(request, now_s=stage.now_s)


FULL = their_job(seconds=40)
PUSHES = their_job(seconds=20, partition=PREEMPTING)

SCENARIOS: Mapping[str, Scenario] = {
    "a pod is bound": story("P1 P11", (1, pods("a"))),
    "a pod is bound and lives on": story("P11", (1, pods("a")), (200, pods("b"))),
    "a job of another cluster": story("P22", (1, another_clusters_job), (1, pods("a"))),
    "a pod is bound at once": story("P11a", (1, pods("a")), gate=True),
    "a pod waits and says so": story("P1 P26", (1, FULL), (3, pods("a", cpus=15))),
    "a pod that is refused says so": story("P2", (1, pods("a", cpus=0))),
    "a pod is deleted after it was bound": story("P14", (1, pods("a", end_s=5)), (9, delete("a"))),
    "a pod is deleted while it waits": story(
        "P13", (1, FULL), (3, pods("a", cpus=15)), (5, delete("a"))
    ),
    "a pod ends by itself": story("P15", (1, pods("a", run_s=8))),
    "a human cancels the job of a waiting pod": story(
        "P17", (1, FULL), (3, pods("a", cpus=15)), (5, with_ours("cancel"))
    ),
    "a human cancels the job of a waiting pod and requests another": story(
        "P17",
        (1, FULL),
        (3, pods("a", cpus=15)),
        (5, with_ours("cancel")),
        (9, annotate("a", resubmit="again")),
    ),
    "a human cancels the job of a bound pod": story(
        "P16", (1, pods("a", end_s=5)), (9, with_ours("cancel"))
    ),
    "a waiting pod is edited, its job is updated": story(
        "P20", (1, FULL), (3, pods("a", cpus=15)), (5, annotate("a", priority="7000"))
    ),
    "a waiting pod is edited, its job is replaced": story(
        "P20", (1, FULL), (3, pods("a", cpus=15)), (5, annotate("a", user_id="1000"))
    ),
    "a gang of two": story("G1", (1, pods("a", "b", cpus=15, gang="g"))),
    "a gang loses a member": story("G3", (1, pods("a", "b", cpus=15, gang="g")), (9, delete("b"))),
    "a gang loses a member while it waits": story(
        "G3", (1, FULL), (3, pods("a", "b", cpus=15, gang="g")), (5, delete("b"))
    ),
    "a gang that failed is made again": story(
        "G8", (1, team(a=(8, 1), b=(8, 1))), (20, team(2, a=NEVER, b=NEVER))
    ),
    "a gang of which one succeeded is made again": story(
        "G8", (1, team(a=(8, 0), b=(8, 1))), (20, team(2, b=NEVER))
    ),
    "a failed member is made again while another runs": story(
        "G8", (1, team(a=(8, 1), b=NEVER)), (20, team(2, a=NEVER)), (40, team(3, b=NEVER))
    ),
    "equal pods as an array": story("P1", (1, pods("a", "b", "c", cpus=5))),
    "three pods want one port": story("P8", (1, pods_with_port("a", "b", "c"))),
    "a pod waits for a port": story(
        "P8", (1, pods_with_port("a", "b", "c", "d")), (20, delete("b"))
    ),
    "a provisioner makes a volume": story(
        "P8", (1, storage(provision_s="3")), (1, pods_with_claims("a", of=MADE))
    ),
    "two pods where a Node has room for one": story(
        "P28", (1, narrow(15)), (1, pods("a", "b", cpus=8))
    ),
    "a pod waits for room on full hosts": story(
        "P28 P32", (1, narrow(15)), (1, pods("a", "b", "c", "d", cpus=8)), (60, delete("a"))
    ),
    "two pods get volumes where a Node has room for one": story(
        "P28 P8",
        (1, storage(provision_s="3")),
        (1, narrow(15)),
        (1, pods_with_claims("a", "b", of=MADE, cpus=8)),
    ),
    "two pods take local volumes": story(
        "P8", (1, storage("k1", "k3")), (1, pods_with_claims("a", "b", of=LOCAL, bind_s="1"))
    ),
    "two pods want one local volume": story(
        "P8",
        (1, storage("k1")),
        (1, pods_with_claims("a", "b", of=LOCAL)),
        (30, lambda stage: storing.add_volume(stage.kube, "disk-k3", LOCAL, node="k3")),
    ),
    "five pods want one local volume": story(
        "P8",
        (1, storage("k1")),
        (1, pods_with_claims("a", "b", "c", "d", "e", of=LOCAL, cpus=2)),
        (30, disks("k3", 4)),
    ),
    "a bound claim decides the host": story("P8", (1, pinned("a", node="k3"))),
    "a gang with disks on two hosts": story("P8 G1", (1, gang_with_disks(a="k3", b="k1"))),
    "a gang comes back to the volumes that were made for it": story(
        "P8 G1",
        (1, storage(provision_s="3")),
        (1, gang_with_claims("a", "b", of=MADE)),
        (30, delete("a")),
        (60, gang_with_claims("b", "a", of=MADE)),
    ),
    "a provisioner fails on one host": story(
        "P8 P32",
        (1, storage(provision_s="2", not_on="k1")),
        (1, pods_with_claims("a", of=MADE, cpus=15)),
    ),
    "a claim waits in the queue longer than its time": story(
        "P8",
        (1, storage(provision_s="3")),
        (1, FULL),
        (3, pods_with_claims("a", of=MADE)),
        volume_timeout_s=10.0,
    ),
    "a pod that misses its claim holds up nobody": story(
        "P8", (1, pods_with_port("a", claims=("none",))), (2, pods_with_port("b"))
    ),
    "the job id of a claim goes to another pod": story(
        "P8 P23",
        (1, storage(provision_s="8", not_on="k1")),
        (1, gated("b")),
        (1, pods_with_claims("a", of=MADE)),
        (6, slurmctld_forgets(ungated="b")),
    ),
    "two pods share a claim that one host at a time can use": story(
        "P8", (1, sharing("a", "b")), (90, delete("a"))
    ),
    "two pods whose hosts attach one volume each": story(
        "P8",
        (1, storage(everywhere="yes")),
        (1, limits(1, 1, 1)),
        (1, pods_with_claims("a", of=MADE)),
        (20, pods_with_claims("b", of=MADE)),
    ),
    "a pod waits until a host can attach its volume": story(
        "P8",
        (1, storage(everywhere="yes")),
        (1, limits(1, 1, 1)),
        (1, pods_with_claims("a", "b", "c", of=MADE)),
        (30, pods_with_claims("d", of=MADE)),
        (30, delete("b")),
    ),
    "a volume is made where there is room": story(
        "P8", (1, storage()), (1, rooms(0, 5, 0)), (1, pods_with_claims("a", of=MADE))
    ),
    "a pod waits for room in the storage": story(
        "P8",
        (1, storage()),
        (1, rooms(0, 0, 0)),
        (1, pods_with_claims("a", of=MADE)),
        (30, rooms(0, 0, 5)),
    ),
    "three pods are spread over two zones": story(
        "P8", (1, zones("a", "a", "b")), (9, members("a", "b", "c", of="by-zone"))
    ),
    "a pod waits until its second zone is back": story(
        "P8",
        (1, zones("a", "a", "b")),
        (9, members("a", "b", of="by-two-zones")),
        (20, without_node("k3")),
        (5, members("c", of="by-two-zones")),
        (60, with_node("k3", zone="b")),
    ),
    "a zone is gone, and its pods go to the other": story(
        "P8",
        (1, zones("a", "a", "b")),
        (9, members("a", "b", of="by-zone")),
        (20, without_node("k3")),
        (5, members("c", of="by-zone")),
        (30, with_node("k3", zone="b")),
    ),
    "a pod that ends counts for no spread": story(
        "P8",
        (1, zones("a", "b", "c")),
        (9, members("a", "b", "c", of="by-zone", end_s=15)),
        (20, delete("b")),
        (7, members("d", of="by-zone")),
    ),
    "pods follow the first one into its zone": story(
        "P8", (1, zones("a", "b", "a")), (9, members("a", "b", "c", of="together", cpus=9))
    ),
    "the first of its group needs a zone": story(
        "P8", (1, zones("", "", "b")), (9, members("a", "b", of="together"))
    ),
    "two groups apart by zone": story(
        "P8",
        (1, zones("a", "b", "a")),
        (9, members("a", of="by-host")),
        (5, members("x", of="foes")),
        (9, members("b", of="by-host")),
    ),
    "each pod wants a zone alone": story(
        "P8",
        (1, zones("a", "a", "b")),
        (9, members("a", "b", "c", of="alone-in-zone")),
        (20, zones("a", "c", "b")),
    ),
    "a pod of another scheduler keeps one away": story(
        "P8",
        (1, zones("a", "b", "b")),
        (1, other("o", of="alone-in-zone", at="k1", ruled=True)),
        (9, members("a", "b", of="alone-in-zone")),
        (20, delete("o")),
        watch_all_pods=True,
    ),
    "a pod follows one of another scheduler": story(
        "P8",
        (1, zones("a", "b", "b")),
        (1, members("a", of="followers")),
        (9, other("o", of="together", at="k3")),
        watch_all_pods=True,
    ),
    "one task of an array ends": story("P14", (1, pods("a", "b", "c", cpus=5)), (9, delete("b"))),
    "preemption, held by the script": story(
        "P16 L6", (1, pods("a", "b", "c", cpus=15, end_s=10)), (9, PUSHES)
    ),
    "preemption, held by the gate": story(
        "P16 L7",
        (1, pods("a", "b", "c", cpus=15, end_s=10)),
        (9, PUSHES),
        gate=True,
        placeholder="allocation",
    ),
    "a script is stopped while its pod is slow": story(
        "L6", (1, pods("a", cpus=15, end_s=20)), (9, with_ours("cancel")), (1, FULL)
    ),
    "a script is killed while its pod is slower": story(
        "L6", (1, pods("a", cpus=15, end_s=50)), (9, with_ours("cancel"))
    ),
    "a job is suspended": story("P16", (1, pods("a")), (9, with_ours("suspend_job"))),
    "somebody writes into running jobs": story(
        "P14 P23",
        (1, pods("a", "b", "c")),
        (9, write_into_jobs(admin_comment="seen by the site", name="other")),
        (5, delete("a")),
    ),
    "somebody writes into a waiting job": story(
        "P13 P23",
        (1, their_job(seconds=30)),
        (2, pods("a", "b", cpus=15)),
        (9, write_into_jobs(admin_comment="seen by the site", name="other")),
        (1, delete("b")),
    ),
    "a host is lost": story(
        "P16 P31",
        (1, pods("a", "b", "c", cpus=15)),
        (9, slurmd("n1", up=False)),
        (120, slurmd("n1", up=True)),
    ),
    "no host is ready for a while": story(
        "P32 P1",
        (1, ready("k1", "k2", "k3", on=False)),
        (2, pods("a", "b")),
        (32, ready("k1", "k2", "k3", on=True)),
    ),
    "one host of three is ready, and full": story(
        "P32 P12",
        (1, ready("k1", "k2", on=False)),
        (2, pods("a", cpus=15)),
        (9, pods("b", cpus=15)),
        (25, ready("k1", "k2", on=True)),
    ),
    "slurmrestd is down when a pod is created": story(
        "F2 F4", (1, slurmrestd("refused")), (0, pods("a")), (9, slurmrestd(""))
    ),
    "a proxy has no slurmrestd when a pod is created": story(
        "F2 F4", (1, slurmrestd("html")), (0, pods("a")), (9, slurmrestd(""))
    ),
}
