"""`make demo` on a fresh clone, and `sunk-sync demo` from the wheel, with two Pythons.

Every other test runs where the package is installed from this checkout.
"""

import os
import signal
from pathlib import Path

import pytest

from sunk_sync import __version__
from tests.newcomer.clone import Newcomer
from tests.newcomer.pythons import pythons

pytestmark = pytest.mark.newcomer
OLDEST = (3, 11)
FIRST_DRAIN = "Slurm drains"
STORY_S = 240.0
"""The fixed story lasts about a minute."""


@pytest.fixture(params=["the oldest Python", "the newest Python"])
def newcomer(request: pytest.FixtureRequest, tmp_path: Path) -> Newcomer:
    oldest = request.param == "the oldest Python"
    found = pythons()
    if oldest and OLDEST not in found:
        _cannot(f"Python {OLDEST[0]}.{OLDEST[1]} is not on this machine")
    if not oldest and max(found) == OLDEST:
        _cannot("no Python newer than 3.11 is on this machine")
    return Newcomer(tmp_path, found[OLDEST if oldest else max(found)])


def _cannot(reason: str) -> None:
    """Skip; in CI fail instead."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def test_make_demo_in_a_pipe_shows_a_drain_and_ctrl_c_or_its_reader_ends_it(
    newcomer: Newcomer,
) -> None:
    with newcomer.started("make", "demo", f"PYTHON={newcomer.python}") as command:
        command.read_until(FIRST_DRAIN, within_s=STORY_S)
        code = command.interrupt()
        assert code in (0, -signal.SIGINT), command.text
        assert not command.living
        assert "Traceback" not in command.text
    piped = f"set -o pipefail; make demo PYTHON={newcomer.python} | head -3"
    code, printed = newcomer.run("bash", "-c", piped)
    assert (code, len(printed.splitlines())) == (0, 3), printed
    assert newcomer.left_behind() == []


def test_the_wheel_with_the_lock_alone_runs_the_fixed_story(
    newcomer: Newcomer, tmp_path: Path
) -> None:
    wheels, elsewhere = tmp_path / "wheels", tmp_path / "elsewhere"
    elsewhere.mkdir()
    newcomer.run(newcomer.python, "-m", "venv", tmp_path / "venv")
    programs = tmp_path / "venv" / "bin"
    pip = (programs / "python", "-m", "pip")
    lock = newcomer.clone / "requirements.lock"
    for step in (
        (*pip, "wheel", "--no-deps", "--wheel-dir", wheels, newcomer.clone),
        (*pip, "install", "--no-deps", "--require-hashes", "-r", lock),
        (*pip, "install", "--no-deps", wheels / f"sunk_sync-{__version__}-py3-none-any.whl"),
    ):
        code, printed = newcomer.run(*step, cwd=elsewhere)
        assert code == 0, printed
    told = newcomer.run(programs / "sunk-sync", "--version", cwd=elsewhere)
    assert told == (0, f"sunk-sync {__version__}\n")
    code, printed = newcomer.run(
        programs / "sunk-sync", "demo", "--once", cwd=elsewhere, within_s=STORY_S
    )
    assert code == 0, printed
    assert FIRST_DRAIN in printed
    assert not list(newcomer.temporary.iterdir())
