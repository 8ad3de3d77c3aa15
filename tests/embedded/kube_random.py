"""Random scenarios from a seed: a few objects and all operations on them."""

from random import Random
from typing import Any, NamedTuple

from tests.embedded.kube_scenarios import (
    NODES,
    PODS,
    apply,
    condition,
    conditions,
    delete,
    get,
    merge,
    node,
    pod,
    post,
    put,
    ready_node,
    strategic,
    version,
    watch,
)
from tests.embedded.kube_trace import Step

STEPS = 12
MANAGERS = ("one", "two", "three")
KINDS = ("Ready", "X", "Y", "Z")
LABELS = ("k", "l", "example.com/m")
VALUES = ("", "1", "2")


class On(NamedTuple):
    """Target of a step."""

    path: str
    name: str
    is_pod: bool


class Draw:
    """Draws steps; each choice comes from the seed."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._pick = self._random.choice

    def steps(self) -> list[Step]:
        """Return setup steps, random steps, and a final read of everything."""
        second = self._pick((node("n1"), ready_node("n1"), node("n1", self._texts(VALUES))))
        begin = [
            post(PODS, pod("first")),
            post(NODES, node("n0", {"k": "1"})),
            post(NODES, second, agent=self._agent()),
            post(PODS, pod("p0", {"k": "1"}, **self._pick(({}, {"nodeName": "n0"})))),
        ]
        drawn = [self._step() for _ in range(STEPS)]
        end = [
            get(NODES),
            get(NODES, labelSelector=f"k={self._pick(VALUES)}"),
            get(PODS, fieldSelector="spec.nodeName!="),
            post(NODES, node("z", {"k": "1"})),
            post(PODS, pod("z", {"k": "1"})),
            self._watch(NODES, 1),
            self._watch(PODS, 0),
        ]
        return [*begin, *drawn, *end]

    def _watch(self, path: str, since: int) -> Step:
        selector = self._pick(({}, {"labelSelector": "k"}, {"labelSelector": "k=1"}))
        return watch(path, "z", resourceVersion=version(since), **selector)

    def _step(self) -> Step:
        is_pod = self._random.random() < 0.35
        name = self._pick(("p0", "p1") if is_pod else ("n0", "n1"))
        path = f"{PODS if is_pod else NODES}/{name}"
        last = self._remove if self._random.random() < 0.5 else self._metadata
        often = (self._metadata, self._conditions, self._apply, self._apply_conditions)
        twice = (one for one in often for _ in range(2))
        draw = self._pick((self._create, *twice, self._cordon, self._replace, last))
        return draw(On(path, name, is_pod))

    def _create(self, on: On) -> Step:
        labels = self._texts(VALUES)
        if on.is_pod:
            where = {"nodeName": "n0"} if self._random.random() < 0.5 else {}
            return post(PODS, pod(on.name, labels, **where))
        ready = self._random.random() < 0.5
        return post(NODES, ready_node(on.name) if ready else node(on.name, labels))

    def _texts(self, values: tuple[Any, ...]) -> dict[str, Any]:
        return {name: self._pick(values) for name in LABELS if self._random.random() < 0.5}

    def _agent(self) -> str:
        return f"{self._pick(MANAGERS)}/1"

    def _metadata(self, on: On) -> Step:
        part = self._pick(("labels", "annotations"))
        patch = {"metadata": {part: self._texts((*VALUES, None))}}
        way = self._pick((merge, strategic))
        below = self._pick(("", "", "/status"))
        return way(on.path + below, patch, agent=self._agent())

    def _some_conditions(self) -> list[Any]:
        kinds = [kind for kind in KINDS if self._random.random() < 0.4]
        self._random.shuffle(kinds)
        return [condition(kind, self._pick(("True", "False")), "m") for kind in kinds]

    def _conditions(self, on: On) -> Step:
        listed = self._some_conditions()
        for one in listed:
            if self._random.random() < 0.2:
                one.clear()
                one.update({"type": self._pick(KINDS), "$patch": "delete"})
        listed = list({one["type"]: one for one in listed}.values())
        patch = {"status": {"conditions": listed}}
        return strategic(f"{on.path}/status", patch, agent=self._agent())

    def _apply(self, on: On) -> Step:
        config: dict[str, Any] = {"metadata": {"labels": self._texts(VALUES)}}
        if self._random.random() < 0.4:
            config["metadata"]["annotations"] = self._texts(VALUES)
        if not on.is_pod and self._random.random() < 0.3:
            config["spec"] = {"unschedulable": True}
        return self._applied(f"{on.path}/status" if on.is_pod else on.path, config)

    def _applied(self, path: str, config: dict[str, Any]) -> Step:
        manager = self._pick(MANAGERS)
        return apply(path, config, by=manager, force=self._random.random() < 0.6)

    def _apply_conditions(self, on: On) -> Step:
        config = {"status": {"conditions": self._some_conditions()}}
        return self._applied(f"{on.path}/status", config)

    def _cordon(self, on: On) -> Step:
        if on.is_pod:
            target = {"metadata": {"name": on.name}, "target": {"kind": "Node", "name": "n1"}}
            return post(f"{on.path}/binding", target)
        switch = self._pick((True, None, False))
        return merge(on.path, {"spec": {"unschedulable": switch}}, agent=self._agent())

    def _replace(self, on: On) -> Step:
        if on.is_pod:
            return merge(on.path, {"metadata": {"labels": self._texts(VALUES)}})
        whole = {**node(on.name, self._texts(VALUES)), **self._pick(({}, conditions("X", "Y")))}
        return put(on.path + self._pick(("", "/status")), whole, agent=self._agent())

    def _remove(self, on: On) -> Step:
        grace = self._pick((None, {"gracePeriodSeconds": 0}, {"gracePeriodSeconds": 7}))
        return delete(on.path, grace)


def random_scenario(seed: int) -> list[Step]:
    """Return the scenario of a seed."""
    return Draw(seed).steps()
