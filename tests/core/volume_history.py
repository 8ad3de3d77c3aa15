"""Random histories with claims and volumes, which people and Kubernetes change (P8)."""

from collections.abc import Callable

from msgspec.structs import replace

from sunk_sync.core.model.actions import Bind
from sunk_sync.core.model.facts import Node, Pod, SlurmdPod
from sunk_sync.core.model.pod_spec import Offer, PodRules, PodSpec, PodTerm, Requirement
from sunk_sync.core.model.verdict import Decision
from sunk_sync.core.model.volume_actions import ReserveVolume, SelectNode, UnselectNode
from sunk_sync.core.model.volumes import (
    CsiDriver,
    CsiNode,
    StorageCapacity,
    StorageClass,
    Volume,
    VolumeClaim,
)
from sunk_sync.core.translate.fences import holds
from tests.core.checks import HistoryError, ReadSet
from tests.core.volume_world import DRIVER, HOSTNAME, VolumeWorld, on
from tests.core.workload_history import WorkloadHistory
from tests.core.workload_reads import WorkloadReads
from tests.core.workload_world import NAMESPACE
from tests.kit.build import OFFER, SMALL

NAMES = ("c1", "c2", "c3")
CLASSES = ("made", "made", "local", "local", "local", "at-once")
MODES = (("ReadWriteOnce",), ("ReadWriteOnce",), ("ReadWriteMany",), ("ReadWriteOncePod",))
LABELS = (("app", "web"),)
APART = replace(
    SMALL, rules=PodRules(apart=(PodTerm(HOSTNAME, (Requirement("app", "In", ("web",)),)),))
)
USED = ((), ("c1",), ("c1",), ("c2",), ("c3",), ("c1", "c2"))


def on_labels(number: str) -> tuple[Requirement, ...]:
    return (Requirement(HOSTNAME, "In", (f"k{number}",)),)


class VolumeReads(WorkloadReads):
    """Volumes are read by class and by claim: the oracle guards their edges."""

    def _own(self) -> None:
        workloads = self._graph.workloads
        for name in ("fences", "is_user", "stale_selections"):
            setattr(workloads.volumes, name, self._unseen(getattr(workloads.volumes, name)))
        choice = workloads.volume_choice
        setattr(choice, "needs", self._unseen(choice.needs))  # noqa: B010


class VolumeHistory(WorkloadHistory):
    world: VolumeWorld

    def _world(self) -> VolumeWorld:
        return VolumeWorld(self.rng)

    def _read_set(self) -> ReadSet:
        reads = VolumeReads(self.graph)
        reads._own()
        return reads

    def _kinds(self) -> tuple[Callable[[], None], ...]:
        return (self._change_volumes, *super()._kinds())

    def _prepare(self) -> None:
        self.apart = self.rng.random() < 0.5
        self.world.put_class(StorageClass(name="made", uid="c1", waits=True, provisioner=DRIVER))
        self.world.put_class(StorageClass(name="local", uid="c2", waits=True))
        self.world.put_class(StorageClass(name="at-once", uid="c3"))
        for name in NAMES:
            self._change_claim(name)
        for number in "123":
            self._change_volume(f"v{number}")
            self._change_limit(number)
            self._change_room(number)
        super()._prepare()
        self.weights[self._change_volumes] = 4
        self.weights[self._change_policy] = 0

    def _offer(self, number: str) -> Offer:
        return replace(OFFER, labels=((HOSTNAME, f"k{number}"),))

    def _spec(self) -> PodSpec:
        return SMALL

    def _changed_node(self, row: Node) -> Node:
        """Each Node keeps its labels and its room."""
        return replace(super()._changed_node(row), offer=row.offer)

    def _changed_pod(self, row: SlurmdPod) -> SlurmdPod:
        return replace(super()._changed_pod(row), requests=row.requests)

    def _changed_workload(self, row: Pod) -> Pod:
        if self.rng.random() < 0.2:
            return replace(row, gated=False)
        return replace(super()._changed_workload(row), spec=row.spec, settings=row.settings)

    def _new_workload(self, name: str) -> Pod:
        spec = APART if self.apart and self.rng.random() < 0.6 else SMALL
        row = replace(super()._new_workload(name), spec=spec, labels=LABELS)
        return replace(row, volume_claims=self.rng.choice(USED))

    # Changes

    def _change_volumes(self) -> None:
        rng, world = self.rng, self.world
        match rng.randrange(10):
            case 8:
                self._change_limit(rng.choice("123"))
            case 9:
                self._change_room(rng.choice("123"))
            case 0 | 1:
                self._change_claim(rng.choice(NAMES))
            case 2:
                self._change_volume(f"v{rng.randrange(1, 4)}")
            case 3 if world.classes:
                self._change_class(rng.choice(("made", "local")))
            case 4:
                selected = [one for one in world.claims.values() if one.selected_node]
                if selected:
                    self._note("provisioner gives up", selected[0])
                    world.give_up(selected[0])
            case _:
                self._note("volume controller")
                world.complete()

    def _change_claim(self, name: str) -> None:
        rng, world = self.rng, self.world
        row = world.claims.get(name)
        if row is None:
            row = VolumeClaim(
                namespace=NAMESPACE, name=name, uid=self._uid(), size=10,
                storage_class=rng.choice(CLASSES), modes=rng.choice(MODES),
            )  # fmt: skip
            world.put_claim(row)
        elif rng.random() < 0.15:
            world.drop_claim(name)
        elif row.storage_class == "at-once" and not row.volume:
            self.world.make_for(row, on(f"k{rng.choice('123')}"))
        self._note("claim", row)

    def _change_volume(self, name: str) -> None:
        world = self.world
        row = world.volumes.get(name)
        if row is None:
            row = Volume(
                name=name, uid=self._uid(), storage_class="local", available=True,
                size=self.rng.choice((10, 10, 5)), modes=("ReadWriteOnce", "ReadWriteMany"),
                terms=on(f"k{self.rng.choice('123')}"),
            )  # fmt: skip
            world.put_volume(row)
        elif not row.claim and self.rng.random() < 0.3:
            world.drop_volume(name)
        self._note("volume", row)

    def _change_class(self, name: str) -> None:
        row = self.world.classes[name]
        terms = self.rng.choice((None, None, on("k1"), on("k2")))
        self.world.put_class(replace(row, terms=terms))

    def _change_room(self, number: str) -> None:
        """The driver has more or less room on a Node, or tells none; seldom it stops telling."""
        rng, world = self.rng, self.world
        if rng.random() < 0.2:
            world.put_driver(CsiDriver(name=DRIVER, uid="u-driver", tells_room=rng.random() < 0.7))
        elif f"room-{number}" in world.capacities and rng.random() < 0.2:
            world.drop_capacity(f"room-{number}")
        else:
            world.put_capacity(StorageCapacity(
                namespace="drivers", name=f"room-{number}", uid=f"u-room-{number}",
                storage_class=rng.choice(("made", "made", "made", "other")),
                size=rng.choice((5, 10, 20)),
                nodes=rng.choice((on_labels(number), on_labels(number), (), None)),
            ))  # fmt: skip
        self._note("room", world.capacities.get(f"room-{number}"), world.drivers.get(DRIVER))

    def _change_limit(self, number: str) -> None:
        row = CsiNode(
            name=f"k{number}", uid=f"u-csi-{number}",
            limits=self.rng.choice(((), ((DRIVER, 1),), ((DRIVER, 1),), ((DRIVER, 2),))),
        )  # fmt: skip
        self._note("limit", row)
        self.world.put_csi_node(row)

    # Promises

    def _check(self, decision: Decision) -> None:
        super()._check(decision)
        for action in decision.allowed:
            match action:
                case Bind():
                    self._check_reached(action)
                case ReserveVolume():
                    self._check_reserved(action)
                case SelectNode():
                    self._check_selected(action)
                case UnselectNode():
                    self._check_unselected(action)
                case _:
                    pass

    def _check_reached(self, bind: Bind) -> None:
        """Each claim of a bound Pod has a volume that the Node reaches."""
        tables = self.graph.sources.tables
        pod = self.graph.pods.entries[f"{NAMESPACE}/{bind.reference.name}"].row
        for name in pod.volume_claims:
            claim = tables["volume_claims"].get(f"{NAMESPACE}/{name}")
            volume = tables["volumes"].get(claim.volume) if claim is not None else None
            if claim is None or not claim.bound or volume is None:
                raise HistoryError(f"volume: {bind} although {claim} has no volume")
            if not holds(volume.terms, self.graph.nodes.entries[bind.node_name].row):
                raise HistoryError(f"volume: {bind} does not reach {volume}")
        self._check_room(bind, pod)

    def _check_room(self, bind: Bind, pod: Pod) -> None:
        """The Node attaches no more volumes than it may."""
        tables = self.graph.sources.tables
        there = [one for one in self.graph.pods.rows() if one.node_name == bind.node_name]
        paths = {
            f"{NAMESPACE}/{name}"
            for one in (*there, pod)
            if not one.ended
            for name in one.volume_claims
        }
        claims = filter(None, map(tables["volume_claims"].get, paths))
        volumes = filter(None, (tables["volumes"].get(claim.volume) for claim in claims))
        attached = [one for one in volumes if one.driver]
        row = tables["csi_nodes"].get(bind.node_name)
        most = dict(row.limits).get(DRIVER) if row is not None else None
        mine = {f"{NAMESPACE}/{name}" for name in pod.volume_claims}
        own = [one for one in attached if one.claim in mine]
        if own and most is not None and len(attached) > most:
            raise HistoryError(f"limit: {bind} although {attached} of {most}")

    def _check_reserved(self, reserve: ReserveVolume) -> None:
        volume = self.graph.sources.tables["volumes"].get(reserve.reference.name)
        if volume is None or volume.claim or not volume.available:
            raise HistoryError(f"volume: {reserve} of {volume}")

    def _check_selected(self, select: SelectNode) -> None:
        job = self.graph.jobs.get(select.owner.rpartition("/")[2])
        host = self.graph.claims.host_of_node(select.node_name)
        if job is None or "RUNNING" not in job.state or host not in job.slurm_nodes:
            raise HistoryError(f"volume: {select} for {job}")
        self._check_told_room(select)

    def _check_told_room(self, select: SelectNode) -> None:
        """A driver that tells its room has some on the Node."""
        tables = self.graph.sources.tables
        driver = tables["csi_drivers"].get(DRIVER)
        claim = tables["volume_claims"].get(f"{NAMESPACE}/{select.reference.name}")
        if driver is None or not driver.tells_room or claim is None:
            return
        wanted: tuple[object, ...] = ((), on_labels(select.node_name[1:]))
        rooms = [one for one in tables["storage_capacities"].rows() if one.nodes in wanted]
        if not any(one.storage_class == "made" and one.size >= claim.size for one in rooms):
            raise HistoryError(f"room: {select} although only {rooms}")

    def _check_unselected(self, unselect: UnselectNode) -> None:
        job = self.graph.jobs.get(unselect.owner.rpartition("/")[2])
        claim = self.world.claims.get(unselect.reference.name)
        runs = job is not None and "RUNNING" in job.state
        same = claim is not None and claim.uid == unselect.reference.uid
        if runs and same and claim is not None and not claim.bound:
            raise HistoryError(f"volume: {unselect} although {job} lives")

    # Convergence

    def _heal(self) -> None:
        """Each claim exists in the end, and what it waits for comes."""
        for name in NAMES:
            while (row := self.world.claims.get(name)) is None or self._is_stuck(row):
                self._change_claim(name)
        super()._heal()

    def _is_stuck(self, row: VolumeClaim) -> bool:
        return row.storage_class == "at-once" and not row.volume and not self._is_reserved(row)

    def _is_reserved(self, row: VolumeClaim) -> bool:
        return any(one.claim_uid == row.uid for one in self.world.volumes.values())

    def _round(self) -> bool:
        self.world.complete()
        return super()._round()

    def _check_rest(self) -> None:
        super()._check_rest()
        for claim in self.world.claims.values():
            job = self.world.jobs.rows.get(claim.selected_for.rpartition("/")[2])
            lives = job is not None and {"PENDING", "RUNNING", "SUSPENDED"} & job.state
            if claim.selected_for and not lives:
                raise HistoryError(f"volume: finally {claim} names a job that has ended")
