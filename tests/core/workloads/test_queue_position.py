"""Who waits behind about how many: row P26."""

from sunk_sync.core.workloads.queue_position import AT_ONCE, EVERY_S, Queue, places


def test_the_number_of_jobs_ahead_is_shown_in_powers_of_ten_P26() -> None:
    waiting = {str(number): (number, 0, str(number)) for number in reversed(range(1200))}
    ahead = places(waiting)
    assert [ahead[one] for one in ("0", "1", "9", "10", "99", "100", "999", "1000", "1199")] == [
        0, 1, 1, 10, 10, 100, 100, 1000, 1000,
    ]  # fmt: skip


def test_jobs_wait_in_the_order_of_their_ids_and_tasks_P26() -> None:
    waiting = {"10": (10, 0, "10"), "9_2": (9, 2, "9_2"), "9_10": (9, 10, "9_10")}
    assert sorted(waiting, key=places(waiting).__getitem__)[0] == "9_2"
    assert places(waiting) == {"9_2": 0, "9_10": 1, "10": 1}


def test_a_few_thousand_positions_are_shown_after_each_listing_P26() -> None:
    """All at once would block the loop."""
    ahead: dict[str, int] = {"gone": 10}
    queue = Queue(ahead)
    waiting = {str(number): (number, 0, str(number)) for number in range(2 * AT_ONCE + 1)}
    told = [list(queue.move(waiting, listed_s=float(second))) for second in range(4)]
    assert [len(each) for each in told] == [AT_ONCE, AT_ONCE, 2, 0]
    assert ahead == places(waiting)
    del waiting["0"]
    assert not queue.move(waiting, listed_s=EVERY_S - 1)
    assert sorted(queue.move(waiting, listed_s=EVERY_S)) == ["0", "1", "10", "100", "1000"]
    assert ahead == places(waiting)
