"""Kubernetes' quantities (`100m`, `1.5`, `2Gi`, `1e3`) as exact whole numbers, and their sums.

As in Kubernetes, amounts are rounded up to a billionth and capped at 2^63 - 1. Thousandths and
whole units are rounded up once, after all sums.
"""

import re
from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

Amounts = dict[str, int]

NANO: Final = 10**9
AMOUNT_MAX: Final = 2**63 - 1
_LENGTH_MAX: Final = 64
_FORM: Final = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>\d*)(?:\.(?P<part>\d*))?"
    r"(?:(?P<suffix>[KMGTPE]i|[numkMGTPE])|[eE](?P<exponent>[+-]?\d+))?",
    re.ASCII,
)
_BINARY: Final = {f"{letter}i": 1024**power for power, letter in enumerate("KMGTPE", start=1)}
_POWERS: Final = {
    "n": -9,
    "u": -6,
    "m": -3,
    "": 0,
    "k": 3,
    "M": 6,
    "G": 9,
    "T": 12,
    "P": 15,
    "E": 18,
}
_POWER_MAX: Final = 100
"""Beyond it any number of _LENGTH_MAX digits is above AMOUNT_MAX or below a billionth."""


@lru_cache(maxsize=4096)
def nanos(text: str) -> int:
    """Return billionths. Raises ValueError if the text is no quantity."""
    form = _FORM.fullmatch(text) if len(text) <= _LENGTH_MAX else None
    if form is None or not (form["whole"] or form["part"]):
        raise ValueError(f"{text[:40]!r} is no quantity")
    part = form["part"] or ""
    digits = int((form["whole"] or "0") + part)
    times, power = _scale(form["suffix"] or "", form["exponent"] or "0")
    amount = min(_shifted(digits * times, power - len(part) + 9), AMOUNT_MAX * NANO)
    return -amount if form["sign"] == "-" else amount


def _scale(suffix: str, exponent: str) -> tuple[int, int]:
    """Return the factor, and the power of ten."""
    if suffix in _BINARY:
        return _BINARY[suffix], 0
    return 1, _POWERS[suffix] + max(-_POWER_MAX, min(int(exponent), _POWER_MAX))


def _shifted(number: int, power: int) -> int:
    """Multiply by a power of ten; round up."""
    factor: int = 10 ** abs(power)
    return number * factor if power >= 0 else -(-number // factor)


def counted(resource: str, amount: int) -> int:
    """Convert billionths to the units of facts, rounded up: thousandths of cpu, or whole units."""
    return min(-(-amount // (10**6 if resource == "cpu" else NANO)), AMOUNT_MAX)


def read_overhead(entry: tuple[str, str]) -> tuple[str, int]:
    """Read one entry of --node-overhead as facts count it. The ValueError says what is allowed."""
    resource, text = entry
    if resource not in ("cpu", "memory") or (amount := nanos(text)) <= 0:
        raise ValueError(
            "allowed is cpu=AMOUNT and memory=AMOUNT, as in a Pod's requests, such as 500m or 4Gi"
        )
    return resource, counted(resource, amount)


def amounts_of(given: dict[str, str | int | float] | None) -> Amounts:
    """Read a resource list. Raises ValueError if an amount is no quantity."""
    return {resource: nanos(str(amount)) for resource, amount in (given or {}).items()}


def pod_requests(
    *,
    containers: Iterable[Amounts],
    init_containers: Iterable[tuple[Amounts, bool]],
    pod_level: Amounts,
    overhead: Amounts,
) -> Amounts:
    """Return the requests of a Pod, computed as PodRequests in Kubernetes does.

    The boolean of an init container: it is a sidecar, which continues to run.
    """
    amounts = _of_containers(containers, init_containers)
    for resource, amount in pod_level.items():
        if resource in ("cpu", "memory") or resource.startswith("hugepages-"):
            amounts[resource] = amount
    _add(amounts, overhead)
    return amounts


def _of_containers(
    containers: Iterable[Amounts], init_containers: Iterable[tuple[Amounts, bool]]
) -> Amounts:
    """Return the larger of all containers and any init container with the sidecars before it."""
    running: Amounts = defaultdict(int)
    sidecars: Amounts = defaultdict(int)
    peak: Amounts = defaultdict(int)
    for asked in containers:
        _add(running, asked)
    for asked, stays in init_containers:
        beside = sidecars.copy()
        _add(beside, asked)
        _raise_to(peak, beside)
        if stays:
            _add(running, asked)
            sidecars = beside
    _raise_to(running, peak)
    return running


def _add(amounts: Amounts, more: Amounts) -> None:
    for resource, amount in more.items():
        amounts[resource] += amount


def _raise_to(amounts: Amounts, least: Amounts) -> None:
    for resource, amount in least.items():
        amounts[resource] = max(amounts[resource], amount)
