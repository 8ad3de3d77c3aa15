"""The core as mypyc compiles it says what the source says (decision 17)."""

import ast
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from tests.compile import ROOT, TREE, missing
from tests.core.replay import Recording, WorkRecording, record, replay

SEEDS = range(5000, 5020)
"""Others than those of test_histories."""
NEVER_COMPILED = ("facts", "views", "verdict", "entries", "actions", "configuration")
HOT = ("graph", "host_picture", "work_graph", "work_picture", "works", "table", "claims", "decide",
       "reconciler", "policy", "rules/drain", "rules/bind", "rules/wait")  # fmt: skip


def require_compiled() -> None:
    """Built of this very source; where it cannot be, the reason (on CI that is a failure)."""
    sources = [path.relative_to(ROOT) for path in (ROOT / "sunk_sync").rglob("*.py")]
    stale = [one for one in sources if _bytes(TREE / one) != _bytes(ROOT / one)]
    why = missing() or (f"not built of this source ({stale[0]}): make compiled" if stale else "")
    if why and os.environ.get("CI"):
        pytest.fail(why)
    if why:
        pytest.skip(why)


def _bytes(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


@pytest.mark.no_cover
def test_the_compiled_core_says_word_for_word_what_the_source_says(tmp_path: Path) -> None:
    """Every decision of random histories, those with Pods and jobs among them."""
    require_compiled()
    lives = [*record(SEEDS, kind=Recording), *record(SEEDS, kind=WorkRecording)]
    recording = tmp_path / "lives"
    recording.write_bytes(pickle.dumps(lives))
    told = subprocess.run(
        [sys.executable, "-m", "tests.core.replay", str(recording)],
        cwd=TREE,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    assert told[0] == ".so"
    digests = [replay(life) for life in lives]
    assert len(set(digests)) > len(SEEDS)
    assert told[1:] == digests


def test_what_is_hot_is_compiled_and_no_struct_is() -> None:
    """mypyc drops the keywords of a class statement, `frozen` and `gc=False` among them."""
    require_compiled()
    compiled = {
        path.relative_to(TREE / "sunk_sync").as_posix().partition(".")[0]
        for path in (TREE / "sunk_sync").rglob("*.so")
    }
    assert compiled >= set(HOT)
    assert compiled.isdisjoint(NEVER_COMPILED)
    for name in compiled:
        tree = ast.parse((ROOT / "sunk_sync" / f"{name}.py").read_text())
        classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
        assert not [one.name for one in classes if one.keywords], name
