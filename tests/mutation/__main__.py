"""`python -m tests.mutation`: small changes of rules, policy and outbox, which tests must notice.

mutmut makes the changes and runs the tests in a copy (settings in pyproject.toml, mutations in
engine.py). Exits 1 if explained.txt does not explain a survivor, or explains one that is killed.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

from tests.mutation.survivors import Result, complaints, module_of, read_explained, survived

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
ENGINE = HERE / "engine.py"
EXPLAINED = HERE / "explained.txt"
JUDGES = {"SUNK_SYNC_HISTORIES": "40", "SUNK_SYNC_SEEDS": "3"}
"""Number of histories and seeds for each mutant that no other test kills."""
CACHE = re.compile(r"^@lru_cache\(.*\)$", re.MULTILINE)


def copy(place: Path) -> None:
    """Copy what the tests need, without caches: mutmut does not change decorated functions."""
    ignored = shutil.ignore_patterns("__pycache__", "real", "bench")
    for name in ("sunk_sync", "tests"):
        shutil.copytree(ROOT / name, place / name, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", place)
    for path in (place / "sunk_sync" / "core" / "rules").rglob("*.py"):
        path.write_text(CACHE.sub("# not cached here", path.read_text()))


def run(place: Path, names: Sequence[str] = ()) -> list[Result]:
    """Return the results of these mutants (patterns; default: all) of the project in `place`."""
    command = [sys.executable, "-P", str(ENGINE), *names]
    given = {**os.environ, **JUDGES, "PYTHONDONTWRITEBYTECODE": "1"}
    given.pop("PYTHONPATH", None)
    output = place / "mutmut.log"
    with output.open("w") as log:
        done = subprocess.run(command, cwd=place, env=given, stdout=log, stderr=log, check=False)
    if done.returncode:
        raise SystemExit(f"mutmut failed:\n{output.read_text()[-4000:]}")
    results: list[Result] = json.loads((place / "results.json").read_text())
    return results


def table(results: Sequence[Result]) -> str:
    """Return the numbers of each module: mutants, killed, killed by the time limit, survivors."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for one in results:
        counts[module_of(one["name"])][one["status"]] += 1
    lines = [f"{'module':<18}{'mutants':>8}{'killed':>8}{'time out':>9}{'survive':>8}"]
    for module, count in sorted(counts.items()):
        total, killed, late = count.total(), count["killed"], count["timeout"]
        lines.append(f"{module:<18}{total:>8}{killed:>8}{late:>9}{total - killed - late:>8}")
    return "\n".join(lines)


def main(names: Sequence[str]) -> int:
    """Print the table and the complaints; names such as `sunk_sync.core.policy.*`."""
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
    print(table(results), *wrong, sep="\n")
    print(
        f"{len(results)} mutants of {len(modules)} modules, {len(survivors)} kinds of survivors, "
        f"{len(wrong)} complaints, {time.perf_counter() - begun_s:.0f} s"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
