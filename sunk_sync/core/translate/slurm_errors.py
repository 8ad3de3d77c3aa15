"""Errors of slurmrestd and slurmctld by number (slurm_errno.h), and their meaning for a Pod.

Each number of 24.11 and 26.05 that a request of sunk-sync can get has a row. The others have one
row for their range.
"""

from collections.abc import Mapping
from typing import Final

from sunk_sync.core.model.names import PREFIX
from sunk_sync.core.translate.slurm_reasons import Row

_ASK: Final = "ask the operator of Slurm"
_AGAIN: Final = "sunk-sync tries again"
_BUG: Final = "please report this with the log of sunk-sync"


def _annotation(name: str, meaning: str) -> Row:
    return "user", meaning, f"correct or set annotation {PREFIX}{name}"


def _passing(meaning: str) -> Row:
    return "wait", meaning, _AGAIN


def _ours(meaning: str) -> Row:
    return "operator", f"sunk-sync sent what this Slurm does not accept: {meaning}", _BUG


_NO_NODE: Final = "no node of its partition is large enough or has what it requests"
_TOO_BIG: Final = "request less, or what the nodes of this partition have"
_GONE: Final = "the job does not exist, or no longer exists"

_PASSING: Final[Mapping[int, Row]] = {
    11: _passing("Slurm lacks a resource, in 24.11 a place for another job (MaxJobCount)"),
    1804: _passing("Slurm limits the rate of requests"),
    1805: _passing("Slurm limits the rate of requests"),
    2007: _passing("Slurm has its maximum number of jobs (MaxJobCount)"),
    2013: _passing("jobs of higher priority come first"),
    2015: (
        "user",
        "the partition has too few nodes or CPUs, or excludes its user",
        f"request less, or choose another with annotation {PREFIX}partition",
    ),
    2016: _passing("the nodes are in use"),
    2020: _passing("the job changes its state"),
    2027: _passing("a standby slurmctld answered"),
    2035: _passing("no node has enough contiguous resources"),
    2040: _passing("licences that it requests are in use"),
    2059: _passing("all ports are in use"),
    2061: _passing("Slurm still prepares the node"),
    2068: _passing("a node that it needs is down, drained or reserved"),
    2078: _passing("the job cannot start at once"),
    2079: _passing("the network switch has no free resources"),
    2100: _passing("the burst buffer is not ready"),
    2118: _passing("maintenance is about to begin"),
    2125: _passing("this Slurm starts no job at its submission (defer)"),
    2131: _passing("a standby slurmctld answered"),
    2177: _passing("the maximum number of nodes is powered up"),
}

_ASKED_WRONG: Final[Mapping[int, Row]] = {
    2000: _annotation("partition", "Slurm has no partition of this name"),
    2001: _annotation("partition", "no partition was named and Slurm has no default one"),
    2003: _annotation("partition", "the partition excludes the user's group"),
    2004: _annotation("required-nodes", "these nodes are not in the partition"),
    2005: ("user", "the partition has too few CPUs or nodes", _TOO_BIG),
    2006: _annotation("partition", "it requests more or fewer nodes than the partition allows"),
    2012: ("user", "a text is longer than Slurm accepts", "shorten the annotations of the Pod"),
    2014: ("user", _NO_NODE, _TOO_BIG),
    2018: (
        "user",
        "Slurm has no node of this name",
        f"correct annotations {PREFIX}required-nodes and {PREFIX}excluded-nodes if they name one",
    ),
    2029: _annotation("constraints", "no node has such a feature, or the expression is wrong"),
    2036: ("user", "this Slurm does not support the request", _ASK),
    2044: ("user", "it requests more memory than the partition allows", _TOO_BIG),
    2045: _annotation("account", "no such account, or its user has none or may not use it here"),
    2048: ("user", "Slurm has no such licences, or too few", _ASK),
    2050: (
        "user",
        "it exceeds a limit of its account or QOS, for one job or for all jobs together",
        f"sunk-sync tries again; or request less, or choose another {PREFIX}account or qos",
    ),
    2051: _annotation("timeout", "no time limit, or a longer one than allowed"),
    2052: _annotation("reservation", "the reservation is not for its user"),
    2053: _annotation("reservation", "Slurm has no reservation of this name"),
    2054: _annotation("timeout", "Slurm cannot read a time"),
    2055: _annotation("reservation", "the reservation is in use"),
    2056: _annotation("reservation", "the reservation has not begun or is over"),
    2057: ("user", "Slurm has no such wckey", _ASK),
    2066: _annotation("qos", "no such QOS, or its account may not use it"),
    2067: _annotation("qos", "its QOS and another preempt each other"),
    2069: ("user", "Slurm cannot allocate so many CPUs", _TOO_BIG),
    2072: ("user", "Slurm has no such generic resource", f"{_ASK} which GPUs there are"),
    2074: _annotation("qos", "its account has used too much to continue with this QOS"),
    2099: ("user", "Slurm has no such MCS label", _ASK),
    2115: ("user", "Slurm has no such resource", f"{_ASK} which resources there are"),
    2119: ("user", "it requests GPUs both with and without a type", "request one of the two"),
    2122: ("user", "this Slurm cannot allocate GPUs in that way", _ASK),
    2123: _annotation("priority", "Slurm does not accept this priority"),
    2124: _annotation("timeout", "the minimum time is longer than the time limit"),
    2130: _annotation("partition", "only one partition may be named"),
    2133: _annotation("prefer", "no node has such a feature, or the expression is wrong"),
    2134: ("user", "it requests more GPUs than it can have", _TOO_BIG),
    2163: _annotation("group-id", "no such group"),
    2164: _annotation("group-id", "Slurm's host knows no group of this name"),
    2165: _annotation("user-id", "no such user"),
    2166: _annotation("user-id", "Slurm's host knows no user of this name"),
    2167: _annotation("account", "its user, account and partition do not match"),
    2170: _annotation("qos", "this QOS belongs to one partition"),
    2178: ("user", "the network of the nodes does not allow it", _TOO_BIG),
    8000: _annotation("timeout", "this partition requires a time limit"),
}

_REFUSED: Final[Mapping[int, Row]] = {
    -1: (
        "operator",
        "Slurm gave no reason, as job_submit.lua does with slurm.ERROR",
        f"{_ASK}: slurmctld's log may tell more. {_AGAIN[:1].upper()}{_AGAIN[1:]}",
    ),
    0: ("operator", "sunk-sync did not ask Slurm, or Slurm gave no number", _ASK),
    2002: (
        "operator",
        "sunk-sync or the Pod's user may not do this, or the partition is for reservations only",
        f"{_ASK}, or set annotation {PREFIX}reservation",
    ),
    2008: _ours("the size of the job is missing"),
    2009: _ours("the script is missing"),
    2010: (
        "operator",
        "no such user, or sunk-sync may not act for it: its token must be root's or SlurmUser's",
        _ASK,
    ),
    2017: _passing(_GONE),
    2019: ("operator", "slurmctld could not store the script and its environment", _ASK),
    2021: _passing("the job has ended already"),
    2025: _ours("a number of tasks"),
    2037: ("operator", "this is disabled in Slurm", _ASK),
    2038: ("operator", "its dependency on another job is impossible", _ASK),
    2042: ("operator", "the job is held", f"{_ASK}, or release it (`scontrol release`)"),
    2063: _annotation("current-working-dir", "the working directory is missing"),
    2070: (
        "operator",
        "the partition accepts no jobs",
        f"{_ASK}, or choose another with annotation {PREFIX}partition",
    ),
    2071: ("operator", "jobs depend on each other in a circle", _ASK),
    2073: _passing("the job no longer waits"),
    2077: ("operator", "the job is suspended", _ASK),
    2081: ("operator", "a job array is larger than Slurm accepts (MaxArraySize)", _ASK),
    2083: _passing("the job has started already"),
    2084: _passing("the job has ended already"),
    2085: _passing("the job does not run"),
    2086: _passing("the job has ended already"),
    2090: ("operator", "Slurm has an internal error", _ASK),
    2101: (
        "operator",
        "the partition is down",
        f"{_ASK}, or choose another with annotation {PREFIX}partition",
    ),
    2105: ("operator", "Slurm accepts no jobs now", _ASK),
    2127: _ours("the environment is missing"),
    2172: _passing("the job is not the one that was meant"),
    2173: _ours("a cancel without a job"),
    2179: ("operator", "it would have to preempt, and preemption is disabled", _ASK),
    2189: _ours("a job without a process"),
}

ERRORS: Final[Mapping[int, Row]] = {**_PASSING, **_ASKED_WRONG, **_REFUSED}

RANGES: Final[Mapping[range, Row]] = {
    range(1007, 1008): ("operator", "Slurm does not accept the token of sunk-sync", _ASK),
    range(1000, 1027): _passing("slurmrestd could not reach slurmctld"),
    range(1800, 1804): _passing("slurmrestd could not reach slurmctld"),
    range(1900, 1901): _passing("nothing has changed"),
    range(2136, 2160): _ours("the id of a job"),
    range(2174, 2177): ("operator", "the setting that reserves cores for GPUs is wrong", _ASK),
    range(2000, 3000): ("operator", "Slurm refuses a request that Pods seldom make", _ASK),
    range(3000, 4000): ("operator", "a SPANK plugin of Slurm failed", _ASK),
    range(4000, 5000): ("operator", "the node could not start it", _ASK),
    range(5000, 6000): _passing("slurmrestd could not reach slurmctld"),
    range(6000, 7000): ("operator", "Slurm does not accept the token of sunk-sync", _ASK),
    range(7000, 7100): ("operator", "Slurm's accounting database refused", _ASK),
    range(7100, 7200): ("operator", "the federation of clusters refused", _ASK),
    range(7200, 7400): _passing("no free nodes fit the network of the cluster"),
    range(7400, 7500): ("operator", "a Lua script of Slurm failed (job_submit.lua)", _ASK),
    range(8000, 9000): ("operator", "a plugin of Slurm is missing or wrong", _ASK),
    range(9008, 9009): ("operator", "Slurm does not accept the token of sunk-sync", _ASK),
    range(9000, 9300): _ours("a field or its form"),
    range(10000, 11000): ("operator", "Slurm has no containers here", _ASK),
    range(11000, 14000): _ours("an address, the form of HTTP or a missing TLS"),
}
"""For numbers without a row; the first range that contains the number counts."""


FOR_NODES: Final = frozenset(
    {2005, 2014, 2015, 2016, 2029, 2035, 2068, 2069, 2133, *range(7200, 7400)}
)
"""Slurm may accept the job once it has more nodes. 2029, 2133: none has the features yet."""


def meaning(number: int) -> Row | None:
    """Return the row of this number or of its range; None: the number is unknown."""
    if number in ERRORS:
        return ERRORS[number]
    return next((row for numbers, row in RANGES.items() if number in numbers), None)
