"""Quantities of Kubernetes: exact, rounded up once."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sunk_sync.core.translate.quantity import AMOUNT_MAX, NANO, counted, nanos

SUFFIXES = {
    "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "": Fraction(1),
    "k": Fraction(10**3), "M": Fraction(10**6), "G": Fraction(10**9), "T": Fraction(10**12),
    "P": Fraction(10**15), "E": Fraction(10**18),
    "Ki": Fraction(2**10), "Mi": Fraction(2**20), "Gi": Fraction(2**30), "Ti": Fraction(2**40),
    "Pi": Fraction(2**50), "Ei": Fraction(2**60),
    "e3": Fraction(1000), "E3": Fraction(1000), "e-2": Fraction(1, 100), "e+1": Fraction(10),
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "cpu", "bytes_"),
    [
        ("100m", 100, 1),
        ("1", 1000, 1),
        ("1.5", 1500, 2),
        (".5", 500, 1),
        ("5.", 5000, 5),
        ("+2", 2000, 2),
        ("-1", -1000, -1),
        ("2Gi", 2 * 2**30 * 1000, 2 * 2**30),
        ("1.5Ki", 1536 * 1000, 1536),
        ("1e3", 1_000_000, 1000),
        ("1E3", 1_000_000, 1000),
        ("1e-3", 1, 1),
        ("1k", 1_000_000, 1000),
        ("2E", AMOUNT_MAX, 2 * 10**18),
        ("100Ei", AMOUNT_MAX, AMOUNT_MAX),
        ("0.0001", 1, 1),
        ("1500u", 2, 1),
        ("1n", 1, 1),
        ("0.1n", 1, 1),
        ("0", 0, 0),
        ("0e99", 0, 0),
        ("1e999999999", AMOUNT_MAX, AMOUNT_MAX),
        ("1e-999999999", 1, 1),
    ],
)
def test_a_quantity_is_counted_as_kubernetes_does_P6(text: str, cpu: int, bytes_: int) -> None:
    """CPUs in thousandths, other resources in whole units, rounded up, at most 2^63 - 1."""
    assert counted("cpu", nanos(text)) == cpu
    assert counted("memory", nanos(text)) == bytes_


@pytest.mark.parametrize(
    "text",
    ["", ".", "+", "m", "1x", "1 ", " 1", "1KI", "1K", "1ki", "1e", "1e1.5", "--1", "1.2.3",
     "0x10", "1_000", "\u0661", "1\n", "1mi", "9" * 65, "NaN", "inf"],
)  # fmt: skip
def test_text_that_is_no_quantity_raises_value_error(text: str) -> None:
    """So one object is unreadable, and no other."""
    with pytest.raises(ValueError, match="no quantity"):
        nanos(text)


@given(
    whole=st.integers(0, 10**9),
    part=st.text("0123456789", max_size=15),
    suffix=st.sampled_from(list(SUFFIXES)),
)
def test_no_digit_is_lost_P6(whole: int, part: str, suffix: str) -> None:
    text = f"{whole}.{part}{suffix}" if part else f"{whole}{suffix}"
    exact = Fraction(f"{whole}.{part or 0}") * SUFFIXES[suffix] * NANO
    assert nanos(text) == min(math.ceil(exact), AMOUNT_MAX * NANO)
