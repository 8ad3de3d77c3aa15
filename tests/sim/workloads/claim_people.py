"""Operations of users and of a provisioner of volumes, by a random stream of their own."""

import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from sunk_sync.embedded.kubernetes.store.kinds import STORAGE_CLASSES, VOLUME_CLAIMS, VOLUMES
from sunk_sync.embedded.kubernetes.store.patch import merged
from sunk_sync.embedded.kubernetes.store.place import Place
from sunk_sync.embedded.kubernetes.volumes import NOT_ON, PROVISION
from tests.sim.cast import PERSON
from tests.sim.words import Object
from tests.sim.workloads.storage import (
    AT_ONCE,
    LOCAL,
    MADE,
    add_claim,
    add_classes,
    add_volume,
    set_limit,
    set_room,
    with_claims,
)
from tests.sim.worlds import Worlds

SHARED: Final = "shared"
"""Claim of several Pods."""
PINNED: Final = "pinned"
"""Claim that is bound without a Pod, to a volume of one host."""
MISSING: Final = "missing"
OF_PODS: Final = (MADE, MADE, LOCAL, LOCAL, SHARED, PINNED, MISSING)
OF_MEMBERS: Final = (MADE, MADE, LOCAL, AT_ONCE, AT_ONCE, SHARED)
"""What a member of a gang uses: of others it would wait for good too often."""


class ClaimPeople:
    def __init__(self, rng: random.Random, worlds: Worlds, *, namespace: str) -> None:
        self._rng = rng
        self._worlds = worlds
        self._kube = worlds.kube
        self._namespace = namespace
        self.active = rng.random() < 0.2
        self._volumes = 0

    def begin(self, nodes: Sequence[str]) -> None:
        """Create the classes, and volumes on some Nodes."""
        if not self.active:
            return
        self._nodes = tuple(nodes)
        add_classes(self._kube, everywhere=self._rng.choice(("", "yes")))
        for node in self._nodes:
            if self._rng.random() < 0.7:
                self._add_volume(LOCAL, node)
        self._add_volume(AT_ONCE, self._rng.choice(self._nodes))
        self._claim(SHARED, MADE)
        self._claim(PINNED, AT_ONCE)
        self._worlds.act(PERSON, self.provisioner)
        self._limited, self._told = (self._rng.random() < 0.5 for _ in range(2))
        for node in self._nodes:
            self._worlds.act(PERSON, partial(self._change, node))

    def with_claim(self, name: str, spec: Object, *, in_gang: bool = False) -> Object:
        """Return the spec of this Pod, with a claim in most cases."""
        if not self.active or self._rng.random() < 0.3:
            return spec
        what = self._rng.choice(OF_MEMBERS if in_gang else OF_PODS)
        if what == AT_ONCE:
            self._add_volume(what, self._rng.choice(self._nodes))
        if what in (MADE, LOCAL, AT_ONCE):
            self._claim(name, what)
            return with_claims(spec, name)
        return with_claims(spec, what)

    def _claim(self, name: str, of: str) -> None:
        bind_s = str(self._rng.choice((0, 0, 1, 15)))
        if self._kube.store.get(VOLUME_CLAIMS, f"{self._namespace}/{name}") is None:
            add_claim(self._kube, name, of, namespace=self._namespace, bind_s=bind_s)

    def _add_volume(self, of: str, node: str) -> None:
        self._volumes += 1
        add_volume(self._kube, f"v{self._volumes}", of, node=node)

    def act(self) -> object:
        """Do one of the operations below, in some of the calls."""
        if not self.active or self._rng.random() < 0.8:
            return None
        doing: Callable[[], object] = self._rng.choice(
            (
                self.delete_claim, self.renew, self.provisioner, self.add_volume,
                self.add_missing, self.change_room,
            )
        )  # fmt: skip
        return f"{doing.__name__} {doing()}"

    def delete_claim(self) -> str:
        claims = [row.an_object for _, row in self._kube.store.scan(VOLUME_CLAIMS)]
        if not claims:
            return "nothing"
        name = str(self._rng.choice(claims)["metadata"]["name"])
        self._kube.delete(VOLUME_CLAIMS, name, namespace=self._namespace)
        return name

    def renew(self) -> str:
        """Clean released volumes, and create missing claims again."""
        for key, stored in list(self._kube.store.scan(VOLUMES)):
            volume = stored.an_object
            if volume["status"]["phase"] == "Released":
                self._kube.delete(VOLUMES, key.removeprefix("/"))
                host = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"][0]
                node = host["matchExpressions"][0]["values"][0]
                self._add_volume(volume["spec"]["storageClassName"], node)
        for name, of in ((SHARED, MADE), (PINNED, AT_ONCE)):
            self._claim(name, of)
        return "volumes"

    def add_volume(self) -> str:
        node = self._rng.choice(self._nodes)
        self._add_volume(self._rng.choice((LOCAL, AT_ONCE)), node)
        return node

    def add_missing(self) -> str:
        """Create the claim that some Pods miss."""
        self._claim(MISSING, self._rng.choice((MADE, LOCAL)))
        return MISSING

    def change_room(self) -> str:
        return self._change(self._rng.choice(self._nodes))

    def _change(self, node: str) -> str:
        """The driver attaches more or fewer volumes to a Node, or has more or less room there."""
        limit, gib = self._rng.choice((1, 1, 2, None)), self._rng.choice((0, 1, 5))
        if self._limited:
            set_limit(self._kube, node, limit)
        if self._told:
            set_room(self._kube, node, gib, namespace=self._namespace)
        return f"{node}: {limit} volumes, {gib} GiB"

    def provisioner(self) -> str:
        """Let the provisioner be fast, slow or silent, and fail on some Nodes."""
        takes_s = self._rng.choice(("0", "2", "20", "inf"))
        failing = [node for node in self._nodes if self._rng.random() < 0.3]
        return self._set_provisioner(takes_s, ",".join(failing))

    def calm(self) -> None:
        """Let the provisioner make each volume, and have room; the limits of Nodes stay."""
        if not self.active:
            return
        self._worlds.act(PERSON, lambda: self._set_provisioner("1", ""))
        for node in self._nodes:
            if self._told:
                room = partial(set_room, self._kube, node, 5, namespace=self._namespace)
                self._worlds.act(PERSON, room)

    def _set_provisioner(self, takes_s: str, not_on: str) -> str:
        patch = {"metadata": {"annotations": {PROVISION: takes_s, NOT_ON: not_on}}}
        place = Place(kind=STORAGE_CLASSES, name=MADE, manager=PERSON)
        self._kube.writes.patch(place, lambda old: merged(old, patch))
        return f"{takes_s} s, not on {not_on}"
