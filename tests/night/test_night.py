"""The night goes on where it stopped, and runs a part again when the product changed."""

import sys
from pathlib import Path

import pytest

from tests.night import __main__ as night
from tests.night import results
from tests.night.parts import PARTS, Part, chosen
from tests.night.results import Result


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(night, "FOLDER", tmp_path)
    return tmp_path


def command(text: str, *, minutes: int = 1, again: tuple[str, ...] = ()) -> Part:
    return Part(command=(sys.executable, "-c", text), minutes=minutes, again=again)


def test_each_part_lasts_at_most_forty_minutes() -> None:
    assert all(part.minutes <= 40 for part in PARTS.values())


def test_a_word_names_all_parts_that_begin_with_it() -> None:
    assert chosen(["mutants", "e2e"]) == ["mutants-1", "mutants-2", "mutants-3", "e2e"]
    assert chosen([]) == list(PARTS)


def test_an_unknown_part_is_refused() -> None:
    with pytest.raises(ValueError, match="no part begins with nights"):
        chosen(["nights"])


def test_two_runs_of_one_part_have_different_seeds() -> None:
    first, second = (int(PARTS["seeds-pods"].argv()[-3]) for _ in range(2))
    assert second >= first > 1_700_000_000_000


def test_the_figure_is_the_last_line_and_the_exit_code_the_verdict() -> None:
    assert night.run("one", command("print('3 seeds'); print('0 violations')")).figure == (
        "0 violations"
    )
    failed = night.run("one", command("print('1 violation'); raise SystemExit(1)"))
    assert (failed.verdict, failed.figure) == ("failed", "1 violation")


def test_what_failed_runs_once_more_and_both_runs_are_in_the_log(folder: Path) -> None:
    part = command("import sys; print(sys.argv); sys.exit(len(sys.argv) == 1)", again=("again",))
    assert night.run("one", part).verdict == "passed at the second try"
    assert len((folder / "one.log").read_text().splitlines()) == 2


def test_a_part_that_does_not_end_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(night, "LONGEST_FACTOR", 0.01)
    hung = night.run("one", command("import time; time.sleep(60)"))
    assert (hung.verdict, hung.figure) == ("failed", "ended by the night after 0 minutes")


@pytest.mark.parametrize(
    ("verdict", "commit", "runs"),
    [
        ("passed", "HEAD", False),
        ("passed at the second try", "HEAD", False),
        ("failed", "HEAD", True),
        ("passed", "unknown-commit", True),
    ],
)
def test_a_part_runs_again_unless_it_passed_with_this_product(
    verdict: results.Verdict, commit: str, runs: bool, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Result(
        part="check", verdict=verdict, figure="", minutes=1, commit=commit, when="", command=""
    )
    results.keep(made, folder)
    monkeypatch.setattr(night, "known", lambda: results.known(folder))
    assert night.lacking(["check"]) == (["check"] if runs else [])


def test_the_report_has_a_line_for_each_part_also_for_one_that_did_not_run() -> None:
    text = results.report({}, ["check", "bench"])
    assert "| check | not run |" in text
    assert "| bench | not run |" in text
