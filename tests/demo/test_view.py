"""What the demo shows: a display that fits every terminal, plain lines without a terminal."""

import io
import re

import pytest
from msgspec.structs import replace
from rich.console import Console

from sunk_sync.demo.screens import LineScreen, LiveScreen, screen_for
from sunk_sync.demo.snapshot import Row, Snapshot, row_of, snapshot_of
from sunk_sync.demo.stage.worlds import HOSTS, Worlds
from sunk_sync.demo.story.history import History, Line
from sunk_sync.demo.view import render

KUBECTL = "kubectl --kubeconfig /tmp/" + "long/" * 20 + "kubeconfig get nodes"
ROW = Row(
    "n1", "cordoned", "Ready", "drained", "5 train", "k8s: node cordoned", "drained: " * 20,
    "drained by us",
)  # fmt: skip
SNAPSHOT = Snapshot(
    age_s=12.0,
    now="An operator cordons Node n1",
    service="service ready",
    writes=34,
    failed=0,
    rows=[replace(ROW, host=host) for host in HOSTS],
    waiting=["low (job 13: Priority)", "ring-0 and 2 more (job 14: Resources)"],
    lines=[
        Line(1.0, "action", "An operator cordons Node n1"),
        Line(1.1, "write", "3 ms drain n1 " + "because " * 40),
        Line(1.2, "mirror", "4 ms set-conditions n1"),
        Line(1.3, "mirror", "4 ms set-metadata n1"),
        Line(1.4, "mirror", "4 ms set-metadata slurm/slurmd-n1"),
        Line(1.5, "passed", "20 ms Slurm drains n1"),
    ],
    line_count=6,
    commands=["In a second terminal:", KUBECTL, "curl 127.0.0.1:1/metrics"],
)


def drawn(snapshot: Snapshot, *, width: int, height: int) -> list[str]:
    console = Console(width=width, height=height, file=io.StringIO(), record=True)
    console.print(render(snapshot, width=width, height=height))
    return console.export_text().rstrip("\n").split("\n")


@pytest.mark.parametrize("width", [40, 60, 80, 120, 250])
@pytest.mark.parametrize("height", [1, 2, 3, 4, 10, 15, 16, 20, 24, 25, 50])
def test_the_display_fits_every_terminal(width: int, height: int) -> None:
    lines = drawn(SNAPSHOT, width=width, height=height)
    assert len(lines) <= height
    assert max(len(line) for line in lines) <= width
    assert lines[0].startswith("sunk-sync demo · 12 s")


def test_a_terminal_of_80_by_24_shows_everything() -> None:
    text = "\n".join(drawn(SNAPSHOT, width=80, height=24))
    for host in HOSTS:
        assert re.search(rf"^{host} +cordoned +Ready +drained +5 train +k8s: nod", text, re.M)
    assert "▶ An operator cordons Node n1" in text
    assert "✓ 20 ms Slurm drains n1" in text
    assert "→ 3 ms drain n1" in text
    assert "Waiting Pods: low (job 13: Priority) · ring-0 and 2 more (job 14: Resources)" in text
    assert KUBECTL in text.replace("\n", "")


def test_mirror_lines_leave_room_for_drains() -> None:
    lines = drawn(SNAPSHOT, width=120, height=20 + 3)
    assert [line[:16] for line in lines[17:19]] == ["→ 3 ms drain n1 ", "→ 4 ms set-metad"]


def test_a_low_terminal_shows_the_head_and_as_many_hosts_as_fit() -> None:
    lines = drawn(SNAPSHOT, width=80, height=10)
    assert [line.split()[0] for line in lines[4:]] == ["n1", "n2", "n3", "n4", "n5", "n6"]


def test_the_line_of_waiting_pods_stays_when_none_waits() -> None:
    assert "Waiting Pods: none" in drawn(replace(SNAPSHOT, waiting=[]), width=80, height=24)


async def test_a_snapshot_has_every_host_before_the_service_starts() -> None:
    snapshot = snapshot_of(Worlds(), None, history=History(lambda: 0.0), commands=[])
    assert [row.host for row in snapshot.rows] == list(HOSTS)
    assert snapshot.service == "service not started"


async def test_a_row_shows_both_sides_in_the_words_of_kubectl_and_sinfo() -> None:
    worlds = Worlds()
    worlds.kube.advance(1.0)
    idle = Row("n1", "Ready", "Ready", "idle", "-", "", "", "ok")
    assert row_of(worlds, "n1", because="") == idle
    worlds.cordon("n1", "disk")
    worlds.drain("n3", "fan broken")
    worlds.mark_for_deletion("n5", "scale down")
    worlds.remove_node("n6")
    worlds.set_ready("n7", ready=False)
    rows = {host: row_of(worlds, host, because="") for host in HOSTS}
    assert rows["n1"].node == "cordoned"
    assert (rows["n3"].slurm, rows["n3"].reason) == ("drained", "fan broken")
    assert rows["n3"].status == "drained by others"
    assert rows["n5"].pod == "marked"
    assert (rows["n6"].node, rows["n6"].status) == ("gone", "unavailable")
    assert rows["n7"].node == "NotReady"


def test_without_a_terminal_each_line_is_printed_once() -> None:
    file = io.StringIO()
    lines = LineScreen(file)
    lines.show(replace(SNAPSHOT, lines=[], line_count=0, commands=[]))
    lines.show(SNAPSHOT)
    lines.show(SNAPSHOT)
    lines.show(replace(SNAPSHOT, lines=[*SNAPSHOT.lines, Line(2.0, "warning", "oh")], line_count=7))
    printed = file.getvalue().splitlines()
    assert printed[:3] == list(SNAPSHOT.commands)
    assert len(printed) == 3 + 7
    assert printed[-1] == "  2.00 s ! oh"


class Terminal(io.StringIO):
    """A file that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("file", "term", "screen"),
    [
        (Terminal(), "xterm", LiveScreen),
        (Terminal(), "dumb", LineScreen),
        (io.StringIO(), "xterm", LineScreen),
    ],
)
def test_only_a_terminal_gets_the_live_display(
    monkeypatch: pytest.MonkeyPatch, file: io.StringIO, term: str, screen: type
) -> None:
    """FORCE_COLOR does not change that."""
    monkeypatch.setenv("TERM", term)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert isinstance(screen_for(file), screen)


WRITE = {"event": "write", "level": "info", "outcome": "done", "because": "why", "seconds": 0.002}
REFUSED = {"level": "warning", "outcome": "refused", "why": "403"}
ENDED = {"reason": "SlurmJobCancelled", "message": "job 5 ended"}


@pytest.mark.parametrize(
    ("event", "sort", "text"),
    [
        (
            {"action": "drain", "slurm_node": "n1", "reason": "k8s: x", "seconds": 0.0123},
            "write", "   12 ms  drain n1 “k8s: x”: why",
        ),
        (
            {"action": "set-metadata", "pod": "a/b", "seconds": 1.0},
            "mirror", " 1000 ms  set-metadata a/b: why",
        ),
        (
            {"action": "set-metadata", "pod": "a/b", **REFUSED},
            "write", "    2 ms  set-metadata a/b refused: 403: why",
        ),
        (
            {"action": "end-pod", "pod": "a/b", **ENDED},
            "write", "    2 ms  end-pod a/b “job 5 ended”: why",
        ),
        (
            {"action": "cancel-job", "job_id": "5", "job": "k8s/a/b/0"},
            "write", "    2 ms  cancel-job k8s/a/b/0: why",
        ),
        ({"action": "answer-gate", "slurm_node": "n1"}, "mirror", "    2 ms  answer-gate n1: why"),
    ],
)  # fmt: skip
def test_each_write_is_in_the_history(event: dict[str, object], sort: str, text: str) -> None:
    history = History(lambda: 0.0)
    history.record_log(WRITE | event)
    assert [(line.sort, line.text) for line in history.lines] == [(sort, text)]


def test_the_history_records_warnings_of_the_service() -> None:
    event = {"event": "source lost", "level": "warning", "source": "nodes", "timestamp": "x"}
    sort, text = "warning", "service: source lost source=nodes"
    history = History(lambda: 0.0)
    history.record_log(event)
    assert [(line.sort, line.text) for line in history.lines] == [(sort, text)]


def test_the_history_ignores_other_log_lines() -> None:
    history = History(lambda: 0.0)
    history.record_log({"event": "servers listen", "level": "info"})
    assert not history.lines
