"""Rendering of a snapshot at exactly the size of the terminal, without a terminal."""

from collections.abc import Sequence
from itertools import islice

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sunk_sync.core.translate.counted import counted
from sunk_sync.demo.snapshot import HostStatus, Row, Snapshot
from sunk_sync.demo.story.history import Line, Sort

HEAD = 3
"""Lines above the table: totals, last action, last check."""
LINES_MIN = 2
JOBS = 10
"""Minimum width of the column of jobs."""
STYLES: dict[HostStatus, str] = {
    "ok": "", "pod": "cyan", "drained by us": "yellow", "drained by others": "magenta",
    "unavailable": "red",
}  # fmt: skip
_STYLES_OF_SORT: dict[Sort, tuple[str, str]] = {
    "action": ("▶", "bold"),
    "passed": ("✓", "green"),
    "failed": ("✗", "bold red"),
    "write": ("→", ""),
    "mirror": ("→", "dim"),
    "warning": ("!", "red"),
}
MARKS = {sort: mark for sort, (mark, _) in _STYLES_OF_SORT.items()}


def render(snapshot: Snapshot, *, width: int, height: int) -> RenderableType:
    """Render head and hosts; then waiting Pods, writes and commands as far as they fit."""
    table_height = max(0, min(len(snapshot.rows) + 1, height - HEAD))
    left = height - HEAD - table_height
    waiting = [_waiting(snapshot.waiting)] if left > 0 else []
    left -= len(waiting)
    commands = _commands(snapshot.commands, width=width)
    if left < len(commands) + LINES_MIN:
        commands = ()
    parts: list[RenderableType] = []
    parts.extend(_head(snapshot)[: max(height, 1)])
    if table_height > 1:
        parts.append(_table(islice(snapshot.rows, table_height - 1)))
    parts.extend(waiting)
    parts.extend(_last(snapshot.lines, left - len(commands)))
    return Group(*parts, *commands)


def _head(snapshot: Snapshot) -> Sequence[Text]:
    failed = f" · {counted(snapshot.failed, 'check')} failed" if snapshot.failed else ""
    writes = counted(snapshot.writes, "write")
    totals = f"{snapshot.age_s:.0f} s · {snapshot.service} · {writes}{failed}"
    shown = [line for line in snapshot.lines if line.sort in ("action", "passed", "failed")]
    check = shown[-1] if shown and shown[-1].sort != "action" else None
    return (
        _line("sunk-sync demo · " + totals + " · Ctrl-C stops", "reverse"),
        _line(f"{MARKS['action']} {snapshot.now}", "bold cyan"),
        _entry(check) if check else _line("", ""),
    )


def _waiting(pods: Sequence[str]) -> Text:
    return _line(f"Waiting Pods: {' · '.join(pods) or 'none'}", "cyan" if pods else "dim")


def _table(rows: "islice[Row]") -> Table:
    table = Table(box=None, expand=True, padding=(0, 1, 0, 0), header_style="dim", pad_edge=False)
    for title, width in (("host", 5), ("node", 8), ("pod", 6), ("slurm", 9)):
        table.add_column(title, width=width, no_wrap=True)
    table.add_column("jobs", min_width=JOBS, ratio=4, no_wrap=True, overflow="ellipsis")
    table.add_column("Slurm reason", ratio=4, no_wrap=True, overflow="ellipsis")
    table.add_column("decision", ratio=7, no_wrap=True, overflow="ellipsis")
    for row in rows:
        cells = (row.host, row.node, row.pod, row.slurm, row.jobs, row.reason, row.because)
        table.add_row(*(Text(cell) for cell in cells), style=STYLES[row.status])
    return table


def _last(lines: Sequence[Line], count: int) -> Sequence[Text]:
    """Return `count` lines: the last writes, at most half of them mirrors, then empty lines."""
    mirrors = [line for line in lines if line.sort == "mirror"]
    others = [line for line in lines if line.sort in ("write", "warning")]
    mirrors = mirrors[max(0, len(mirrors) - count // 2) :]
    others = others[max(0, len(others) - max(0, count - len(mirrors))) :]
    shown = [_entry(line) for line in sorted([*mirrors, *others], key=lambda line: line.at_s)]
    return [*shown, *(_line("", "") for _ in range(count - len(shown)))]


def _commands(commands: Sequence[str], *, width: int) -> Sequence[Text]:
    """Fold long commands instead of cutting them: viewers copy them."""
    folded = [
        command[start : start + width]
        for command in commands
        for start in range(0, len(command), width)
    ]
    return [_line(text, "dim") for text in folded]


def _entry(line: Line) -> Text:
    mark, style = _STYLES_OF_SORT[line.sort]
    return _line(f"{mark} {line.text}", style)


def _line(text: str, style: str) -> Text:
    return Text(text, style=style, no_wrap=True, overflow="ellipsis")
