"""`make mutation`: every small change of the rules, the policy and the outbox, and what sees it.

mutmut makes the changes and runs the tests (settings in pyproject.toml, our choice of mutations in
engine.py), all of it in a copy. Exits 1 where a survivor is not explained in explained.txt, and
where an explanation fits nothing any more.
"""

import collections
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.mutation.survivors import Result, complaints, module_of, read_explained, survived

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
ENGINE = HERE / "engine.py"
EXPLAINED = HERE / "explained.txt"
JUDGES = {"SUNK_SYNC_HISTORIES": "40", "SUNK_SYNC_SEEDS": "3"}
"""How many histories and broken hours each mutant must face that no table noticed."""
CACHE = re.compile(r"^@lru_cache\(.*\)$", re.MULTILINE)


def copy(place: Path) -> None:
    """What the tests need. mutmut leaves decorated functions alone: caches are taken off."""
    ignored = shutil.ignore_patterns("__pycache__", "real", "bench")
    for name in ("sunk_sync", "tests"):
        shutil.copytree(ROOT / name, place / name, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", place)
    for path in (place / "sunk_sync" / "core" / "rules").rglob("*.py"):
        path.write_text(CACHE.sub("# not cached here", path.read_text()))


def run(place: Path, names: Sequence[str] = ()) -> list[Result]:
    """Results of these mutants (patterns; all where none is named) of the project that is there."""
    command = [sys.executable, "-P", str(ENGINE), *names]
    environment = {**os.environ, **JUDGES, "PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop("PYTHONPATH", None)
    output = place / "mutmut.log"
    with output.open("w") as log:
        done = subprocess.run(
            command, cwd=place, env=environment, stdout=log, stderr=log, check=False
        )
    if done.returncode:
        raise SystemExit(f"mutmut failed:\n{output.read_text()[-4000:]}")
    results: list[Result] = json.loads((place / "results.json").read_text())
    return results


def table(results: Sequence[Result]) -> str:
    """By module: mutants, killed at once, killed by the time limit, survivors."""
    counts: collections.defaultdict[str, collections.Counter[str]] = collections.defaultdict(
        collections.Counter
    )
    for one in results:
        counts[module_of(one["name"])][one["status"]] += 1
    lines = [f"{'module':<18}{'mutants':>8}{'killed':>8}{'time out':>9}{'survive':>8}"]
    for module, count in sorted(counts.items()):
        rest = count.total() - count["killed"] - count["timeout"]
        lines.append(
            f"{module:<18}{count.total():>8}{count['killed']:>8}{count['timeout']:>9}{rest:>8}"
        )
    return "\n".join(lines)


def main(names: Sequence[str]) -> int:
    """The table and what is wrong with it; names: `sunk_sync.core.policy.*`."""
    begun_s = time.perf_counter()
    with tempfile.TemporaryDirectory() as place:
        copy(Path(place))
        results = [one for one in run(Path(place), names) if one["status"] != "not checked"]
    survivors = survived(results)
    modules = {module_of(one["name"]) for one in results}
    explained = read_explained(EXPLAINED.read_text())
    if names:
        explained = [one for one in explained if one in survivors]
    wrong = complaints(survivors, explained)
    print(table(results))
    for one in wrong:
        print(one)
    print(
        f"{len(results)} mutants of {len(modules)} modules, {len(survivors)} kinds of survivors, "
        f"{len(wrong)} complaints, {time.perf_counter() - begun_s:.0f} s"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
