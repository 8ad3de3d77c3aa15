"""Watches both sides every 50 ms: does a job run on a host that a live Pod of another still holds?

A job runs from when its body began: RUNNING without CONFIGURING, which a gate's prolog keeps; the
script itself writes down the second as well. A Pod lives until its containers ended: phase
Succeeded or Failed, or gone.
"""

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.real.pod_bed import PodBed

EVERY_S = 0.05


@dataclass
class Duel:
    """A Pod that ends on a host, and the job of another that is to start there."""

    pod: str
    host: str
    job: str = ""
    """Id of the other's job."""
    last_live_s: float = 0.0
    """Wall clock second of the last sample in which the Pod lived."""
    gone_s: float = 0.0
    """The first in which it did not."""
    began_s: float | None = None
    together_s: float = 0.0
    """Sampled."""
    held_s: list[float] = field(default_factory=list)

    @property
    def over(self) -> bool:
        return self.gone_s > 0 and self.began_s is not None

    @property
    def overlap_s(self) -> float:
        """Seconds together, by whichever of both ways shows more."""
        assert self.began_s is not None
        return max(self.together_s, self.last_live_s - self.began_s, 0.0)

    @property
    def idle_s(self) -> float:
        """From the Pod's end to the job's begin: what it costs to be safe."""
        assert self.began_s is not None
        return max(0.0, self.began_s - self.gone_s)


class Sampler:
    """A thread; `duels` may grow while it runs."""

    def __init__(self, bed: PodBed) -> None:
        self.bed = bed
        self.duels: list[Duel] = []
        self.gaps: list[float] = []
        self.failure: BaseException | None = None
        self._going = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Sampler":
        self._going.set()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._going.clear()
        self._thread.join()
        if self.failure is not None:
            raise self.failure

    def _run(self) -> None:
        before_s = time.time()
        try:
            while self._going.is_set():
                self._sample(time.time() - before_s)
                self.gaps.append(time.time() - before_s)
                before_s = time.time()
                time.sleep(max(0.0, EVERY_S - (time.time() - before_s)))
        except BaseException as error:  # noqa: BLE001 - raised by __exit__
            self.failure = error

    def _sample(self, gap_s: float) -> None:
        """Jobs first: a Pod that lives in the later read lived beside a job of the earlier."""
        states = self.bed.states()
        asked_s = time.time()
        alive = {one["metadata"]["name"] for one in self.bed.ours() if is_alive(one)}
        for duel in list(self.duels):
            lives = duel.pod in alive
            if lives:
                duel.last_live_s = asked_s
            elif duel.last_live_s and not duel.gone_s:
                duel.gone_s = time.time()
            if duel.began_s is None and duel.job:
                duel.began_s = self.bed.began(duel.pod)
            if lives and runs(states.get(duel.job, frozenset())):
                duel.together_s += gap_s


def runs(state: Iterable[str]) -> bool:
    """Its body began and has not ended."""
    return "RUNNING" in set(state) and not {"CONFIGURING", "COMPLETING"} & set(state)


def is_alive(pod: Any) -> bool:
    """Bound, and its containers have not ended."""
    phase = pod["status"].get("phase", "Pending")
    return bool(pod["spec"].get("nodeName")) and phase not in ("Succeeded", "Failed")
