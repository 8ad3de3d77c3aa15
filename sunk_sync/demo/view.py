"""A scene as a picture of exactly the terminal's size. Pure: nothing here knows a terminal."""

from collections.abc import Sequence
from itertools import islice

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sunk_sync.demo.scene import Mood, Row, Scene
from sunk_sync.demo.story.diary import Line, Sort

HEAD = 3
"""Lines above the table: how it is, what happens, what came of it."""
LINES_MIN = 2
JOBS = 10
"""Least width of the column of jobs."""
STYLES: dict[Mood, str] = {
    "well": "", "held": "cyan", "ours": "yellow", "theirs": "magenta", "away": "red",
}  # fmt: skip
_LOOKS: dict[Sort, tuple[str, str]] = {
    "act": ("▶", "bold"),
    "kept": ("✓", "green"),
    "broken": ("✗", "bold red"),
    "write": ("→", ""),
    "mirror": ("→", "dim"),
    "trouble": ("!", "red"),
}
"""Mark and style."""
MARKS = {sort: look[0] for sort, look in _LOOKS.items()}


def picture(scene: Scene, *, width: int, height: int) -> RenderableType:
    """Head, then hosts; below them, as far as there is room, Pods that wait, writes, commands."""
    table_height = max(0, min(len(scene.rows) + 1, height - HEAD))
    left = height - HEAD - table_height
    waiting = [_waiting(scene.waiting)] if left > 0 else []
    left -= len(waiting)
    reach = _reach(scene.reach, width=width)
    if left < len(reach) + LINES_MIN:
        reach = ()
    parts: list[RenderableType] = []
    parts.extend(_head(scene)[: max(height, 1)])
    if table_height > 1:
        parts.append(_table(islice(scene.rows, table_height - 1)))
    parts.extend(waiting)
    parts.extend(_last(scene.lines, left - len(reach)))
    return Group(*parts, *reach)


def _head(scene: Scene) -> Sequence[Text]:
    broken = f" · {scene.broken} promises broken" if scene.broken else ""
    told = f"{scene.age_s:.0f} s · {scene.service} · {scene.writes} writes{broken} · Ctrl-C ends"
    ends = [line for line in scene.lines if line.sort in ("act", "kept", "broken")]
    came = ends[-1] if ends and ends[-1].sort != "act" else None
    return (
        _line("sunk-sync demo · " + told, "reverse"),
        _line(f"{MARKS['act']} {scene.now}", "bold cyan"),
        _spelled(came) if came else _line("", ""),
    )


def _waiting(pods: Sequence[str]) -> Text:
    return _line(f"Pods that wait: {' · '.join(pods) or 'none'}", "cyan" if pods else "dim")


def _table(rows: "islice[Row]") -> Table:
    table = Table(box=None, expand=True, padding=(0, 1, 0, 0), header_style="dim", pad_edge=False)
    for title, width in (("host", 4), ("node", 8), ("pod", 6), ("slurm", 9)):
        table.add_column(title, width=width, no_wrap=True)
    table.add_column("job of", min_width=JOBS, ratio=4, no_wrap=True, overflow="ellipsis")
    table.add_column("reason in Slurm", ratio=4, no_wrap=True, overflow="ellipsis")
    table.add_column("decision, and why", ratio=7, no_wrap=True, overflow="ellipsis")
    for row in rows:
        cells = (row.host, row.node, row.pod, row.slurm, row.jobs, row.reason, row.because)
        table.add_row(*(Text(cell) for cell in cells), style=STYLES[row.mood])
    return table


def _last(lines: Sequence[Line], count: int) -> Sequence[Text]:
    """The last writes, drains at least half of them; empty lines where there were fewer."""
    mirrors = [line for line in lines if line.sort == "mirror"]
    others = [line for line in lines if line.sort in ("write", "trouble")]
    mirrors = mirrors[max(0, len(mirrors) - count // 2) :]
    others = others[max(0, len(others) - max(0, count - len(mirrors))) :]
    shown = [_spelled(line) for line in sorted([*mirrors, *others], key=lambda line: line.at_s)]
    return [*shown, *(_line("", "") for _ in range(count - len(shown)))]


def _reach(commands: Sequence[str], *, width: int) -> Sequence[Text]:
    """Folded, never cut: they are for copying."""
    folded = [
        command[start : start + width]
        for command in commands
        for start in range(0, len(command), width)
    ]
    return [_line(text, "dim") for text in folded]


def _spelled(line: Line) -> Text:
    mark, style = _LOOKS[line.sort]
    return _line(f"{mark} {line.text}", style)


def _line(text: str, style: str) -> Text:
    return Text(text, style=style, no_wrap=True, overflow="ellipsis")
