"""Our hostlists compared with Slurm's own."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sunk_sync.core.translate.hostlist import compress, expand
from tests.core.translate.test_hostlist import EXPANSIONS, name
from tests.real.testbed import SlurmServer

pytestmark = [pytest.mark.real, pytest.mark.both_slurms("each version expands lists itself")]

with_real_servers = settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors],
)
number = st.integers(0, 120)
part = st.one_of(
    st.tuples(number, st.integers(0, 15), st.integers(1, 3)).map(
        lambda range_: f"{range_[0]:0{range_[2]}}-{range_[0] + range_[1]}"
    ),
    number.map(str),
)
bracketed = st.lists(part, min_size=1, max_size=3).map(lambda parts: f"[{','.join(parts)}]")
word = st.tuples(
    st.sampled_from(["n", "gpu-a", "r1n", "x.y-"]),
    st.lists(bracketed, max_size=2).map("x".join),
    st.sampled_from(["", "-ib", "s"]),
).map("".join)


def slurm_names(server: SlurmServer, text: str) -> list[str]:
    return server.scontrol("show", "hostnames", text).split()


@pytest.mark.parametrize(("text", "names"), EXPANSIONS)
def test_slurm_agrees_with_the_table_of_hostlists(
    slurm: SlurmServer, text: str, names: str
) -> None:
    assert slurm_names(slurm, text) == names.split()


@given(words=st.lists(word, min_size=1, max_size=4))
@with_real_servers
def test_slurm_expands_hostlists_as_we_do(slurm: SlurmServer, words: list[str]) -> None:
    text = ",".join(words)
    assert slurm_names(slurm, text) == list(expand(text))


@given(names=st.sets(name.filter(lambda text: text[0] not in "-."), min_size=1, max_size=40))
@with_real_servers
def test_slurm_reads_our_hostlists(slurm: SlurmServer, names: set[str]) -> None:
    assert sorted(slurm_names(slurm, compress(names))) == sorted(names)


@given(names=st.lists(name.filter(lambda text: text[0] not in "-."), min_size=1, max_size=40))
@with_real_servers
def test_we_read_hostlists_of_slurm(slurm: SlurmServer, names: list[str]) -> None:
    text = slurm.scontrol("show", "hostlist", ",".join(names)).strip()
    assert sorted(expand(text)) == sorted(names)
