"""P1, P10, P26: messages for Slurm's reasons and errors. tests/real reads the real ones."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sunk_sync.core.translate.pending import (
    MESSAGE_BYTES_MAX,
    TEXT_LENGTH_MAX,
    Words,
    error_in_words,
    in_words,
    waiting_message,
)
from sunk_sync.core.translate.slurm_errors import ERRORS, RANGES, meaning
from sunk_sync.core.translate.slurm_reasons import REASONS, limit
from tests.kit import slurm_names
from tools import pending_page

NAMES = slurm_names.read()
EVERY_REASON = sorted({name for names in NAMES.values() for name in names.reasons})
EVERY_ERROR = sorted({number for names in NAMES.values() for number in names.errors})
ADVICE_LENGTH_MAX = 260
"""The advice must fit into one message with the text, the queue position and the age."""


def every_words() -> Iterator[Words]:
    yield from map(in_words, EVERY_REASON)
    yield from (error_in_words(number, "x") for number in (*EVERY_ERROR, *ERRORS))


def test_the_lists_are_those_of_two_versions() -> None:
    assert {version: len(one.reasons) for version, one in NAMES.items()} == {
        "24.11": 216,
        "26.05": 216,
    }
    assert set(NAMES["24.11"].reasons) ^ set(NAMES["26.05"].reasons) == {
        "FrontEndDown",
        "NvidiaImexChannels",
    }
    assert {2000, 2068, 9207} <= set(EVERY_ERROR)


@pytest.mark.parametrize("reason", EVERY_REASON)
def test_every_reason_has_its_words_and_keeps_its_name_P1(reason: str) -> None:
    words = in_words(reason)
    assert reason in REASONS or limit(reason)
    assert words.text.endswith(f" ({reason})")
    assert words.advice


def test_a_reason_is_in_the_table_or_made_of_parts_but_not_both() -> None:
    assert not [reason for reason in REASONS if limit(reason)]
    assert set(REASONS) <= set(EVERY_REASON)


@pytest.mark.parametrize("number", EVERY_ERROR)
def test_every_error_has_its_words_and_keeps_its_number_P10(number: int) -> None:
    words = error_in_words(number, "Some text of Slurm")
    assert meaning(number)
    assert f": Some text of Slurm ({number})" in words.text
    assert words.advice


def test_every_error_in_the_table_exists() -> None:
    """-1 and 0 are slurmrestd's for no number, 11 is EAGAIN."""
    assert set(ERRORS) - {-1, 0, 11} <= set(EVERY_ERROR)


def test_every_range_of_errors_is_used() -> None:
    rows = [meaning(number) for number in EVERY_ERROR if number not in ERRORS]
    assert [row for row in RANGES.values() if row not in rows] == []


def test_words_are_clauses_of_one_line() -> None:
    for words in every_words():
        for clause, most in ((words.text, TEXT_LENGTH_MAX), (words.advice, ADVICE_LENGTH_MAX)):
            assert len(clause) <= most, clause
            assert clause == " ".join(clause.split())
            assert not clause.endswith(".")
        assert words.whose in ("user", "operator", "wait")


@pytest.mark.parametrize(
    ("reason", "text", "whose"),
    [
        ("Resources", "the nodes that could take it are in use", "wait"),
        ("PartitionTimeLimit", "more time than its partition allows", "user"),
        ("QOSMaxJobsPerUserLimit", "its user would have more running jobs than its QOS", "wait"),
        (
            "AssocGrpCpuLimit",
            "the jobs of its account would together exceed their limit of CPUs",
            "wait",
        ),
        ("AssocGrpCPUMinutesLimit", "have used up their minutes of CPUs", "operator"),
        ("AssocGrpCPURunMinutesLimit", "together exceed their limit of minutes of CPUs", "wait"),
        ("QOSGrpWallLimit", "the jobs of its QOS have used up their run time", "operator"),
        ("QOSMaxGRESPerNode", "GPUs or other generic resources than its QOS allows on one", "user"),
        ("QOSMaxWallDurationPerJobLimit", "more run time than its QOS allows for one job", "user"),
        ("AssocMaxJobsLimit", "its user would have more running jobs than its account", "wait"),
        ("MaxMemoryPerAccount", "its account would have more memory than its QOS", "wait"),
        ("MaxGRESRunMinsPerUser", "its user would have more minutes of GPUs", "wait"),
        ("QOSMinCpuNotSatisfied", "its QOS requires more CPUs than it requests", "user"),
        ("JobHeldAdmin", "an administrator holds it", "operator"),
        ("", "slurmctld has not considered the job yet (None)", "wait"),
    ],
)
def test_a_reason_says_what_is_missing_and_who_can_act(reason: str, text: str, whose: str) -> None:
    words = in_words(reason)
    assert text in words.text
    assert words.whose == whose


def test_a_limit_of_a_later_slurm_is_read_by_its_parts() -> None:
    assert "its account would have more GPUs" in in_words("MaxGRESPerAccountLimit").text


@pytest.mark.parametrize(
    "reason", ["MaxMemPerLimit", "MaxPoweredUpNodes", "Max", "QOSGrp", "qosgrp"]
)
def test_a_name_that_only_looks_like_a_limit_is_none(reason: str) -> None:
    assert limit(reason) is None


def test_an_unknown_reason_is_shown_by_its_name_P1() -> None:
    words = in_words("MoonPhase")
    assert words.text == "Slurm gives the reason MoonPhase"
    assert words.whose == "operator"


def test_details_after_a_reason_are_kept() -> None:
    """As squeue and state_description show them."""
    words = in_words("(ReqNodeNotAvail, UnavailableNodes:n[1-2])")
    assert words.text.endswith("(ReqNodeNotAvail, UnavailableNodes:n[1-2])")
    assert "needs by name" in words.text


def test_an_error_says_who_refused_and_why() -> None:
    words = error_in_words(2000, "Invalid partition name specified")
    assert str(words) == (
        "Slurm refused the job: Invalid partition name specified (2000); Slurm has no partition"
        " of this name; correct or set annotation sunk.coreweave.com/partition"
    )
    assert words.whose == "user"


INVALID = "Slurm refused the job: Invalid partition (2000)"


@pytest.mark.parametrize(
    ("number", "text", "whose", "words"),
    [
        (2000, "Invalid partition (2000)", "user", INVALID),
        (2000, "Invalid partition.", "user", INVALID),
        (2000, "Batch job submission failed: Invalid partition (2000)", "user", INVALID),
        (2000, "refused: Job allocation request failed: Invalid partition", "user", INVALID),
        (2000, "no such: Job update requested failed: Invalid partition (2000)", "user", INVALID),
        (2000, "", "user", "Slurm refused the job: error (2000)"),
        (31337, "The moon is full", "operator", "Slurm refused the job: The moon is full (31337)"),
        (11, "Some text", "wait", "Slurm did not accept the job now: Some text (11)"),
        (1800, "Some text", "wait", "Slurm did not accept the job now: Some text (1800)"),
        (2007, "Some text", "wait", "Slurm did not accept the job now: Some text (2007)"),
        (2016, "Some text", "wait", "Slurm did not accept the job now: Some text (2016)"),
    ],
)
def test_an_error_is_shown_once_with_its_number_and_without_prefixes_P10(
    number: int, text: str, whose: str, words: str
) -> None:
    """`SlurmError` and slurmrestd add these prefixes. 2007 is 26.05's error for too many jobs, 11
    is 24.11's: they pass.
    """
    error = error_in_words(number, text)
    assert (error.whose, error.text) == (whose, words)


def test_the_number_comes_once_even_when_it_is_not_the_last() -> None:
    words = error_in_words(2000, "Invalid partition (2000); something else (2001)")
    assert words.text.count("(2000)") == 1
    assert words.text.endswith("(2001)")


def test_a_refusal_by_sunk_sync_itself_has_no_number() -> None:
    words = error_in_words(0, "slurmrestd v0.0.42 knows no external jobs (from v0.0.43 on)")
    assert words.text.endswith("no external jobs (from v0.0.43 on)")
    assert words.advice.startswith("sunk-sync did not ask Slurm")


def test_a_long_text_keeps_its_number() -> None:
    assert error_in_words(2000, "x" * 1000).text.endswith("… (2000)")


def waiting(*, reason: str = "Resources", job: str = "7", ahead: int = 0, age_s: float = 0) -> str:
    return waiting_message(reason, job, ahead=ahead, age_s=age_s)


def test_the_message_of_a_waiting_pod_has_job_reason_and_queue_position_P1_P26() -> None:
    assert waiting(ahead=12, age_s=3) == (
        "Slurm job 7 waits: the nodes that could take it are in use, drained, down or reserved"
        " (Resources); it starts when enough nodes are free; if that never happens, request less."
        " At least 10 other Pods wait ahead of it."
    )


def test_the_message_of_a_pod_without_a_job_says_that_it_will_get_one_P26() -> None:
    assert waiting(job="", ahead=1000) == (
        "No Slurm job yet: sunk-sync will submit one. At least 1,000 other Pods wait ahead of it."
    )


@pytest.mark.parametrize(
    ("ahead", "said"),
    [
        (-1, "No other Pod waits"),
        (0, "No other Pod waits"),
        (1, "At least 1 other Pod waits"),
        (9, "At least 1 other Pod waits"),
        (10, "At least 10 other Pods wait"),
        (99, "At least 10 other Pods wait"),
        (100, "At least 100 other Pods wait"),
        (999, "At least 100 other Pods wait"),
        (1000, "At least 1,000 other Pods wait"),
        (98765, "At least 1,000 other Pods wait"),
    ],
)
def test_the_queue_position_is_shown_in_powers_of_ten_P26(ahead: int, said: str) -> None:
    assert waiting(ahead=ahead).endswith(f". {said} ahead of it.")


@pytest.mark.parametrize(
    ("age_s", "said"),
    [
        (59.9, ""),
        (60, "more than a minute ago"),
        (599, "more than a minute ago"),
        (600, "more than 10 minutes ago"),
        (3600, "more than an hour ago"),
        (36_000, "more than 10 hours ago"),
        (86_400, "more than a day ago"),
        (1e9, "more than a day ago"),
    ],
)
def test_an_old_reason_is_shown_with_its_age_P26(age_s: float, said: str) -> None:
    assert waiting(age_s=age_s).count(f" Slurm gave this reason {said}.") == bool(said)
    assert ("Slurm gave this reason" in waiting(age_s=age_s)) is bool(said)


def test_the_message_seldom_changes_P26() -> None:
    """Each change is a write."""
    messages = {waiting(ahead=n, age_s=t) for n in range(1500) for t in (0, 30, 59)}
    assert len(messages) == 5


def test_no_reason_is_so_long_that_the_queue_position_is_cut_off() -> None:
    for reason in EVERY_REASON:
        assert waiting(reason=reason, ahead=1000, age_s=1e6).endswith("ahead of it.")


@given(st.text(), st.text(), st.integers(), st.floats(allow_nan=False))
def test_any_message_is_bounded_and_one_line(
    reason: str, job: str, ahead: int, age_s: float
) -> None:
    message = waiting_message(reason * 50, job * 50, ahead=ahead, age_s=age_s)
    assert len(message.encode()) <= MESSAGE_BYTES_MAX
    assert message.isprintable()


@given(st.integers(), st.text())
def test_words_are_bounded_and_of_one_line_whatever_comes(number: int, text: str) -> None:
    for words in (in_words(text * 50), error_in_words(number, text * 50)):
        assert len(words.text) <= TEXT_LENGTH_MAX or abs(number) > 10**9
        assert words.text.isprintable()


def test_a_long_text_of_many_bytes_is_cut_between_characters() -> None:
    message = waiting(reason="七" * 500, job="八" * 500)
    assert len(message.encode()) == MESSAGE_BYTES_MAX or message.endswith("ahead of it.")
    assert "七" in message


def test_the_page_is_current() -> None:
    """`python -m tools.pending_page` writes docs/pending.md anew."""
    assert pending_page.FILE.read_text(encoding="utf-8") == pending_page.renewed()


def test_the_page_has_every_reason_and_error() -> None:
    page = pending_page.renewed()
    for reason in EVERY_REASON:
        assert f"`{reason}`" in page
    for number in ERRORS:
        assert f"\n| {number} |" in page
