"""`python -m tests.night [PART …]`: run the parts that the product at HEAD still lacks.

A word may be the beginning of some names: `seeds`, `mutants`. Exit code 1 if a part failed, 2 if
none could be run. Ctrl-C ends the part that runs; the next call begins with it.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from tests.night.parts import PARTS, Part, chosen
from tests.night.results import (
    FOLDER,
    ROOT,
    Result,
    Verdict,
    commit,
    keep,
    known,
    report,
    uncommitted,
)

LONGEST_FACTOR = 2.0
"""A part that takes longer than this many times its minutes has failed."""


def run(name: str, part: Part) -> Result:
    """Run one part; its output goes to a log beside its result."""
    argv = part.argv()
    log = FOLDER / f"{name}.log"
    begun_s = time.monotonic()
    verdict: Verdict = "passed" if _passes(argv, log, part, mode="w") else "failed"
    if verdict == "failed" and part.again and _passes([*argv, *part.again], log, part, mode="a"):
        verdict = "passed at the second try"
    return Result(
        part=name,
        verdict=verdict,
        figure=figure(log.read_text(errors="replace"), part.figures),
        minutes=(time.monotonic() - begun_s) / 60,
        commit=commit(),
        when=datetime.now(UTC).strftime("%Y-%m-%d %H:%M"),
        command=" ".join(argv).replace(sys.executable, "python"),
    )


def _passes(argv: Sequence[str], log: Path, part: Part, *, mode: str) -> bool:
    longest_s = part.minutes * 60 * LONGEST_FACTOR
    with log.open(mode) as output:
        try:
            done = subprocess.run(
                argv, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT, timeout=longest_s
            )
        except subprocess.TimeoutExpired:
            output.write(f"\nended by the night after {longest_s / 60:.0f} minutes\n")
            return False
    return done.returncode == 0


def figure(text: str, lines: int) -> str:
    """Return the last lines that say something."""
    said = [line.strip(" =") for line in text.splitlines() if line.strip(" =")]
    return "; ".join(said[-lines:])


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.night", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    words = parser.parse_args(argv).parts
    try:
        names = chosen(words)
    except ValueError as error:
        parser.error(str(error))
    if changed := uncommitted():
        print(f"Commit the product first: a result names its commit.\n{changed}", file=sys.stderr)
        return 2
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in lacking(names):
        print(f"{name}: about {PARTS[name].minutes} minutes", flush=True)
        result = run(name, PARTS[name])
        keep(result)
        (FOLDER / "report.md").write_text(report(known(), list(PARTS)))
        print(f"{name}: {result.verdict}, {result.minutes:.1f} minutes, {result.figure}")
    bad = [name for name in names if not known()[name].passed]
    print(f"{FOLDER.relative_to(ROOT)}/report.md: {len(names)} parts, failed: {bad or 'none'}")
    return 1 if bad else 0


def lacking(names: Sequence[str]) -> list[str]:
    """Return the parts without a good result for the product at HEAD."""
    results = known()
    return [name for name in names if not (name in results and _stands(results[name]))]


def _stands(result: Result) -> bool:
    return result.passed and result.holds


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
