"""Wait for an event that only says: check again."""

import asyncio


async def wait_at_most(event: asyncio.Event, seconds: float) -> None:
    """Wait until the event is set. Set it after `seconds`.

    A timer costs less than a cancel scope, and these waits are most of what an idle service does.
    """
    timer = asyncio.get_running_loop().call_later(seconds, event.set)
    try:
        await event.wait()
    finally:
        timer.cancel()
