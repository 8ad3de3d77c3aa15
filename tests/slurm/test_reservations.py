"""Reservations for the updates of NodeSets (N16)."""

from datetime import UTC, datetime

import msgspec
import pytest

from sunk_sync.core.model.node_set import Window
from sunk_sync.core.model.node_set_actions import SetReservation
from sunk_sync.core.model.node_set_answers import ReservationSet
from sunk_sync.core.model.outcomes import Done, Outcome, Refused, Unsure
from sunk_sync.slurm.api.answers import SlurmError, SlurmResponse
from sunk_sync.slurm.api.requests import SlurmCall
from sunk_sync.slurm.write.reservations import ReservationPush
from tests.slurm.recorded.slurm_nodes import DOWN, SlurmNodes

START = datetime(2026, 12, 1, 22, 0, tzinfo=UTC)
WINDOW = Window(int(START.timestamp()), 3601)
NODES = ("cpu-0", "cpu-1", "cpu-2")
RESERVE = SetReservation("k8s-slurm-cpu", "slurm/cpu", NODES, WINDOW)
END = SetReservation("k8s-slurm-cpu", "slurm/cpu", (), WINDOW)
REFUSED = SlurmError("refused", "Requested nodes are busy (2016)", 2016)
NONE = SlurmError("refused", "Requested reservation is invalid (2053)", 2053)
LOST = SlurmError("timeout", "no answer")


class Slurm(SlurmNodes):
    """With an answer to each write of a reservation."""

    answer: SlurmError | None = None
    probe: SlurmError | None = None

    async def call(self, call: SlurmCall) -> SlurmResponse | SlurmError:
        if call.path == "jobs/state/":
            return self.probe or self.replied()
        self.calls.append(call)
        return self.answer or self.replied()

    def replied(self) -> SlurmResponse:
        return SlurmResponse(
            body=b"{}", version=self.version, asked_s=self.now_s, answered_s=self.now_s
        )


async def push(slurm: Slurm, action: SetReservation, now: datetime = START) -> Outcome:
    (outcome,) = await ReservationPush(slurm, slurm.clock, lambda: now).push([action])
    return outcome


def why_not(outcome: Outcome) -> str:
    assert isinstance(outcome, Done | Refused)
    (news,) = outcome.seen
    assert isinstance(news, ReservationSet)
    return news.why_not


async def test_the_nodes_are_reserved_for_maintenance_N16() -> None:
    slurm = Slurm()
    assert why_not(await push(slurm, RESERVE)) == ""
    (call,) = slurm.calls
    assert (call.method, call.path) == ("POST", "reservation")
    assert msgspec.json.decode(call.body) == {
        "name": "k8s-slurm-cpu",
        "node_list": ["cpu-[0-2]"],
        "start_time": {"set": True, "number": WINDOW.start},
        "duration": {"set": True, "number": 61},
        "flags": ["MAINT", "IGNORE_JOBS"],
        "users": ["root"],
    }


@pytest.mark.parametrize("answer", [None, NONE], ids=["there", "gone already"])
async def test_without_nodes_the_reservation_ends_N16(answer: SlurmError | None) -> None:
    slurm = Slurm()
    slurm.answer = answer
    assert why_not(await push(slurm, END)) == ""
    assert [(one.method, one.path) for one in slurm.calls] == [
        ("DELETE", "reservation/k8s-slurm-cpu")
    ]


async def test_an_older_slurmrestd_leaves_it_to_the_administrator_N16() -> None:
    slurm = Slurm()
    slurm.version = "v0.0.42"
    assert why_not(await push(slurm, RESERVE)) == (
        "slurmrestd makes reservations only from API v0.0.43 on, and this is v0.0.42. Make it by"
        " hand for 2026-12-01T22:00:00Z: scontrol create reservation"
        " ReservationName=k8s-slurm-cpu Nodes=cpu-[0-2]"
        " StartTime=uts1796162400 Duration=61 Flags=MAINT,IGNORE_JOBS Users=root"
    )
    assert why_not(await push(slurm, END)) == ""
    assert not slurm.calls


async def test_a_window_that_is_over_is_not_reserved_N16() -> None:
    slurm = Slurm()
    late = datetime(2026, 12, 1, 23, 0, 1, tzinfo=UTC)
    assert why_not(await push(slurm, RESERVE, late)) == (
        "the window that began at 2026-12-01T22:00:00Z is over"
    )
    assert not slurm.calls


@pytest.mark.parametrize(
    ("action", "answer", "kind"),
    [
        (RESERVE, REFUSED, Refused),
        (RESERVE, LOST, Unsure),
        (END, REFUSED, Unsure),
        (END, LOST, Unsure),
    ],
    ids=["refused", "lost", "end refused", "end lost"],
)
async def test_refusals_are_shown_and_lost_answers_tried_again_N16(
    action: SetReservation, answer: SlurmError, kind: type
) -> None:
    slurm = Slurm()
    slurm.answer = answer
    outcome = await push(slurm, action)
    assert isinstance(outcome, kind)
    if isinstance(outcome, Refused):
        assert why_not(outcome) == str(REFUSED)


async def test_without_slurmctld_nothing_is_sent_N16() -> None:
    slurm = Slurm()
    slurm.probe = DOWN
    assert isinstance(await push(slurm, RESERVE), Unsure)
    assert not slurm.calls
