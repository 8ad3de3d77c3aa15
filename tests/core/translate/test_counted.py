import pytest

from sunk_sync.core.translate.counted import counted


@pytest.mark.parametrize(
    ("number", "said"), [(0, "0 Pods wait"), (1, "1 Pod waits"), (2, "2 Pods wait")]
)
def test_one_is_singular_and_every_other_number_plural(number: int, said: str) -> None:
    assert counted(number, "Pod waits", "Pods wait") == said
    assert counted(number, "row") == f"{number} {'row' if number == 1 else 'rows'}"
