"""The collector never walks all of the picture while the loop waits, and finds what is dead."""

import asyncio
import gc
import weakref
from collections.abc import Iterator

import pytest

from sunk_sync.service import gc_pauses
from tests.kit.clock import run


class Ring:
    """An object that only a collector can end."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def as_found() -> Iterator[None]:
    before = gc.get_threshold(), list(gc.callbacks)
    yield
    assert (gc.get_threshold(), list(gc.callbacks), gc.get_freeze_count()) == (*before, 0)


def test_what_outlived_one_collection_is_not_walked_by_the_next() -> None:
    """Neither by one of the young nor by a full one."""
    with gc_pauses.in_pieces():
        ring = Ring()
        gc.collect(1)
        alive = weakref.ref(ring)
        del ring
        gc.collect()
        assert alive() is not None
        gc_pauses.walk_everything()
        assert alive() is None


def test_a_process_that_ends_walks_nothing_any_more() -> None:
    """What Python does at exit is a full collection."""
    ring = Ring()
    alive = weakref.ref(ring)
    del ring
    gc_pauses.leave_it()
    gc.collect()
    assert alive() is not None
    gc_pauses.walk_everything()
    assert alive() is None


def test_a_ring_that_died_young_goes_without_a_walk_of_everything() -> None:
    """The ordinary case: it is never set aside."""
    with gc_pauses.in_pieces():
        alive = weakref.ref(Ring())
        gc.collect(1)
        assert alive() is None


def test_everything_is_walked_now_and_then() -> None:
    """So that what was set aside and died later is not kept for ever."""

    async def wait() -> bool:
        ring = Ring()
        alive = weakref.ref(ring)
        gc.collect(1)
        del ring
        task = asyncio.create_task(gc_pauses.walk_everything_now_and_then())
        await asyncio.sleep(gc_pauses.EVERYTHING_EVERY_S - 1)
        before = alive() is not None
        await asyncio.sleep(2)
        task.cancel()
        return before and alive() is None

    with gc_pauses.in_pieces():
        assert run(wait())
