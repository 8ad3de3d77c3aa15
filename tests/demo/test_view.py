"""What the demo shows: a picture that fits any terminal, plain lines where there is none."""

import io
import re

import pytest
from msgspec.structs import replace
from rich.console import Console

from sunk_sync.demo.scene import Row, Scene, row_of, scene_of
from sunk_sync.demo.screens import Lines, Picture, screen_for
from sunk_sync.demo.stage.worlds import HOSTS, Worlds
from sunk_sync.demo.story.diary import Diary, Line
from sunk_sync.demo.view import picture

KUBECTL = "kubectl --kubeconfig /tmp/" + "long/" * 20 + "kubeconfig get nodes"
ROW = Row(
    "n1", "cordoned", "Ready", "drained", "5 train", "k8s: node cordoned", "drained: " * 20, "ours"
)
SCENE = Scene(
    age_s=12.0,
    now="An operator cordons Node n1",
    service="service ready",
    writes=34,
    broken=0,
    rows=[replace(ROW, host=host) for host in HOSTS],
    waiting=["low (job 13: Priority)", "ring-0 and 2 more (job 14: Resources)"],
    lines=[
        Line(1.0, "act", "An operator cordons Node n1"),
        Line(1.1, "write", "3 ms drain n1 " + "because " * 40),
        Line(1.2, "mirror", "4 ms set-conditions n1"),
        Line(1.3, "mirror", "4 ms set-metadata n1"),
        Line(1.4, "mirror", "4 ms set-metadata slurm/slurmd-n1"),
        Line(1.5, "kept", "20 ms Slurm drains n1"),
    ],
    told=6,
    reach=["In a second terminal:", KUBECTL, "curl 127.0.0.1:1/metrics"],
)


def drawn(scene: Scene, *, width: int, height: int) -> list[str]:
    console = Console(width=width, height=height, file=io.StringIO(), record=True)
    console.print(picture(scene, width=width, height=height))
    return console.export_text().rstrip("\n").split("\n")


@pytest.mark.parametrize("width", [40, 60, 80, 120, 250])
@pytest.mark.parametrize("height", [1, 2, 3, 4, 10, 15, 16, 20, 24, 25, 50])
def test_the_picture_fits_every_terminal(width: int, height: int) -> None:
    """Never a line too many, never one too long."""
    lines = drawn(SCENE, width=width, height=height)
    assert len(lines) <= height
    assert max(len(line) for line in lines) <= width
    assert lines[0].startswith("sunk-sync demo · 12 s")


def test_on_80_by_24_everything_has_its_place() -> None:
    """All hosts, what happens, what came of it, the drain itself, and the commands in full."""
    text = "\n".join(drawn(SCENE, width=80, height=24))
    for host in HOSTS:
        assert re.search(rf"^{host} +cordoned +Ready +drained +5 train +k8s: nod", text, re.M)
    assert "▶ An operator cordons Node n1" in text
    assert "✓ 20 ms Slurm drains n1" in text
    assert "→ 3 ms drain n1" in text
    assert "Pods that wait: low (job 13: Priority) · ring-0 and 2 more (job 14: Resources)" in text
    assert KUBECTL in text.replace("\n", "")


def test_drains_are_not_crowded_out_by_what_mirrors_them() -> None:
    """Of three lines two are left for them."""
    lines = drawn(SCENE, width=120, height=20 + 3)
    assert [line[:16] for line in lines[17:19]] == ["→ 3 ms drain n1 ", "→ 4 ms set-metad"]


def test_a_low_terminal_keeps_what_matters_most() -> None:
    """The head, then as many hosts as there is room for; no commands."""
    lines = drawn(SCENE, width=80, height=10)
    assert [line.split()[0] for line in lines[4:]] == ["n1", "n2", "n3", "n4", "n5", "n6"]


def test_that_no_pod_waits_is_said_too() -> None:
    """The picture does not jump."""
    assert "Pods that wait: none" in drawn(replace(SCENE, waiting=[]), width=80, height=24)


async def test_a_scene_speaks_of_every_host_before_the_service_is_there() -> None:
    """The first picture does not wait for it."""
    scene = scene_of(Worlds(), None, diary=Diary(lambda: 0.0), reach=[])
    assert [row.host for row in scene.rows] == list(HOSTS)
    assert scene.service == "service about to start"


async def test_a_row_shows_both_sides() -> None:
    """Words that kubectl and sinfo would use."""
    worlds = Worlds()
    worlds.kube.advance(1.0)
    assert row_of(worlds, "n1", because="") == Row(
        "n1", "Ready", "Ready", "idle", "-", "", "", "well"
    )
    worlds.cordon("n1", "disk")
    worlds.drain("n3", "fan broken")
    worlds.ask_to_retire("n5", "scale down")
    worlds.remove_node("n6")
    worlds.set_ready("n7", ready=False)
    rows = {host: row_of(worlds, host, because="") for host in HOSTS}
    assert rows["n1"].node == "cordoned"
    assert (rows["n3"].slurm, rows["n3"].reason, rows["n3"].mood) == (
        "drained", "fan broken", "theirs",
    )  # fmt: skip
    assert rows["n5"].pod == "to go"
    assert (rows["n6"].node, rows["n6"].mood) == ("gone", "away")
    assert rows["n7"].node == "NotReady"


def test_without_a_terminal_each_thing_is_told_once() -> None:
    """Commands first, then a line for each; nothing twice, nothing left out."""
    file = io.StringIO()
    lines = Lines(file)
    lines.show(replace(SCENE, lines=[], told=0, reach=[]))
    lines.show(SCENE)
    lines.show(SCENE)
    lines.show(replace(SCENE, lines=[*SCENE.lines, Line(2.0, "trouble", "oh")], told=7))
    told = file.getvalue().splitlines()
    assert told[:3] == list(SCENE.reach)
    assert len(told) == 3 + 7
    assert told[-1] == "  2.00 s ! oh"


class Terminal(io.StringIO):
    """A file that says it is one."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("file", "term", "screen"),
    [
        (Terminal(), "xterm", Picture),
        (Terminal(), "dumb", Lines),
        (io.StringIO(), "xterm", Lines),
    ],
)
def test_only_a_terminal_gets_a_picture(
    monkeypatch: pytest.MonkeyPatch, file: io.StringIO, term: str, screen: type
) -> None:
    """FORCE_COLOR and the like do not count."""
    monkeypatch.setenv("TERM", term)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert isinstance(screen_for(file), screen)


@pytest.mark.parametrize(
    ("event", "sort", "text"),
    [
        (
            {"event": "write", "level": "info", "action": "drain", "slurm_node": "n1",
             "reason": "k8s: x", "outcome": "done", "because": "why", "seconds": 0.0123},
            "write", "   12 ms  drain n1 “k8s: x”: why",
        ),
        (
            {"event": "write", "level": "info", "action": "set-metadata", "pod": "a/b",
             "outcome": "done", "because": "why", "seconds": 1.0},
            "mirror", " 1000 ms  set-metadata a/b: why",
        ),
        (
            {"event": "write", "level": "warning", "action": "set-metadata", "pod": "a/b",
             "outcome": "refused", "why": "403", "because": "why", "seconds": 0.001},
            "write", "    1 ms  set-metadata a/b refused: 403: why",
        ),
        (
            {"event": "write", "level": "info", "action": "end-pod", "pod": "a/b",
             "reason": "SlurmJobCancelled", "message": "job 5 ended", "outcome": "done",
             "because": "why", "seconds": 0.002},
            "write", "    2 ms  end-pod a/b “job 5 ended”: why",
        ),
        (
            {"event": "write", "level": "info", "action": "cancel-job", "job_id": "5",
             "job": "k8s/a/b/0", "outcome": "done", "because": "why", "seconds": 0.002},
            "write", "    2 ms  cancel-job k8s/a/b/0: why",
        ),
        (
            {"event": "write", "level": "info", "action": "look-job", "job_id": "5",
             "outcome": "done", "because": "why", "seconds": 0.002},
            "mirror", "    2 ms  look-job 5: why",
        ),
        (
            {"event": "source lost", "level": "warning", "source": "nodes", "timestamp": "x"},
            "trouble", "service: source lost source=nodes",
        ),
    ],
)  # fmt: skip
def test_the_diary_hears_what_the_service_says(
    event: dict[str, object], sort: str, text: str
) -> None:
    """One line for each write and for each warning."""
    diary = Diary(lambda: 0.0)
    diary.hear(event)
    assert [(line.sort, line.text) for line in diary.lines] == [(sort, text)]


def test_what_the_service_merely_mentions_is_left_out() -> None:
    """Addresses, listings: the picture shows the outcome."""
    diary = Diary(lambda: 0.0)
    diary.hear({"event": "doors open", "level": "info"})
    assert not diary.lines
