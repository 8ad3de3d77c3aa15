"""The garbage collector never scans the whole graph at once, and still frees dead objects."""

import asyncio
import gc
import weakref
from collections.abc import Iterator

import pytest

from sunk_sync.service import gc_pauses
from tests.kit.clock import in_virtual_time


class Ring:
    """An object with a reference to itself: only the collector frees it."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def as_found() -> Iterator[None]:
    before = gc.get_threshold(), list(gc.callbacks)
    yield
    assert (gc.get_threshold(), list(gc.callbacks), gc.get_freeze_count()) == (*before, 0)


def test_an_object_that_survived_a_collection_is_not_scanned_by_the_next() -> None:
    with gc_pauses.in_pieces():
        ring = Ring()
        gc.collect(1)
        alive = weakref.ref(ring)
        del ring
        gc.collect()
        assert alive() is not None
        gc_pauses.walk_everything()
        assert alive() is None


def test_at_exit_no_object_is_scanned() -> None:
    """Python runs a full collection at exit."""
    ring = Ring()
    alive = weakref.ref(ring)
    del ring
    gc_pauses.leave_it()
    gc.collect()
    assert alive() is not None
    gc_pauses.walk_everything()
    assert alive() is None


def test_a_short_cycle_is_freed_without_a_full_scan() -> None:
    with gc_pauses.in_pieces():
        alive = weakref.ref(Ring())
        gc.collect(1)
        assert alive() is None


@in_virtual_time
async def test_a_full_scan_is_made_now_and_then() -> None:
    with gc_pauses.in_pieces():
        ring = Ring()
        alive = weakref.ref(ring)
        gc.collect(1)
        del ring
        asyncio.create_task(gc_pauses.walk_everything_now_and_then())  # noqa: RUF006
        await asyncio.sleep(gc_pauses.EVERYTHING_EVERY_S - 1)
        assert alive() is not None
        await asyncio.sleep(2)
        assert alive() is None
