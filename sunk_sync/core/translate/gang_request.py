"""What a gang asks of each of its hosts, in words (G5)."""

from collections.abc import Sequence

from sunk_sync.core.model.facts import Pod
from sunk_sync.core.model.job_description import JobDescription
from sunk_sync.core.translate.counted import counted

_MIB_PER_GIB = 1024


def gang_request_in_words(pods: Sequence[Pod], description: JobDescription) -> str:
    """Return what the job asks of each host, and which Pod is the cause; empty: no gang.

    For example `its gang asks for 3 hosts with 8 CPUs and 64 GiB each, as its largest Pod w-2`.
    """
    if len(pods) < 2:
        return ""
    amounts = [
        counted(description.cpus, "CPU"),
        _memory(description.memory_mb),
        *(f"{count} {name}" for name, count in description.gres),
    ]
    asked = ", ".join(amounts[:-1]) + f" and {amounts[-1]}"
    return f"its gang asks for {counted(len(pods), 'host')} with {asked} each{_cause(pods)}"


def _memory(mebibytes: int) -> str:
    gibibytes, rest = divmod(mebibytes, _MIB_PER_GIB)
    return f"{mebibytes} MiB" if rest or not gibibytes else f"{gibibytes} GiB"


def _cause(pods: Sequence[Pod]) -> str:
    """Name the largest Pod; the largest amounts may also be those of several Pods."""
    if len({pod.spec.requests for pod in pods}) == 1:
        return ""
    largest: dict[str, int] = {}
    for pod in pods:
        for name, amount in pod.spec.requests:
            largest[name] = max(largest.get(name, 0), amount)
    wanted = set(largest.items())
    names = [pod.name for pod in pods if wanted <= set(pod.spec.requests)]
    return f", as its largest Pod {names[0]}" if names else ", the most that any of its Pods asks"
