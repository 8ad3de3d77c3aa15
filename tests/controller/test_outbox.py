"""Desired writes on their way out: one in flight, the latest wins, back-off, pace, urgency,
bounds.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise

import pytest
from msgspec.structs import replace

from sunk_sync.controller.outbox import (
    BACKOFF_FIRST_S,
    BACKOFF_MAX_S,
    PACE_S,
    PUSH_LIMIT_S,
    REFUSED_AGAIN_S,
    SWEEP_STEP,
    WAITING_PACE_S,
    Outbox,
    WriteReport,
    Writers,
)
from sunk_sync.controller.workqueue import Limits, urgency
from sunk_sync.core.model.actions import (
    Action,
    AnswerGate,
    Bind,
    CancelJob,
    Cordon,
    Done,
    Drain,
    GetObject,
    Outcome,
    RecordEvent,
    Refused,
    Relist,
    RewriteReason,
    SetComment,
    SetConditions,
    SetMetadata,
    SetScheduled,
    SubmitJob,
    Target,
    Uncordon,
    Undrain,
    Unsure,
    target_of,
)
from sunk_sync.core.model.facts import Attempt, BindTried, Reference
from sunk_sync.core.model.job_description import JobDescription
from sunk_sync.core.model.timing import BINDING_S
from tests.kit.build import condition, identity, pod
from tests.kit.clock import now, run

KEY, OTHER = ("host", "n1"), ("host", "n2")
POD = Reference("Pod", "slurm", "p", "u")
DRAIN, AGAIN, LIFT = Drain("n1", "k8s: a"), Drain("n1", "k8s: b"), Undrain("n1", "lifted")
ONE = Limits(concurrency=1, batch=1, leisurely=1)
Answer = Callable[[Action], Outcome]


def shown(text: str, status: str = "True", reference: Reference = POD) -> SetConditions:
    return SetConditions(reference, (condition("SlurmDrain", status, message=text),))


class Authority:
    """Records what is pushed and when; answers as told, after `seconds`."""

    def __init__(self) -> None:
        self.calls: list[tuple[float, tuple[Action, ...]]] = []
        self.answers: list[Answer | Exception] = []
        self.seconds = 0.0
        self.under_way: list[Target] = []
        self.most = 0

    @property
    def actions(self) -> list[Action]:
        return [action for _, actions in self.calls for action in actions]

    @property
    def times(self) -> list[float]:
        return [round(at - 1000, 6) for at, _ in self.calls]

    async def push(self, actions: Sequence[Action]) -> Sequence[Outcome]:
        targets = [target_of(action) for action in actions]
        assert not set(targets) & set(self.under_way), "two in flight for one target"
        self.calls.append((now(), tuple(actions)))
        self.under_way += targets
        self.most = max(self.most, len(self.under_way))
        try:
            await asyncio.sleep(self.seconds)
        finally:
            self.under_way = [one for one in self.under_way if one not in targets]
        answer = self.answers.pop(0) if self.answers else Done
        if isinstance(answer, Exception):
            raise answer
        return [answer(action) for action in actions]


class Bench:
    """An outbox in virtual time between two authorities."""

    def __init__(self, slurm: Limits = ONE, kube: Limits = ONE, jitter: float = 0.0) -> None:
        self.slurm, self.kube, self.jobs, self.hooks = (Authority() for _ in range(4))
        self.reports: list[WriteReport] = []
        ways = Writers(
            slurm=(self.slurm.push, slurm),
            kube=(self.kube.push, kube),
            jobs=(self.jobs.push, ONE),
            hooks=(self.hooks.push, Limits(concurrency=5, batch=1, leisurely=5)),
        )
        self.outbox = Outbox(ways, clock=now, random=lambda: jitter)
        self.outbox.report = self.report
        self.task = asyncio.ensure_future(self.outbox.run())

    async def report(self, reports: Sequence[WriteReport]) -> None:
        self.reports += reports

    def want(self, *wants: Action, key: tuple[str, str] = KEY) -> None:
        self.outbox.want(key, wants, because="for a test")

    async def live_on(self, seconds: int) -> None:
        """Nothing changes; it is swept once a second, as the loop does."""
        for _ in range(seconds):
            await asyncio.sleep(1)
            self.outbox.sweep()

    async def stir_under_way(self, first: Action, *then: Action, after_s: float) -> None:
        """A fact of the key changes before `first` is answered; `then` is what is wished now."""
        self.want(first)
        await asyncio.sleep(after_s)
        self.outbox.facts_changed(KEY)
        self.want(*then)
        await asyncio.sleep(5)


def story(tell: Callable[[Bench], Awaitable[None]], **chosen: object) -> Bench:
    """Run one story on a fresh bench."""

    async def whole() -> Bench:
        bench = Bench(**chosen)  # type: ignore[arg-type]
        await tell(bench)
        return bench

    return run(whole())


def unsure(action: Action) -> Outcome:
    return Unsure(action, "timeout")


def refused(action: Action) -> Outcome:
    return Refused(action, "forbidden")


def test_a_wish_is_pushed_at_once_and_reported_with_its_cause() -> None:
    """What the log line needs comes back with the outcome."""

    async def tell(bench: Bench) -> None:
        bench.slurm.seconds = 0.25
        bench.want(DRAIN)
        await asyncio.sleep(1)

    bench = story(tell)
    assert bench.reports == [WriteReport(Done(DRAIN), KEY, "for a test", 1000.0, 1000.25, 1000.0)]


def test_what_is_done_is_not_repeated() -> None:
    """The same wish again, however often, is one push."""

    async def tell(bench: Bench) -> None:
        for _ in range(5):
            bench.want(DRAIN)
            await asyncio.sleep(1)

    assert story(tell).slurm.actions == [DRAIN]


def test_one_in_flight_per_target_and_the_latest_wish_wins() -> None:
    """Desired writes that came and went while one was under way are never pushed."""

    async def tell(bench: Bench) -> None:
        bench.slurm.seconds = 1
        for desired in (DRAIN, AGAIN, LIFT, AGAIN, LIFT):
            bench.want(desired)
            await asyncio.sleep(0.1)
        await asyncio.sleep(5)

    bench = story(tell, slurm=Limits(concurrency=5, batch=1, leisurely=5))
    assert bench.slurm.actions == [DRAIN, LIFT]


def test_a_job_that_was_made_is_not_made_again_in_another_shape() -> None:
    """What was wished while it flew was wished by who did not know of it yet."""
    first = SubmitJob(
        name="k8s/ns/p1/1",
        identity=identity(pod()),
        description=JobDescription(),
        kind="allocation",
    )

    async def tell(bench: Bench) -> None:
        bench.jobs.seconds = 1
        bench.want(first)
        await asyncio.sleep(0.1)
        bench.outbox.facts_changed(KEY)
        bench.want(replace(first, kind="script"))
        await asyncio.sleep(5)

    assert story(tell).jobs.actions == [first]


def test_a_submission_that_was_given_up_may_have_happened_F2() -> None:
    """Found by the simulator: it was asked again at once, though its job was made (60863)."""
    first = SubmitJob(
        name="k8s/ns/p1/1", identity=identity(pod()), description=JobDescription(), kind="script"
    )

    async def tell(bench: Bench) -> None:
        bench.jobs.seconds = 2 * PUSH_LIMIT_S
        bench.want(first)
        await asyncio.sleep(PUSH_LIMIT_S + 1)
        bench.want()

    (report,) = story(tell).reports
    assert report.outcome == Unsure(
        first, "TimeoutError: ", seen=(Attempt(first.identity.workload, 1000 + PUSH_LIMIT_S),)
    )


CANCEL = CancelJob(job_id="7", name="k8s/ns/p1/1", identity=identity(pod()), replaced=True)
BIND = Bind(Reference("Pod", "ns", "p1", "u1"), "kn1", "7", "n1")


def test_a_binding_that_was_given_up_may_have_happened_P29() -> None:
    """Its job stays until it is known whether the Pod was bound."""

    async def tell(bench: Bench) -> None:
        bench.kube.answers = [OSError("cut")]
        bench.want(BIND)
        await asyncio.sleep(0.1)
        bench.want()

    (report,) = story(tell).reports
    assert report.outcome == Unsure(BIND, "OSError: cut", seen=(BindTried("u1", "7", 1000),))


def test_nothing_is_bound_to_a_job_whose_cancel_is_under_way() -> None:
    """Found by the simulator: what made the job unfit had passed meanwhile (60133)."""

    async def tell(bench: Bench) -> None:
        bench.jobs.seconds = 1
        bench.want(CANCEL)
        await asyncio.sleep(0.1)
        bench.want(BIND)
        await asyncio.sleep(0.8)
        assert not bench.kube.actions
        await asyncio.sleep(1)

    assert story(tell).kube.actions == [BIND]


def test_no_job_is_cancelled_while_a_binding_to_it_is_under_way() -> None:
    """Found by the simulator: it was given up as that of an unbound Pod (60294)."""

    async def tell(bench: Bench) -> None:
        bench.kube.seconds = 3
        bench.want(BIND)
        await asyncio.sleep(0.1)
        bench.want(CANCEL)
        bench.outbox.sweep()
        await asyncio.sleep(2.8)
        assert not bench.jobs.actions
        await asyncio.sleep(1)
        bench.want()
        await asyncio.sleep(2)
        bench.outbox.sweep()
        assert not bench.outbox._slots

    assert story(tell).jobs.actions == [CANCEL]


@pytest.mark.parametrize("landed_s", [0.21, 0.24, 0.259])
def test_the_answer_to_a_binding_is_heard_before_its_job_is_cancelled_P29(landed_s: float) -> None:
    """the desired write to cancel it may be of before the answer: it ends with it."""

    async def tell(bench: Bench) -> None:
        bench.kube.seconds = landed_s
        bench.want(BIND)
        await asyncio.sleep(0.01)
        bench.want(CANCEL)
        await asyncio.sleep(landed_s - 0.01 + 0.04)
        bench.want()
        await asyncio.sleep(1)

    assert not story(tell).jobs.actions


def test_a_cancel_that_slurm_forgot_is_asked_once_more_P21() -> None:
    """Found by the simulator: slurmctld was killed a moment later and the job lived on (241117)."""

    async def tell(bench: Bench) -> None:
        bench.want(CANCEL)
        await bench.live_on(31)
        bench.want()
        await asyncio.sleep(60)
        bench.outbox.sweep()

    bench = story(tell)
    assert bench.jobs.actions == [CANCEL, CANCEL]
    assert 30 <= bench.jobs.times[1] < 32


def test_a_job_that_slurm_forgot_before_it_was_told_is_made_once_more_F1() -> None:
    """Found by the simulator: a listing without it was newer than its slow answer (551917)."""

    async def tell(bench: Bench) -> None:
        bench.want(SUBMIT)
        await bench.live_on(31)
        bench.want()  # it is listed
        await asyncio.sleep(60)
        bench.outbox.sweep()

    first_s, again_s = story(tell).jobs.times
    assert first_s == 0
    assert 30 <= again_s < 32


def test_a_listing_that_proved_nothing_is_asked_for_once_more_P21() -> None:
    """Found by the simulator: a watch broke off while it came, so it did not count (290258)."""

    async def tell(bench: Bench) -> None:
        bench.want(Relist("pods", 1.0))
        await bench.live_on(31)

    first_s, again_s = story(tell).kube.times
    assert first_s == 0
    assert 30 <= again_s < 32


SUBMIT = SubmitJob(name="k8s/ns/p1/1", identity=identity(pod()), description=JobDescription())


def test_a_gang_is_not_submitted_anew_before_the_answer_to_the_last_submission_G1() -> None:
    """Found by the simulator: its members changed meanwhile, and two jobs of it ran (220531)."""

    async def tell(bench: Bench) -> None:
        bench.jobs.seconds = 3
        bench.want(SUBMIT)
        await asyncio.sleep(0.1)
        bench.want(replace(SUBMIT, identity=identity(pod(), pod("other"))))
        await asyncio.sleep(2.5)
        assert bench.jobs.actions == [SUBMIT]
        await asyncio.sleep(0.42)
        bench.want()  # what came of the first is known by now
        await asyncio.sleep(5)
        bench.outbox.sweep()
        assert not bench.outbox._slots
        assert not bench.outbox._submits

    assert story(tell).jobs.actions == [SUBMIT]


EDITED = replace(SUBMIT, identity=replace(SUBMIT.identity, digest="another"))
MOVED = replace(SUBMIT, excluded=("n1",), identity=replace(SUBMIT.identity, hosts="another"))


@pytest.mark.parametrize(
    ("then", "stands"),
    [((SUBMIT,), True), ((MOVED,), True), ((EDITED,), False), ((), False)],
    ids=["as it was", "other exclusions", "edited", "deleted"],
)
def test_a_submission_under_way_knows_whether_it_is_still_wished_P13(
    then: Sequence[Action], stands: bool
) -> None:
    """It may wait for its turn; exclusions are brought after (P7), so that it ever goes."""

    async def tell(bench: Bench) -> None:
        bench.jobs.seconds = 3
        assert not bench.outbox.stands(SUBMIT)
        bench.want(SUBMIT)
        await asyncio.sleep(0.1)
        bench.want(*then)
        assert bench.outbox.stands(SUBMIT) == stands

    story(tell)


GO = AnswerGate(call=1, slurm_node="n1", go=True, why="")


@pytest.mark.parametrize(("answer", "waits_s"), [(Done, 3.0), (unsure, 3.0 + BINDING_S)])
def test_no_job_begins_where_a_binding_is_under_way_or_may_still_arrive_L7(
    answer: Callable[[Action], Outcome], waits_s: float
) -> None:
    """Found by the simulator: the network kept it while its own job ended (211699)."""

    async def tell(bench: Bench) -> None:
        bench.kube.seconds = 3
        bench.kube.answers = [answer]
        bench.want(BIND)
        await asyncio.sleep(0.1)
        bench.want(GO)
        bench.want(replace(GO, call=2, slurm_node="n2"), key=OTHER)
        await asyncio.sleep(waits_s + 2)

    bench = story(tell)
    elsewhere = replace(GO, call=2, slurm_node="n2")
    assert bench.hooks.actions == [elsewhere, GO]
    begun_s, went_s = bench.hooks.times
    assert begun_s < 0.2
    assert waits_s < went_s < waits_s + 0.2


def test_one_in_flight_per_target_also_where_the_wish_ended_meanwhile() -> None:
    """What flies is remembered until it has landed, whoever sweeps."""

    async def tell(bench: Bench) -> None:
        bench.slurm.seconds = 10
        bench.want(DRAIN)
        await asyncio.sleep(0.1)
        bench.want()
        bench.want(LIFT)
        await asyncio.sleep(0.1)
        bench.want()
        await asyncio.sleep(5)
        bench.outbox.sweep()
        bench.want(LIFT)
        await asyncio.sleep(30)

    bench = story(tell, slurm=Limits(concurrency=5, batch=1, leisurely=5))
    assert bench.slurm.actions == [DRAIN, LIFT]
    assert bench.slurm.times == [0, 10]


def test_a_wish_that_waits_is_queued_once_however_often_it_is_wished() -> None:
    """The queue does not grow with the loop's rounds."""

    async def tell(bench: Bench) -> None:
        bench.slurm.seconds = 1
        bench.want(Drain("busy", "x"), key=OTHER)
        await asyncio.sleep(0.1)
        for _ in range(5):
            bench.want(DRAIN)
        assert bench.outbox.slurm.depth() == 1
        await asyncio.sleep(1)
        for _ in range(5):
            bench.want(AGAIN)
        assert bench.outbox.slurm.depth() == 0
        await asyncio.sleep(5)
        for _ in range(5):
            bench.want(AGAIN)
        assert bench.outbox.slurm.depth() == 0

    story(tell)


@pytest.mark.parametrize("desired", [DRAIN, shown("a")], ids=["Slurm", "Kubernetes"])
def test_while_more_of_its_batch_comes_nothing_leaves(desired: Action) -> None:
    """Neither to Slurm nor to Kubernetes; then all of it goes."""

    async def tell(bench: Bench) -> None:
        bench.outbox.gather(on=True)
        bench.want(desired)
        await asyncio.sleep(1)
        bench.outbox.gather(on=False)
        await asyncio.sleep(1)

    bench = story(tell)
    assert bench.slurm.times + bench.kube.times == [1]


def test_a_wish_that_ended_before_its_turn_is_dropped() -> None:
    """Nothing is pushed for it, and nothing of it is kept."""

    async def tell(bench: Bench) -> None:
        bench.slurm.seconds = 1
        bench.want(Drain("n9", "k8s: busy"), key=OTHER)
        await asyncio.sleep(0)
        bench.want(DRAIN)
        bench.want()
        bench.want()
        await asyncio.sleep(5)
        bench.want(key=OTHER)
        bench.outbox.sweep()
        assert not bench.outbox._slots
        assert not bench.outbox._targets

    assert story(tell).slurm.actions == [Drain("n9", "k8s: busy")]


@pytest.mark.parametrize(("jitter", "share"), [(0.0, 0.5), (0.999, 0.9995)])
def test_what_is_unsure_is_tried_again_with_growing_pauses(jitter: float, share: float) -> None:
    """Doubling from 0.2 s, at most 30 s, between half and the whole of it."""

    async def tell(bench: Bench) -> None:
        bench.slurm.answers = [unsure] * 12
        bench.want(DRAIN)
        await asyncio.sleep(400)

    times = story(tell, jitter=jitter).slurm.times
    pauses = [after - before for before, after in pairwise(times)]
    longest = [min(BACKOFF_MAX_S, BACKOFF_FIRST_S * 2**n) for n in range(12)]
    assert pauses == pytest.approx([share * most for most in longest], rel=0.01)


def test_wishing_it_again_makes_no_failure_cheaper_and_no_wish_younger() -> None:
    """The loop wishes the same with every fact: back-off and age are the first wish's."""

    async def tell(bench: Bench) -> None:
        bench.slurm.answers = [unsure] * 4
        for _ in range(100):
            bench.want(DRAIN)
            await asyncio.sleep(0.03)

    bench = story(tell)
    assert bench.slurm.times == pytest.approx([0, 0.1, 0.3, 0.7, 1.5])
    assert {one.desired_at_s for one in bench.reports} == {1000.0}


@pytest.mark.parametrize(
    ("seconds", "jitter", "pause"),
    [(7.0, 0.0, 7.0), (900.0, 0.0, BACKOFF_MAX_S), (7.0, 0.5, 7.35), (900.0, 0.5, 31.5)],
)
def test_retry_after_is_honoured_within_bounds_F8(
    seconds: float, jitter: float, pause: float
) -> None:
    """The server says when; an absurd answer does not stop us for ever. Up to a tenth more, so
    that not all who were told the same come back at once."""

    async def tell(bench: Bench) -> None:
        bench.kube.answers = [lambda action: Unsure(action, "429", seconds)]
        bench.want(shown("a"))
        await asyncio.sleep(60)

    assert story(tell, jitter=jitter).kube.times == [0, pytest.approx(pause)]


def test_nothing_cuts_a_retry_after_short_F8() -> None:
    """The authority answers others again; whom it told to wait waits."""

    async def tell(bench: Bench) -> None:
        bench.slurm.answers = [lambda action: Unsure(action, "429", 20.0)]
        bench.want(DRAIN)
        await asyncio.sleep(5)
        bench.outbox.slurm.hurry()
        await asyncio.sleep(60)

    assert story(tell).slurm.times == [0, 20]


@pytest.mark.parametrize("answer", [Done, refused], ids=["done", "refused"])
def test_after_an_answer_the_back_off_begins_anew(answer: Answer) -> None:
    """What failed long ago and was answered since does not make the next failure dearer."""

    async def tell(bench: Bench) -> None:
        bench.slurm.answers = [unsure, unsure, answer, unsure]
        bench.want(DRAIN)
        await asyncio.sleep(10)
        bench.outbox.facts_changed(KEY)
        bench.want(DRAIN)
        await asyncio.sleep(10)

    first_s = BACKOFF_FIRST_S / 2
    assert story(tell).slurm.times == pytest.approx([0, first_s, 3 * first_s, 10, 10 + first_s])


def test_a_changed_wish_does_not_wait_for_the_back_off_of_the_old_one() -> None:
    """What failed was something else."""

    async def tell(bench: Bench) -> None:
        bench.slurm.answers = [unsure] * 8
        bench.want(DRAIN)
        await asyncio.sleep(10)
        bench.slurm.answers = []
        bench.want(LIFT)
        await asyncio.sleep(1)

    bench = story(tell)
    assert bench.slurm.actions[-1] == LIFT
    assert bench.slurm.times[-1] == 10


def test_a_refusal_stands_until_a_fact_changes() -> None:
    """Asked again only when the key is stirred."""

    async def tell(bench: Bench) -> None:
        bench.slurm.answers = [refused, refused]
        for _ in range(3):
            bench.want(DRAIN)
            await asyncio.sleep(10)
        bench.outbox.facts_changed(KEY)
        bench.want(DRAIN)
        bench.outbox.facts_changed(("host", "unknown"))
        await asyncio.sleep(10)

    assert story(tell).slurm.times == [0, 30]


def test_what_is_done_is_not_tried_anew_however_long_ago() -> None:
    """Only a refusal grows old."""

    async def tell(bench: Bench) -> None:
        bench.want(DRAIN)
        await asyncio.sleep(2 * REFUSED_AGAIN_S)
        bench.outbox.sweep()
        await asyncio.sleep(1)

    assert story(tell).slurm.times == [0]


def test_a_refusal_is_tried_anew_after_five_minutes_without_any_fact() -> None:
    """Permissions change without one."""

    async def tell(bench: Bench) -> None:
        bench.slurm.answers = [refused]
        bench.want(DRAIN)
        for _ in range(7):
            await asyncio.sleep(60)
            bench.outbox.sweep()

    assert story(tell).slurm.times == [0, REFUSED_AGAIN_S]


def test_a_refusal_that_is_tried_anew_may_take_its_time() -> None:
    """Sweeps go on meanwhile."""

    async def tell(bench: Bench) -> None:
        bench.slurm.answers = [refused]
        bench.slurm.seconds = 50
        bench.want(DRAIN)
        for _ in range(30):
            await asyncio.sleep(20)
            bench.outbox.sweep()

    assert story(tell).slurm.times == [0, 360]


def test_targets_are_swept_a_thousand_at_a_time_until_all_have_had_their_turn() -> None:
    """A hundred thousand at once would hold up the loop."""
    names = [f"n{number}" for number in range(2 * SWEEP_STEP + 1)]

    async def tell(bench: Bench) -> None:
        for name in names:
            bench.want(Drain(name, "k8s: a"), key=("host", name))
        await asyncio.sleep(1)
        for name in names:
            bench.want(key=("host", name))
        await asyncio.sleep(PACE_S)
        left = [bench.outbox.slices()]
        for _ in range(3):
            bench.outbox.sweep()
            left.append(bench.outbox.slices())
        assert left == [3, 2, 1, 1]

    assert len(story(tell).reports) == len(names)


def test_a_dropped_refusal_is_not_tried_anew() -> None:
    """Nobody wishes it any more."""

    async def tell(bench: Bench) -> None:
        bench.slurm.answers = [refused]
        bench.want(DRAIN)
        await asyncio.sleep(1)
        bench.want()
        await asyncio.sleep(400)
        bench.outbox.sweep()
        await asyncio.sleep(1)

    assert story(tell).slurm.times == [0]


@pytest.mark.parametrize(
    ("action", "times"),
    [
        (RecordEvent(POD, "Warning", "X", "text"), [0]),
        (Relist("nodes", 1.0), [0]),
        (GetObject("Pod", "slurm", "p", 0.0), [0, 1, 2]),
        (SetMetadata(POD, "m", (), ()), [0, 1, 2]),
    ],
    ids=["an Event", "a listing", "a read", "a write"],
)
def test_what_is_said_once_is_not_repeated_by_other_facts(
    action: Action, times: list[float]
) -> None:
    """The same Event twice is one, and so is a listing; what was written may need writing again."""

    async def tell(bench: Bench) -> None:
        for _ in range(3):
            bench.want(action)
            await asyncio.sleep(1)
            bench.outbox.facts_changed(KEY)

    assert story(tell).kube.times == times


def test_a_wish_that_its_own_event_ended_before_its_answer_can_come_back() -> None:
    """The watch is often faster than the answer; then somebody undoes what we wrote."""

    async def tell(bench: Bench) -> None:
        bench.slurm.seconds = 1
        await bench.stir_under_way(DRAIN, after_s=0.5)
        bench.want(DRAIN)
        await asyncio.sleep(5)

    assert story(tell).slurm.times == [0, 5.5]


def test_what_was_undone_before_its_answer_came_is_done_again() -> None:
    """The news that it is undone is older than the answer that it was done."""

    async def tell(bench: Bench) -> None:
        bench.slurm.seconds = 1
        await bench.stir_under_way(DRAIN, DRAIN, after_s=0.5)

    assert story(tell).slurm.times == [0, 1 + BACKOFF_FIRST_S]


def test_what_was_undone_before_its_answer_waits_for_the_pace_of_its_object_M1() -> None:
    """Conditions once more, a second after the answer."""

    async def tell(bench: Bench) -> None:
        bench.kube.seconds = 0.1
        await bench.stir_under_way(shown("a"), shown("a"), after_s=0.05)

    assert story(tell).kube.times == [0, pytest.approx(0.1 + PACE_S)]


def test_what_a_fact_changed_under_way_waits_for_the_answer_alone() -> None:
    """Only the same once more waits a moment."""

    async def tell(bench: Bench) -> None:
        bench.slurm.seconds = 1
        await bench.stir_under_way(DRAIN, LIFT, after_s=0.5)

    assert story(tell).slurm.times == [0, 1]


@pytest.mark.parametrize(
    ("desired", "times"),
    [
        (shown("a"), [0, 1]),
        (shown("", "Unknown"), [0, 1]),
        (SetMetadata(POD, "m", (), ()), [0, 1]),
        (GetObject("Pod", "slurm", "p", 0.0), [0, 0.3]),
    ],
    ids=["conditions", "unknown", "metadata", "a read"],
)
def test_what_somebody_undoes_at_once_is_written_again_once_a_second_M1(
    desired: Action, times: list[float]
) -> None:
    """Another controller that takes our conditions away is no reason to write faster."""

    async def tell(bench: Bench) -> None:
        bench.want(desired)
        await asyncio.sleep(0.3)
        bench.outbox.facts_changed(KEY)
        bench.want(desired)
        await asyncio.sleep(5)

    assert story(tell).kube.times == times


def test_an_answer_that_ends_its_wish_is_the_end_of_it_whatever_changed_meanwhile() -> None:
    """The loop has the time to take the answer in before anything is asked again."""

    async def tell(bench: Bench) -> None:
        bench.slurm.seconds = 1
        bench.want(DRAIN)
        await asyncio.sleep(0.5)
        bench.outbox.facts_changed(KEY)
        await asyncio.sleep(0.6)
        bench.want()
        await asyncio.sleep(5)

    assert story(tell).slurm.times == [0]


def test_an_event_whose_cause_comes_back_is_told_again() -> None:
    """It ended in between."""

    async def tell(bench: Bench) -> None:
        for _ in range(2):
            bench.want(RecordEvent(POD, "Warning", "X", "text"))
            await asyncio.sleep(1)
            bench.want()
            await asyncio.sleep(1)

    assert story(tell).kube.times == [0, 2]


def test_conditions_of_one_object_are_written_at_most_once_a_second_M1() -> None:
    """The latest state wins; the first goes at once."""

    async def tell(bench: Bench) -> None:
        for number in range(25):
            bench.want(shown(str(number)))
            await asyncio.sleep(0.1)
        await asyncio.sleep(3)

    bench = story(tell)
    assert bench.kube.times == [0, PACE_S, 2 * PACE_S, 3 * PACE_S]
    assert bench.kube.actions[-1] == shown("24")


def test_the_pace_holds_across_a_wish_that_ended_M1() -> None:
    """Dropped and wished again within the second: still one write a second."""

    async def tell(bench: Bench) -> None:
        for number in range(3):
            bench.want(shown(str(number)))
            await asyncio.sleep(0.2)
            bench.want()
            bench.outbox.sweep()
        await asyncio.sleep(1)
        bench.want(shown("last"))
        await asyncio.sleep(3)

    times = story(tell).kube.times
    assert all(after - before >= PACE_S for before, after in pairwise(times))


@pytest.mark.parametrize(
    ("reason", "after_s"), [("Unschedulable", WAITING_PACE_S), ("SlurmJobCancelled", PACE_S)]
)
def test_why_a_pod_waits_is_told_once_a_minute_but_another_reason_soon_P26(
    reason: str, after_s: float
) -> None:
    """P17: that its job was cancelled is news, that Slurm's reason changed seldom is."""

    async def tell(bench: Bench) -> None:
        bench.want(SetScheduled(POD, "Unschedulable", "waits"))
        await asyncio.sleep(0.5)
        bench.outbox.facts_changed(KEY)
        bench.want(SetScheduled(POD, reason, "otherwise"))
        await asyncio.sleep(2 * WAITING_PACE_S)

    assert story(tell).kube.times == [0, after_s]


def test_a_pod_made_anew_under_the_same_name_is_told_at_once_P26() -> None:
    """The minute is that of one Pod; a StatefulSet gives the next one the same name."""

    async def tell(bench: Bench) -> None:
        bench.want(SetScheduled(POD, "Unschedulable", "waits"))
        await asyncio.sleep(5)
        bench.want()
        again = replace(POD, uid="another")
        bench.want(SetScheduled(again, "Unschedulable", "waits"), key=OTHER)
        await asyncio.sleep(2 * WAITING_PACE_S)

    assert story(tell).kube.times == [0, 5]


def test_a_word_that_did_not_arrive_starts_no_minute_P26() -> None:
    """A conflict with another write to the Pod, and then Slurm gives another reason."""

    async def tell(bench: Bench) -> None:
        bench.kube.answers = [unsure]
        bench.want(SetScheduled(POD, "Unschedulable", "waits: None"))
        await asyncio.sleep(0.05)
        bench.outbox.facts_changed(KEY)
        bench.want(SetScheduled(POD, "Unschedulable", "waits: Resources"))
        await asyncio.sleep(5)

    assert len(story(tell).kube.actions) == 2


def test_writes_that_only_say_unknown_are_a_hundred_a_second_M2() -> None:
    """And all of them are written."""

    async def tell(bench: Bench) -> None:
        for number in range(300):
            pod = Reference("Node", "", f"n{number}", "u")
            bench.want(shown("", "Unknown", pod), key=("host", f"n{number}"))
        await asyncio.sleep(10)

    bench = story(tell, kube=Limits(concurrency=50, batch=1, leisurely=50))
    assert len(bench.kube.times) == 300
    assert bench.kube.times[-1] == pytest.approx(2.99, abs=0.02)


def test_what_was_written_takes_nothing_from_the_rate_of_what_comes_M2() -> None:
    """A hundred a second, then one more at once."""

    async def tell(bench: Bench) -> None:
        for number in range(100):
            pod = Reference("Node", "", f"n{number}", "u")
            bench.want(shown("", "Unknown", pod), key=("host", f"n{number}"))
        await asyncio.sleep(1.1)
        bench.want(shown("", "Unknown"))
        await asyncio.sleep(5)

    assert story(tell).kube.times[-1] == pytest.approx(1.1)


def test_after_unknown_a_known_state_waits_for_the_pace_of_its_object_M2() -> None:
    """Unknown, then an answer: one write a second and host."""

    async def tell(bench: Bench) -> None:
        bench.kube.seconds = 0.1
        bench.want(shown("", "Unknown"))
        await asyncio.sleep(0.05)
        bench.want(shown("idle"))
        await asyncio.sleep(5)

    assert story(tell).kube.times == [0, pytest.approx(0.1 + PACE_S)]


def test_unknown_too_waits_for_the_pace_of_its_object_M1() -> None:
    """Slurm goes blind in the second in which its last state was shown."""

    async def tell(bench: Bench) -> None:
        bench.want(shown("a"))
        await asyncio.sleep(0.3)
        bench.want(shown("", "Unknown"))
        await asyncio.sleep(5)

    assert story(tell).kube.times == [0, 1]


def test_drains_overtake_comments_and_reads_overtake_conditions() -> None:
    """A queue by urgency: what protects goes before what is shown."""

    async def tell(bench: Bench) -> None:
        bench.slurm.seconds = bench.kube.seconds = 1
        bench.want(Drain("busy", "x"), GetObject("Pod", "a", "busy", 0.0), key=OTHER)
        await asyncio.sleep(0.1)
        for number in range(3):
            bench.want(SetComment(f"c{number}", "x"), key=("host", f"c{number}"))
        bench.want(shown("", "Unknown"), key=("host", "s"))
        bench.want(shown("", reference=Reference("Node", "", "k", "u")), key=("host", "t"))
        bench.want(DRAIN, GetObject("Pod", "a", "b", 0.0))
        await asyncio.sleep(20)

    bench = story(tell)
    assert bench.slurm.actions[1] == DRAIN
    assert [type(action) for action in bench.kube.actions] == [
        GetObject,
        GetObject,
        SetConditions,
        SetConditions,
    ]
    assert bench.kube.actions[-1] == shown("", "Unknown")


def test_what_is_not_urgent_never_takes_every_connection() -> None:
    """Of three pushes at a time one at most carries comments: a drain finds room at once."""

    async def tell(bench: Bench) -> None:
        bench.slurm.seconds = 10
        for number in range(9):
            bench.want(SetComment(f"c{number}", "x"), key=("host", f"c{number}"))
        await asyncio.sleep(1)
        assert len(bench.slurm.under_way) == 1
        bench.want(DRAIN)
        await asyncio.sleep(0.01)
        assert DRAIN in bench.slurm.actions
        await asyncio.sleep(200)
        assert len(bench.slurm.actions) == 10

    story(tell, slurm=Limits(concurrency=3, batch=1, leisurely=1))


def test_drains_go_in_batches_and_never_with_comments() -> None:
    """Where the API takes lists: as many as allowed, of one urgency."""

    async def tell(bench: Bench) -> None:
        bench.slurm.seconds = 1
        bench.want(Drain("busy", "x"), key=OTHER)
        await asyncio.sleep(0.1)
        for number in range(25):
            name = f"n{number}"
            bench.want(Drain(name, "k8s: x"), SetComment(name, "c"), key=("host", name))
        await asyncio.sleep(60)

    limits = Limits(concurrency=1, batch=10, leisurely=1, leisurely_batch=4)
    sizes = [
        (len(actions), {type(a) for a in actions})
        for _, actions in story(tell, slurm=limits).slurm.calls
    ]
    drains = [(1, {Drain}), (10, {Drain}), (10, {Drain}), (5, {Drain})]
    comments = [(4, {SetComment})] * 6 + [(1, {SetComment})]
    assert sizes == drains + comments


def test_the_concurrency_of_an_authority_is_capped() -> None:
    """However many targets wait."""

    async def tell(bench: Bench) -> None:
        bench.slurm.seconds = 1
        for number in range(40):
            bench.want(Drain(f"n{number}", "x"), key=("host", f"n{number}"))
        await asyncio.sleep(60)

    bench = story(tell, slurm=Limits(concurrency=4, batch=1, leisurely=2))
    assert len(bench.slurm.actions) == 40
    assert bench.slurm.most == 4


def test_what_flies_is_counted_on_both_ways() -> None:
    """For the metric, and for the end, which waits for all of it."""

    async def tell(bench: Bench) -> None:
        bench.slurm.seconds, bench.kube.seconds = 2, 3
        bench.want(DRAIN, shown("a"))
        await asyncio.sleep(0.1)
        assert bench.outbox.flying == 2
        await bench.outbox.finish(8)
        assert (now(), bench.outbox.flying) == (1003, 0)

    story(tell)


def test_a_target_handed_from_one_key_to_another_is_not_dropped() -> None:
    """A Node that two hosts show in turn: the one that wishes now has it."""

    async def tell(bench: Bench) -> None:
        bench.want(shown("mine"))
        await asyncio.sleep(2)
        bench.want(shown("theirs"), key=OTHER)
        bench.want()
        await asyncio.sleep(2)

    bench = story(tell)
    assert bench.kube.actions == [shown("mine"), shown("theirs")]
    assert bench.reports[-1].key == OTHER


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (RuntimeError("bug"), "RuntimeError: bug"),
        (RuntimeError("x" * 999), f"RuntimeError: {'x' * 186}"),
        (TimeoutError(), "TimeoutError: "),
    ],
    ids=["raises", "raises at length", "times out"],
)
def test_a_push_that_raises_is_unsure_and_ends_no_lane(answer: Exception, why: str) -> None:
    """A bug there is an answer like any other."""

    async def tell(bench: Bench) -> None:
        bench.slurm.answers = [answer]
        bench.want(DRAIN)
        await asyncio.sleep(5)

    bench = story(tell)
    assert [one.outcome for one in bench.reports] == [Unsure(DRAIN, why), Done(DRAIN)]


def test_a_push_that_hangs_is_unsure_after_a_minute() -> None:
    """Its own deadlines failed; ours does not."""

    async def tell(bench: Bench) -> None:
        bench.slurm.seconds = 1e9
        bench.want(DRAIN)
        await asyncio.sleep(PUSH_LIMIT_S + 0.1)
        bench.slurm.seconds = 0
        await asyncio.sleep(5)

    bench = story(tell)
    assert [type(one.outcome) for one in bench.reports] == [Unsure, Done]
    assert bench.reports[0].answered_s == 1000 + PUSH_LIMIT_S


def test_a_push_that_loses_count_is_unsure_for_all_of_them() -> None:
    """Nobody knows which answer belongs to which."""

    async def tell(bench: Bench) -> None:
        async def short(actions: Sequence[Action]) -> Sequence[Outcome]:
            return [Done(action) for action in actions][:-1]

        bench.outbox.slurm._push = short
        bench.want(DRAIN)
        await asyncio.sleep(0.01)

    assert [one.outcome for one in story(tell).reports] == [
        Unsure(DRAIN, "push lost count of its answers")
    ]


def test_what_failed_goes_at_once_when_the_authority_is_back() -> None:
    """hurry(): an outage of minutes does not cost another half minute."""

    async def tell(bench: Bench) -> None:
        bench.slurm.answers = [unsure] * 9
        bench.want(DRAIN)
        await asyncio.sleep(40)
        bench.slurm.answers = []
        bench.outbox.slurm.hurry()
        await asyncio.sleep(60)

    bench = story(tell)
    assert bench.slurm.times[-1] == 40
    assert isinstance(bench.reports[-1].outcome, Done)


def test_hurry_does_not_touch_the_pace_of_what_did_not_fail() -> None:
    """One write a second and object stays."""

    async def tell(bench: Bench) -> None:
        bench.want(shown("a"))
        await asyncio.sleep(0.1)
        bench.want(shown("b"))
        bench.outbox.kube.hurry()
        await asyncio.sleep(5)

    assert story(tell).kube.times == [0, PACE_S]


def test_at_the_end_nothing_is_taken_up_and_what_flies_lands_F10() -> None:
    """SIGTERM: in flight finishes within its grace."""

    async def tell(bench: Bench) -> None:
        bench.slurm.seconds = 2
        bench.want(DRAIN)
        await asyncio.sleep(0.1)
        bench.want(Drain("n2", "x"), key=OTHER)
        await bench.outbox.finish(8)
        assert now() == 1002
        await asyncio.sleep(30)

    bench = story(tell)
    assert bench.slurm.actions == [DRAIN]
    assert [one.outcome for one in bench.reports] == [Done(DRAIN)]


def test_a_push_that_does_not_land_is_not_waited_for_beyond_the_grace_F10() -> None:
    """The process ends all the same."""

    async def tell(bench: Bench) -> None:
        bench.slurm.seconds = 50
        bench.want(DRAIN)
        await asyncio.sleep(0.1)
        await bench.outbox.finish(8)
        assert now() == pytest.approx(1008.1)
        assert bench.outbox.flying == 1

    story(tell)


@pytest.mark.parametrize(
    ("sooner", "later"),
    [
        (Drain("a", ""), GetObject("Pod", "", "", 0.0)),
        (Undrain("a", ""), SetComment("a", "")),
        (GetObject("Pod", "", "", 0.0), SetComment("a", "")),
        (Cordon(POD), shown("")),
        (Uncordon(POD), shown("")),
        (SetComment("a", ""), RewriteReason("a", "")),
        (shown(""), shown("", "Unknown")),
    ],
)
def test_what_goes_first(sooner: Action, later: Action) -> None:
    """Drains, reads and cordons, marks, what is shown, what is only unknown."""
    assert urgency(sooner) < urgency(later)


def test_an_old_refusal_does_not_disturb_what_is_under_way_now() -> None:
    """the desired write changed since, and its push takes long."""

    async def tell(bench: Bench) -> None:
        bench.slurm.answers = [refused]
        bench.want(DRAIN)
        await asyncio.sleep(REFUSED_AGAIN_S)
        bench.slurm.seconds = 10
        bench.want(AGAIN)
        await asyncio.sleep(1)
        bench.outbox.sweep()
        await asyncio.sleep(60)

    assert story(tell).slurm.actions == [DRAIN, AGAIN]


def test_the_depth_of_a_lane_is_what_waits_in_it() -> None:
    """For the metric: what is ready and what waits for its time, not what flies."""

    async def tell(bench: Bench) -> None:
        bench.slurm.seconds = 1
        for number in range(3):
            bench.want(Drain(f"n{number}", "x"), key=("host", f"n{number}"))
        await asyncio.sleep(0.1)
        assert (bench.outbox.slurm.depth(), bench.outbox.flying) == (2, 1)
        bench.slurm.answers = [unsure]
        await asyncio.sleep(1)
        assert bench.outbox.slurm.depth() == 2
        await asyncio.sleep(10)
        assert (bench.outbox.slurm.depth(), bench.outbox.flying) == (0, 0)

    story(tell)


def test_a_fact_that_comes_while_an_event_is_under_way_does_not_repeat_it() -> None:
    """It was said once, whatever changed meanwhile."""
    event = RecordEvent(POD, "Warning", "SlurmNodeConflict", "two claims")

    async def tell(bench: Bench) -> None:
        bench.kube.seconds = 1
        bench.want(event)
        await asyncio.sleep(0.5)
        bench.outbox.facts_changed(KEY)
        bench.want(event)
        await asyncio.sleep(5)

    assert story(tell).kube.times == [0]


def test_a_fact_of_a_key_whose_target_another_key_took_and_left_is_harmless() -> None:
    """Two keys wish for one target in turn; the second ends its wish, the first stirs."""
    look = GetObject("Pod", "slurm", "p", 0.0)

    async def tell(bench: Bench) -> None:
        bench.want(DRAIN, look)
        await asyncio.sleep(1)
        bench.want(DRAIN, key=OTHER)
        bench.want(key=OTHER)
        bench.outbox.sweep()
        bench.outbox.facts_changed(KEY)
        bench.want(DRAIN, look)
        await asyncio.sleep(1)

    bench = story(tell)
    assert bench.slurm.times == [0, 1]
    assert bench.kube.times == [0, 1]


def test_a_wish_ends_harmlessly_where_another_key_took_its_target_and_left_it() -> None:
    """Nothing is left of the target by then."""

    async def tell(bench: Bench) -> None:
        bench.want(DRAIN)
        await asyncio.sleep(1)
        bench.want(DRAIN, key=OTHER)
        bench.want(key=OTHER)
        bench.outbox.sweep()
        assert not bench.outbox._slots
        bench.want()
        assert not bench.outbox._targets

    assert story(tell).slurm.times == [0]
