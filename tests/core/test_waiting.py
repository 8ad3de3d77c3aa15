"""Who waits behind about how many: row P26."""

from sunk_sync.waiting import places


def test_P26_of_each_job_it_is_told_by_powers_of_ten_how_many_wait_longer() -> None:
    """So that what is shown seldom changes."""
    waiting = {str(number): (number, 0, str(number)) for number in reversed(range(1200))}
    ahead = places(waiting)
    assert [ahead[one] for one in ("0", "1", "9", "10", "99", "100", "999", "1000", "1199")] == [
        0, 1, 1, 10, 10, 100, 100, 1000, 1000,
    ]  # fmt: skip


def test_P26_jobs_wait_in_the_order_of_their_numbers_and_tasks() -> None:
    """Not in that of their names."""
    waiting = {"10": (10, 0, "10"), "9_2": (9, 2, "9_2"), "9_10": (9, 10, "9_10")}
    assert sorted(waiting, key=places(waiting).__getitem__)[0] == "9_2"
    assert places(waiting) == {"9_2": 0, "9_10": 1, "10": 1}
