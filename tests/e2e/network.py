"""A network of our own: addresses, links and routes of Pods exist in it alone and end with it."""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

from tests.real.testbed.errors import BedError
from tests.real.testbed.sandbox import run

ADDRESS = "10.65.0.1"
"""Where Pods find the servers on the host."""
NEW_NETWORK = 0x40000000
OURS = "/proc/thread-self/ns/net"


@contextmanager
def own_network(*addresses: str) -> Iterator[None]:
    """Move this thread, and all that it starts, to a new network with these addresses."""
    libc = ctypes.CDLL(None, use_errno=True)
    before = os.open(OURS, os.O_RDONLY)
    try:
        _check(libc.unshare(NEW_NETWORK))
        try:
            run(["ip", "link", "set", "lo", "up"])
            for address in (ADDRESS, *addresses):
                run(["ip", "address", "add", f"{address}/32", "dev", "lo"])
            yield
        finally:
            _check(libc.setns(before, NEW_NETWORK))
    finally:
        os.close(before)


def _check(result: int) -> None:
    if result:
        raise BedError(f"no network of our own: {os.strerror(ctypes.get_errno())}")
