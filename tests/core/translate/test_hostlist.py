"""Hostlists: expansion and compression."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sunk_sync.core.translate.hostlist import NAMES_MAX, HostlistError, compress, expand

EXPANSIONS = [
    ("n[001-003,020],gpu-a", "n001 n002 n003 n020 gpu-a"),
    ("n[001-12]", "n001 n002 n003 n004 n005 n006 n007 n008 n009 n010 n011 n012"),
    ("n[9-11]", "n9 n10 n11"),
    ("n[08-011]", "n08 n09 n10 n11"),
    ("n[1-2]n[01-03]", "n1n01 n1n02 n1n03 n2n01 n2n02 n2n03"),
    ("r[1-2]x[3-4]s", "r1x3s r1x4s r2x3s r2x4s"),
    ("a[1-2][3-4]", "a13 a14 a23 a24"),
    ("n[1-3]-ib", "n1-ib n2-ib n3-ib"),
    ("[1-3]", "1 2 3"),
    ("n[1,1]", "n1 n1"),
    ("n1 n2", "n1 n2"),
    ("n1,,n2", "n1 n2"),
    ("n[1,03-04]", "n1 n03 n04"),
    ("n[10000000000-10000000001]", "n10000000000 n10000000001"),
    ("", ""),
]
"""The answers of `scontrol show hostnames` of 24.11 and 26.05 (tests/real)."""

COMPRESSIONS = [
    ("n3 n1 n2", "n[1-3]"),
    ("n01 n02 n10", "n[01-02,10]"),
    ("n9 n10 n11", "n[9-11]"),
    ("n098 n099 n100", "n[098-100]"),
    ("n1 n01 n001", "n[1,01,001]"),
    ("r1n1 r1n2 r2n1 r2n2", "r1n[1-2],r2n[1-2]"),
    ("n1-ib n2-ib", "n[1-2]-ib"),
    ("a b", "a,b"),
    ("n7", "n7"),
    ("n1 n1", "n1"),
    ("i-0123456789012345", "i-0123456789012345"),
    ("", ""),
]

name = st.from_regex(r"[a-z]{0,3}(?:[0-9]{1,4}[a-z.\-]{0,2}){0,3}", fullmatch=True).filter(bool)


@pytest.mark.parametrize(("text", "names"), EXPANSIONS)
def test_a_hostlist_expands_as_in_slurm(text: str, names: str) -> None:
    assert expand(text) == names.split()


@pytest.mark.parametrize(("names", "text"), COMPRESSIONS)
def test_names_compress_to_the_shortest_sorted_list(names: str, text: str) -> None:
    assert compress(names.split()) == text


@pytest.mark.parametrize(
    "text",
    ["n[3-1]", "n[1-2", "n1]", "n[]", "n[a-b]", "n[1 - 3]", "n[1-]", "n[-3]", "n[[1-2]]", "n[1,]"],
)
def test_a_hostlist_that_slurm_reads_in_part_is_an_error(text: str) -> None:
    """A list that loses names would exclude or drain the wrong nodes."""
    with pytest.raises(HostlistError):
        expand(text)


@pytest.mark.parametrize("text", ["n[1-100000]", "a[1-300]b[1-300]", "n[0-65535],m", "[1-9]" * 40])
def test_an_expansion_is_bounded(text: str) -> None:
    """A short text must not fill the memory."""
    with pytest.raises(HostlistError, match="more than 65536 names"):
        expand(text)


def test_slurms_own_bound_is_reached() -> None:
    assert len(expand(f"n[1-{NAMES_MAX}]")) == NAMES_MAX


@pytest.mark.parametrize("name", ["n[1", "n 1", "n,1", ""])
def test_a_name_that_would_break_the_list_is_an_error(name: str) -> None:
    with pytest.raises(HostlistError):
        compress([name])


@given(st.sets(name, max_size=60))
def test_compressed_names_come_back(names: set[str]) -> None:
    assert sorted(expand(compress(names))) == sorted(names)


@given(st.sets(st.integers(0, 2000), max_size=200), st.integers(1, 5))
def test_numbered_hosts_come_back_with_their_zeros(numbers: set[int], width: int) -> None:
    names = {f"n{number:0{width}}" for number in numbers}
    text = compress(names)
    assert set(expand(text)) == names
    assert text == compress(expand(text))


@given(st.text(max_size=40))
def test_any_text_is_a_list_or_an_error(text: str) -> None:
    try:
        names = expand(text)
    except HostlistError:
        return
    assert len(names) <= NAMES_MAX
