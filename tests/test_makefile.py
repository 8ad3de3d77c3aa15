"""What make would do, as `make -n` prints it."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.newcomer.pythons import pythons

ROOT = Path(__file__).parents[1]
BUILT_ANEW = "-m venv --clear .venv"


def printed(folder: Path, *words: str) -> str:
    """Run `make -n` as from a shell, not as a child of the make that runs the tests."""
    kept = {
        key: value for key, value in os.environ.items() if not key.startswith(("MAKE", "PYTHON"))
    }
    argv = ["make", "-n", "-f", str(ROOT / "Makefile"), *words]
    return subprocess.run(argv, cwd=folder, env=kept, capture_output=True, text=True).stdout


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """Return a folder with a .venv of the oldest Python, as far as make looks at it."""
    (tmp_path / "requirements.lock").touch()
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    (programs / "python").symlink_to(pythons()[min(pythons())])
    (tmp_path / ".venv" / ".runtime").touch()
    return tmp_path


def test_an_environment_stays_without_PYTHON_and_with_its_own(installed: Path) -> None:
    for words in ([], [f"PYTHON={pythons()[min(pythons())]}"], ["PYTHON=.venv/bin/python"]):
        assert printed(installed, "demo", *words) == ".venv/bin/python -m sunk_sync demo\n", words


def test_another_PYTHON_builds_the_environment_anew(installed: Path) -> None:
    if len(pythons()) < 2:
        pytest.skip("this machine has one Python from 3.11 on")
    other = pythons()[max(pythons())]
    assert f"{other} {BUILT_ANEW}" in printed(installed, "demo", f"PYTHON={other}")


def test_a_PYTHON_that_does_not_run_is_named_before_anything_is_removed(installed: Path) -> None:
    text = printed(installed, "demo", "PYTHON=nonsense")
    assert text.index("nonsense is no Python that runs") < text.index(BUILT_ANEW)


def test_clean_removes_all_that_git_ignores(tmp_path: Path) -> None:
    ignored = [line.rstrip("/") for line in (ROOT / ".gitignore").read_text().splitlines()]
    words = printed(tmp_path, "clean").split()
    assert [one for one in ignored if one not in words] == ["*.whl"], "make builds no wheel here"


def test_an_environment_that_was_left_half_made_is_made_from_the_start(installed: Path) -> None:
    (installed / ".venv" / ".runtime").unlink()
    assert BUILT_ANEW in printed(installed, "demo")
