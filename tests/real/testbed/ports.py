"""Free TCP ports that no other test process on this machine takes."""

import random
import socket
from pathlib import Path

from tests.real.testbed.closing import Closing
from tests.real.testbed.errors import BedError

LOWEST = 10240


class Ports(Closing):
    """Reserves ports until `close` or the end of this process.

    A Unix socket with an abstract name claims a port: the kernel gives each name once and frees it
    with its owner, so no file is left. Ports are below the range of outgoing connections, because
    any client may use one of those.
    """

    def __init__(self) -> None:
        self._claims: list[socket.socket] = []
        first_outgoing = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0]
        self._range = range(LOWEST, int(first_outgoing))

    def take(self) -> int:
        for port in random.sample(self._range, len(self._range)):
            claim = socket.socket(socket.AF_UNIX)
            try:
                claim.bind(f"\0sunk-sync-testbed-port-{port}")
            except OSError:
                claim.close()
                continue
            if _is_free(port):
                self._claims.append(claim)
                return port
            claim.close()
        raise BedError(f"no free port in {self._range}")

    def close(self) -> None:
        for claim in self._claims:
            claim.close()
        self._claims.clear()


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True
