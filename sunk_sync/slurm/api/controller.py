"""Read configuration, controllers and load of slurmctld, for the doctor."""

from collections.abc import Sequence
from typing import TypeVar

import msgspec
from msgspec import Struct

from sunk_sync.slurm.api.answers import (
    UNREADABLE,
    Number,
    SlurmError,
    SlurmResponse,
    decoded,
    number_of,
    printable,
)
from sunk_sync.slurm.api.client import Slurm
from sunk_sync.slurm.api.requests import DIAG, PING, SlurmCall
from sunk_sync.slurm.api.versions import dialect_of

_Shape = TypeVar("_Shape")


class Conf(Struct, frozen=True, kw_only=True):
    """The settings of slurm.conf that sunk-sync reads; None if absent."""

    kill_wait_s: float | None
    message_timeout_s: float | None
    prolog_slurmctld: Sequence[str]
    slurm_user: str = ""
    nodes_max: int | None = None


class Ping(Struct, frozen=True, kw_only=True):
    """One controller as slurmrestd sees it."""

    hostname: str
    responding: bool
    primary: bool
    text: str


class Diag(Struct, frozen=True, kw_only=True):
    server_thread_count: int
    agent_queue_size: int
    jobs_pending: int
    jobs_running: int


async def read_conf(client: Slurm) -> Conf | SlurmError:
    """Read the configuration; a SlurmError `unserved` before v0.0.45."""
    ping = await client.call(PING)
    if isinstance(ping, SlurmError):
        return ping
    if not dialect_of(ping.version).conf:
        return SlurmError("unserved", f"{ping.version} has no /conf")
    wire = await _read(client, SlurmCall(path="conf", kind="conf"), _WireConf)
    if isinstance(wire, SlurmError):
        return wire
    conf = wire.slurm_conf
    return Conf(
        kill_wait_s=number_of(conf.KillWait),
        message_timeout_s=number_of(conf.MessageTimeout),
        prolog_slurmctld=_words(conf.PrologSlurmctld),
        slurm_user=printable(conf.SlurmUser).partition("(")[0],
        nodes_max=int(number_of(conf.MaxNodeCount) or 0) or None,
    )


async def ping(client: Slurm) -> Sequence[Ping] | SlurmError:
    """Ping every controller. The answer does not prove that slurmctld works."""
    wire = await _read(client, PING, _WirePings)
    return wire if isinstance(wire, SlurmError) else [_ping(each) for each in wire.pings or ()]


async def diag(client: Slurm) -> Diag | SlurmError:
    """Read the load; slurmctld itself must answer."""
    wire = await _read(client, SlurmCall(path="diag/", kind="diag/"), _WireDiag)
    if isinstance(wire, SlurmError):
        return wire
    return msgspec.convert(wire.statistics, Diag, from_attributes=True)


async def counting_since(client: Slurm) -> int | SlurmError:
    """Read the second since which slurmctld counts.

    It changes with each start of slurmctld, and also at midnight and after `sdiag --reset`.
    """
    wire = await _read(client, DIAG, _WireDiag)
    if isinstance(wire, SlurmError):
        return wire
    return int(number_of(wire.statistics.req_time_start) or 0)


async def runs_at_least_s(client: Slurm) -> float | SlurmError:
    """Read for how many seconds slurmctld has counted: it runs for so long, or longer.

    It counts anew after each start, and also at midnight and after `sdiag --reset`. Both times are
    its own, in whole seconds.
    """
    wire = await _read(client, DIAG, _WireDiag)
    if isinstance(wire, SlurmError):
        return wire
    now, since = map(number_of, (wire.statistics.req_time, wire.statistics.req_time_start))
    if not now or not since:
        return SlurmError("garbage", "the statistics have no times")
    return max(0.0, now - since - 1.0)


class _WireSlurmConf(Struct, frozen=True):
    KillWait: Number = None
    MessageTimeout: Number = None
    MaxNodeCount: Number = None
    PrologSlurmctld: list[str] | str | None = None
    SlurmUser: str = ""


class _WireConf(Struct, frozen=True):
    slurm_conf: _WireSlurmConf


class _WirePing(Struct, frozen=True):
    hostname: str = ""
    responding: bool | None = None
    pinged: str = ""
    primary: bool = False
    mode: str | None = None
    status: str = ""


class _WirePings(Struct, frozen=True):
    pings: list[_WirePing] | None = None


class _WireStatistics(Struct, frozen=True):
    server_thread_count: int = 0
    agent_queue_size: int = 0
    jobs_pending: int = 0
    jobs_running: int = 0
    req_time: Number = None
    req_time_start: Number = None


class _WireDiag(Struct, frozen=True):
    statistics: _WireStatistics


async def _read(client: Slurm, call: SlurmCall, shape: type[_Shape]) -> _Shape | SlurmError:
    answer: SlurmResponse | SlurmError = await client.call(call)
    if isinstance(answer, SlurmError):
        return answer
    try:
        return decoded(msgspec.json.Decoder(shape).decode, answer.body)
    except UNREADABLE as error:
        return SlurmError("garbage", printable(str(error)))


def _ping(wire: _WirePing) -> Ping:
    responding = wire.pinged == "UP" if wire.responding is None else wire.responding
    return Ping(
        hostname=wire.hostname,
        responding=responding,
        primary=wire.primary or wire.mode == "primary",
        text=printable(wire.status or wire.pinged),
    )


def _words(words: list[str] | str | None) -> Sequence[str]:
    return [words] if isinstance(words, str) and words else list(words or ())
