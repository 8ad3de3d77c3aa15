"""What is known of each part: a file each in build/night, and the report made of them."""

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "build" / "night"
PRODUCT = ("sunk_sync", "deploy", "requirements.lock", "requirements-traces.lock")
"""A result holds until one of these changes. Tests and docs may change meanwhile."""
Verdict = Literal["passed", "passed at the second try", "failed"]
HEAD = """# The night

A line for each part: what ran, on which commit, and what it found. `holds` says whether the product
is the same at HEAD. Logs stand beside this file.

| part | verdict | holds | figure | minutes | commit | when | command |
|---|---|---|---|---|---|---|---|
"""


class Result(Struct, frozen=True, kw_only=True):
    part: str
    verdict: Verdict
    figure: str
    minutes: float
    commit: str
    when: str
    """UTC."""
    command: str

    @property
    def holds(self) -> bool:
        return same_product(self.commit)

    @property
    def passed(self) -> bool:
        return self.verdict != "failed"


def git(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", *argv], cwd=ROOT, capture_output=True, text=True)


def commit() -> str:
    return git("rev-parse", "--short=8", "HEAD").stdout.strip()


def same_product(commit: str) -> bool:
    """Whether the product at this commit is that of HEAD; not if the commit is not known here."""
    return git("diff", "--quiet", commit, "HEAD", "--", *PRODUCT).returncode == 0


def uncommitted() -> str:
    """Return the changed files of the product: no result could name their commit."""
    return git("status", "--porcelain", "--", *PRODUCT).stdout.strip()


def known(folder: Path = FOLDER) -> dict[str, Result]:
    """Return the last result of each part."""
    files = sorted(folder.glob("*.json"))
    some = [msgspec.json.decode(file.read_bytes(), type=Result) for file in files]
    return {one.part: one for one in some}


def keep(result: Result, folder: Path = FOLDER) -> None:
    (folder / f"{result.part}.json").write_bytes(msgspec.json.encode(result))


def report(results: Mapping[str, Result], parts: list[str]) -> str:
    """Return the report; a part without a result has a line, too."""
    return HEAD + "".join(f"| {_cells(name, results.get(name))} |\n" for name in parts)


def _cells(name: str, result: Result | None) -> str:
    if result is None:
        return f"{name} | not run | | | | | |"
    cells = (
        name,
        result.verdict,
        "yes" if result.holds else "no: the product changed since",
        result.figure.replace("|", "/"),
        f"{result.minutes:.1f}",
        result.commit,
        result.when,
        f"`{result.command}`",
    )
    return " | ".join(cells)
