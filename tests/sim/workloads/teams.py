"""Gangs whose Pods a controller makes again after they failed, as a Job does (G8)."""

import random
from collections.abc import Iterator, Mapping

from msgspec import Struct, field

from sunk_sync.embedded.kubernetes.kubelet import EXIT_CODE, RUN
from tests.sim import words
from tests.sim.words import Object
from tests.sim.workloads.truth import is_alive
from tests.sim.worlds import Worlds

PODS_MAX = 10
"""Of a team, with those that have ended."""
TEAMS_MAX = 3
"""Teams whose ranks have not all succeeded."""
TEAM = "embedded/team"
"""Annotation of a Pod: its gang."""


def member(
    team: str, rank: str, attempt: int, *, size: int, knobs: Mapping[str, str]
) -> tuple[str, Object]:
    """Return the name and the metadata of a Pod that this controller makes."""
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": team,
        "uid": f"uid-{team}",
        "controller": True,
    }
    marks = {words.GANG: team, words.GANG_SIZE: str(size), TEAM: f"{team}/{rank}", **knobs}
    return f"{team}-{rank}-{attempt}", {"annotations": marks, "ownerReferences": [owner]}


class Team(Struct):
    name: str
    size: int
    attempt: int = 1
    succeeded: set[str] = field(default_factory=set)
    """Ranks."""


class TeamPeople:
    """Active in a part of the runs, with a random stream of its own."""

    def __init__(self, rng: random.Random, worlds: Worlds, *, namespace: str, spec: Object) -> None:
        self._rng = rng
        self._kube, self._history = worlds.kube, worlds.history
        self._namespace = namespace
        self._spec = spec
        self._teams: list[Team] = []
        self.active = rng.random() < 0.35

    def is_due(self) -> bool:
        return self._rng.random() < 0.7

    def pause_s(self) -> float:
        return self._rng.choice((0.5, 5.0, 12.0))

    def act(self) -> object:
        self._count_ends()
        acts = (self.found, self.make_again, self.make_again, self.make_again, self.clean)
        act = self._rng.choice(acts)
        answer = act()
        if answer:
            self._history.count(f"teams: {act.__name__}")
        return answer

    def _pods(self, team: Team) -> Iterator[tuple[str, Object]]:
        """Yield the rank of each Pod, and the Pod."""
        for pod in self._kube.pods(self._namespace):
            name, _, rank = words.annotations_of(pod).get(TEAM, "").partition("/")
            if name == team.name:
                yield rank, pod

    def _count_ends(self) -> None:
        for team in self._teams:
            ended = [rank for rank, pod in self._pods(team) if _has_succeeded(pod)]
            team.succeeded.update(ended)

    def _add(self, team: Team, rank: str) -> str:
        rng = self._rng
        run_s, code = rng.choice((2, 8, 40, None)), str(rng.choice((0, 1)))
        knobs = {} if run_s is None else {RUN: str(run_s), EXIT_CODE: code}
        name, metadata = member(team.name, rank, team.attempt, size=team.size, knobs=knobs)
        self._kube.add_pod(
            name, namespace=self._namespace, metadata=metadata, spec=dict(self._spec)
        )
        return name

    def found(self) -> object:
        open_teams = [team for team in self._teams if len(team.succeeded) < team.size]
        if len(open_teams) >= TEAMS_MAX:
            return None
        team = Team(f"t{len(self._teams)}", self._rng.choice((2, 2, 2, 3)))
        self._teams.append(team)
        return [self._add(team, str(number)) for number in range(team.size)]

    def make_again(self) -> object:
        """Make the ranks again that failed, or whose Pod is gone or terminates."""
        made = []
        for team in self._teams:
            every = list(self._pods(team))
            if len(every) > PODS_MAX:
                continue
            pods = [(rank, pod) for rank, pod in every if not words.is_finished(pod)]
            living = {rank for rank, pod in pods if is_alive(pod) and not words.is_terminating(pod)}
            ranks = {str(number) for number in range(team.size)} - living - team.succeeded
            team.attempt += 1
            made += [self._add(team, rank) for rank in sorted(ranks)]
        return made

    def clean(self) -> object:
        """Delete a Pod that has ended."""
        every = [pod for team in self._teams for _, pod in self._pods(team)]
        ended = [pod for pod in every if words.is_finished(pod)]
        if not ended:
            return None
        metadata = self._rng.choice(ended)["metadata"]
        self._kube.delete_pod(metadata["name"], namespace=metadata["namespace"])
        return metadata["name"]


def _has_succeeded(pod: Object) -> bool:
    return bool(pod["status"].get("phase") == "Succeeded")
