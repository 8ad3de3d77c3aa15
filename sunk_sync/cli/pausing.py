"""`sunk-sync pause` and `sunk-sync resume`: stop all writes of all replicas, and let them go on."""

import sys
from typing import TextIO

from sunk_sync.cli.service_client import CANNOT, CannotAskError, ask, connection
from sunk_sync.server.operators import PAUSE, RESUME, PauseOrder, PauseState
from sunk_sync.settings.types import Address


def pause(
    address: Address | None,
    *,
    for_s: float | None,
    why: str,
    out: TextIO = sys.stdout,
    errors: TextIO = sys.stderr,
) -> int:
    """Return 0 once the service has stopped, 2 if it did not take the order."""
    order = PauseOrder(for_s=for_s, why=why)
    return _order(address, PAUSE, order=order, out=out, errors=errors)


def resume(
    address: Address | None, *, out: TextIO = sys.stdout, errors: TextIO = sys.stderr
) -> int:
    return _order(address, RESUME, order=PauseOrder(), out=out, errors=errors)


def _order(
    address: Address | None, path: str, *, order: PauseOrder, out: TextIO, errors: TextIO
) -> int:
    try:
        with connection() as client:
            answer = ask(client, address, path=path, wanted=PauseState, order=order)
    except CannotAskError as error:
        print(f"sunk-sync: {error}", file=errors)
        return CANNOT
    print(f"sunk-sync: {answer.paused or 'not paused'}", file=out)
    return 0
