"""The skew between this machine's clock and those of Kubernetes and Slurm."""

import math
import time
from email.utils import parsedate_to_datetime

import aiohttp
import msgspec
from msgspec import Struct

from sunk_sync.cli.findings import Finding, fail, ok, warn
from sunk_sync.kube.api.credentials import Credentials
from sunk_sync.slurm.api.answers import Number, number_of

SKEW_WARN_S = 5.0
SKEW_FAIL_S = 60.0
DEADLINE_S = 10.0


class _Statistics(Struct, frozen=True):
    req_time: Number = None


class _Diag(Struct, frozen=True):
    statistics: _Statistics


_diag = msgspec.json.Decoder(_Diag).decode


def check_skew(whose: str, skew_s: float | None) -> list[Finding]:
    """Report the skew of another clock; None: unknown."""
    if skew_s is None:
        return []
    if abs(skew_s) < SKEW_WARN_S:
        return [ok("clock", f"{whose} and this process agree")]
    text = f"the clock of {whose} is {span(abs(skew_s))} {'ahead' if skew_s > 0 else 'behind'}"
    make = fail if abs(skew_s) >= SKEW_FAIL_S else warn
    return [make("clock", text, "run NTP on both: tokens and times in texts depend on it")]


async def kubernetes_skew_s(kubeconfig: str | None, context: str | None) -> float | None:
    """Read the skew from the Date header of any answer; send no credentials."""
    credentials = Credentials(kubeconfig=kubeconfig, context=context, clock=time.monotonic)
    if await credentials.load() is not None:
        return None
    asked_s = time.time()
    timeout = aiohttp.ClientTimeout(total=DEADLINE_S)
    url = f"{credentials.configuration.host}/version"
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(url, ssl=credentials.ssl_context(), allow_redirects=False) as answer,
        ):
            date = answer.headers.get("Date", "")
        return _skew(parsedate_to_datetime(date).timestamp(), asked_s)
    except (aiohttp.ClientError, OSError, ValueError, TimeoutError):
        return None


def slurmctld_skew_s(body: bytes, asked_s: float) -> float | None:
    """Read the skew from /diag, which contains slurmctld's time; slurmrestd sends no Date."""
    try:
        notified_at_s = number_of(_diag(body).statistics.req_time)
    except (msgspec.DecodeError, RecursionError):
        return None
    return _skew(notified_at_s, asked_s) if notified_at_s else None


def _skew(notified_at_s: float, asked_s: float) -> float:
    """Return the skew; 0 if rounding to seconds and the duration of the request explain it."""
    if notified_at_s > time.time():
        return notified_at_s - time.time()
    return min(0.0, notified_at_s + 1.0 - asked_s)


def span(seconds: float) -> str:
    """Return a duration in words: `90` as `1m30s`; two units at most."""
    if not math.isfinite(seconds):
        return "for ever"
    days, rest = divmod(int(seconds), 86400)
    hours, rest = divmod(rest, 3600)
    units = zip((days, hours, rest // 60, rest % 60), "dhms", strict=True)
    parts = [f"{count}{unit}" for count, unit in units if count]
    return "".join(parts[:2]) or "0s"
