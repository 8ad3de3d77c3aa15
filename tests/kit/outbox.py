"""An outbox between fake authorities, in virtual time."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import wraps
from inspect import Signature, signature
from typing import Any

from sunk_sync.controller.outbox import Outbox, WriteReport, Writers
from sunk_sync.controller.workqueue import Limits, Writer
from sunk_sync.core.model.actions import (
    Action,
    CancelJob,
    Drain,
    SetConditions,
    SubmitJob,
    Undrain,
    target_of,
)
from sunk_sync.core.model.condition import ConditionStatus
from sunk_sync.core.model.facts import Reference
from sunk_sync.core.model.job_description import JobDescription
from sunk_sync.core.model.keys import Key, host_key
from sunk_sync.core.model.outcomes import Done, Outcome, Refused, Unsure
from sunk_sync.core.model.traits import Target
from sunk_sync.slurm.write.jobs import JobPush
from tests.kit.build import condition, identity, pod
from tests.kit.clock import now, run

KEY, OTHER = host_key("n1"), host_key("n2")
POD = Reference("Pod", "slurm", "p", "u")
DRAIN, AGAIN, LIFT = Drain("n1", "k8s: a"), Drain("n1", "k8s: b"), Undrain("n1", "lifted")
CANCEL = CancelJob(job_id="7", name="k8s/ns/p1/1", identity=identity(pod()), replaced=True)
SUBMIT = SubmitJob(name="k8s/ns/p1/1", identity=identity(pod()), description=JobDescription())
ONE = Limits(concurrency=1, batch=1, leisurely=1)
JOBS = Limits(concurrency=1, batch=10, leisurely=1)
Answer = Callable[[Action], Outcome]


def shown(text: str, status: ConditionStatus = "True", reference: Reference = POD) -> SetConditions:
    return SetConditions(reference, (condition("SlurmDrain", status, message=text),))


class Authority:
    """A fake writer: records each push and its time; answers after `seconds`."""

    def __init__(self) -> None:
        self.calls: list[tuple[float, tuple[Action, ...]]] = []
        self.answers: list[Answer | Exception] = []
        self.seconds = 0.0
        self.slow_s: dict[Target, float] = {}
        """Pushes with these targets take so much longer."""
        self.in_flight: list[Target] = []
        self.in_flight_max = 0

    @property
    def actions(self) -> list[Action]:
        return [action for _, actions in self.calls for action in actions]

    @property
    def times(self) -> list[float]:
        return [round(at - 1000, 6) for at, _ in self.calls]

    async def push(self, actions: Sequence[Action]) -> Sequence[Outcome]:
        targets = [target_of(action) for action in actions]
        assert not set(targets) & set(self.in_flight), "two in flight for one target"
        self.calls.append((now(), tuple(actions)))
        self.in_flight += targets
        self.in_flight_max = max(self.in_flight_max, len(self.in_flight))
        try:
            await asyncio.sleep(self.seconds + sum(self.slow_s.get(one, 0.0) for one in targets))
        finally:
            self.in_flight = [one for one in self.in_flight if one not in targets]
        answer = self.answers.pop(0) if self.answers else Done
        if isinstance(answer, Exception):
            raise answer
        return [answer(action) for action in actions]


class Bench:
    """An outbox in virtual time between two authorities."""

    def __init__(self, slurm: Limits = ONE, kube: Limits = ONE, jitter: float = 0.0) -> None:
        self.slurm, self.kube, self.jobs, self.hooks = (Authority() for _ in range(4))
        self.reports: list[WriteReport] = []
        writers = Writers(
            slurm=Writer(self.slurm.push, slurm),
            kube=Writer(self.kube.push, kube),
            jobs=Writer(self.jobs.push, JOBS, JobPush.split),
            hooks=Writer(self.hooks.push, Limits(concurrency=5, batch=1, leisurely=5)),
        )
        self.outbox = Outbox(writers, clock=now, random=lambda: jitter)
        self.outbox.report = self.report
        self.task = asyncio.ensure_future(self.outbox.run())

    async def report(self, reports: Sequence[WriteReport]) -> None:
        self.reports += reports

    def want(self, *wants: Action, key: Key = KEY) -> None:
        self.outbox.want(key, wants, because="for a test")

    async def want_for(self, seconds: float, *wants: Action, key: Key = KEY) -> None:
        """Want these writes, and let time pass."""
        self.want(*wants, key=key)
        await asyncio.sleep(seconds)

    async def sweep_for(self, seconds: int) -> None:
        """Sweep once a second, as the loop does, without a changed fact."""
        for _ in range(seconds):
            await asyncio.sleep(1)
            self.outbox.sweep()

    async def change_facts_in_flight(self, first: Action, *then: Action, after_s: float) -> None:
        """Change a fact of the key before the answer to `first`; then want `then`."""
        self.want(first)
        await asyncio.sleep(after_s)
        self.outbox.facts_changed(KEY)
        self.want(*then)
        await asyncio.sleep(5)


def on_bench(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Let pytest run an async test in virtual time, with a new bench as its first argument."""

    @wraps(test)
    def whole(*args: Any, **given: Any) -> None:
        async def steps() -> None:
            await test(Bench(), *args, **given)

        run(steps())

    _, *others = signature(test).parameters.values()
    whole.__signature__ = Signature(others)  # type: ignore[attr-defined]
    return whole


def unsure(action: Action) -> Outcome:
    return Unsure(action, "timeout")


def refused(action: Action) -> Outcome:
    return Refused(action, "forbidden")
