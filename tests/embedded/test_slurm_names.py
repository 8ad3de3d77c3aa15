"""Hostlists as slurmctld reads them and slurmrestd prints them."""

import pytest

from sunk_sync.embedded.slurm.model.names import NamesError, expanded, named, ranged


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["n1"], ["n1"]),
        (["n1,n3"], ["n1", "n3"]),
        (["n[1-3]", "x"], ["n1", "n2", "n3", "x"]),
        (["n[08-10,2]"], ["n08", "n09", "n10", "n2"]),
        (["r[1-2]n[1,3]"], ["r1n1", "r1n3", "r2n1", "r2n3"]),
        ([], []),
    ],
)
def test_hostlists_are_expanded(words: list[str], names: list[str]) -> None:
    assert expanded(words) == names


@pytest.mark.parametrize("word", ["n[1-", "n[a]", "n[1-70000]", "n[1-300]r[1-300]", "n[-2]"])
def test_malformed_and_too_long_hostlists_are_refused(word: str) -> None:
    with pytest.raises(NamesError):
        expanded([word])


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["n10", "n9", "nosuch", "n9"], ["n9", "n10", "nosuch"]),
        (["all"], ["b", "a"]),
        (["a"], ["a"]),
    ],
)
def test_slurmctld_sorts_names_by_prefix_and_number(words: list[str], names: list[str]) -> None:
    """ALL stands for every known node."""
    assert named(words, ["b", "a"]) == names


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["n9", "n1"], "n[9,1]"),
        (["n3", "n0", "n1"], "n[3,0-1]"),
        (["n1", "nosuch", "n3"], "n1,nosuch,n3"),
        (["n[1-3]"], "n[1-3]"),
        (["n1", "x1"], "n1,x1"),
        (["login"], "login"),
        ([], ""),
    ],
)
def test_names_are_printed_in_brackets_but_unsorted(words: list[str], text: str) -> None:
    """Error texts print them so."""
    assert ranged(words) == text
