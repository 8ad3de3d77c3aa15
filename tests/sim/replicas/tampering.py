"""What people and backups do to the Lease."""

import random
from typing import Any

import msgspec

from sunk_sync.embedded.wire import Answer, Question
from sunk_sync.service.election import DURATION_S
from tests.sim.replicas.life import PLACE
from tests.sim.worlds import Worlds

FOLDER = f"/apis/coordination.k8s.io/v1/namespaces/{PLACE.namespace}/leases"
PATH = f"{FOLDER}/{PLACE.name}"
PERSON = "person"
MERGE = {"content-type": "application/merge-patch+json"}
KINDS = ("deleted", "emptied", "without spec", "foreign", "annotated", "restored", "longer")


class Tampering:
    def __init__(self, rng: random.Random, worlds: Worlds) -> None:
        self._rng = rng
        self._worlds = worlds
        self._copies: list[tuple[float, Any]] = []

    def act(self) -> None:
        kind = self._rng.choice(KINDS)
        self._worlds.history.count(f"fault: Lease {kind}")
        self._worlds.history.note("lease", kind)
        self._copy()
        match kind:
            case "deleted":
                self._ask("DELETE", PATH)
            case "emptied":
                self._change({"spec": {"holderIdentity": ""}})
            case "without spec":
                self._change({"spec": None})
            case "foreign":
                self._change({"spec": {"holderIdentity": "somebody"}})
            case "annotated":
                self._change({"metadata": {"annotations": {"a": str(self._rng.random())}}})
            case "longer":
                self._change({"spec": {"leaseDurationSeconds": 20}})
            case _:
                self._restore()

    def _ask(self, method: str, path: str, body: object = None) -> Answer:
        question = Question(
            method=method,
            path=path,
            headers=MERGE if method == "PATCH" else {},
            body=msgspec.json.encode(body) if body is not None else b"",
        )
        worlds = self._worlds
        answer = worlds.act(PERSON, lambda: worlds.kube_api.answer(question, worlds.now_s))
        assert isinstance(answer, Answer)
        return answer

    def _change(self, patch: object) -> None:
        self._ask("PATCH", PATH, patch)

    def _copy(self) -> None:
        answer = self._ask("GET", PATH)
        if answer.status == 200:
            self._copies.append((self._worlds.now_s, msgspec.json.decode(answer.body)))

    def _restore(self) -> None:
        """Put an old copy back. Decision 31 says why a younger one is out of reach."""
        copies = [one for at_s, one in self._copies if at_s < self._worlds.now_s - DURATION_S]
        if not copies:
            return
        lease = self._rng.choice(copies)
        self._ask("DELETE", PATH)
        annotations = lease["metadata"].get("annotations", {})
        metadata = {"name": PLACE.name, "annotations": annotations}
        self._ask("POST", FOLDER, {"metadata": metadata, "spec": lease.get("spec", {})})
