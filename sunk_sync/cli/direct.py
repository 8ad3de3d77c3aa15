"""Explain without the service: read both sides with the caller's own credentials, write nothing."""

import sys
import time
from collections.abc import Sequence
from typing import Final

import anyio

from sunk_sync.cli.doctor import kube_client, slurm_clients
from sunk_sync.core.explain.account import Kind, Unknown
from sunk_sync.kube.api.answers import KubeError
from sunk_sync.kube.api.backoff import Ambient
from sunk_sync.service.explanation import Explainer, Explanation
from sunk_sync.service.wiring import Authorities, HooksSetup, Parts
from sunk_sync.settings.model import Settings
from sunk_sync.telemetry.exchange import Called
from sunk_sync.telemetry.logs import Logs
from sunk_sync.telemetry.telemetry import Telemetry

LISTED_WITHIN_S: Final = 20.0
LOOK_EVERY_S: Final = 0.05
NOTE: Final = (
    "read from both sides now, not by the service: its writes, its history and what it alone "
    "knows are missing"
)


class CannotReadError(Exception):
    """One side cannot be read; the text says which and why."""


async def explain_direct(settings: Settings, *, kind: Kind, name: str) -> Explanation | Unknown:
    """Raises CannotReadError."""
    chosen = settings.model_copy(update={"dry_run": True, "leader_elect": False})
    async with kube_client(settings) as kube, slurm_clients(settings) as slurm:
        if isinstance(kube, KubeError):
            raise CannotReadError(f"Kubernetes: {kube.why}")
        uid = await kube.cluster_uid()
        if isinstance(uid, KubeError):
            raise CannotReadError(f"Kubernetes: {uid.why}")
        client = slurm[0]
        callers = _no_hooks(settings)
        authorities = Authorities(kube, client, uid, callers, operator=lambda: client.user)
        journal = Telemetry(Logs("error", "console", sys.stderr).log)
        parts = Parts(chosen, authorities, journal=journal, on_bad=_ignore, ambient=Ambient())
        parts.loop.leading = False
        return await _explain(parts, kind=kind, name=name)


def _no_hooks(settings: Settings) -> HooksSetup:
    return HooksSetup(b"", settings.hooks_url, _unheard)


def _unheard(_: Called) -> None:
    """No hooks server is open."""


def _ignore(kind: str, name: str, why: str) -> None:
    """An object that cannot be read is as absent as for the service."""


async def _explain(parts: Parts, *, kind: Kind, name: str) -> Explanation | Unknown:
    explainer = Explainer(parts.loop, parts.outbox, clock=time.monotonic, note=NOTE)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(parts.run)
        with anyio.move_on_after(LISTED_WITHIN_S):
            while _missing(parts) or parts.reconciler.pending:  # noqa: ASYNC110 (no event tells)
                await anyio.sleep(LOOK_EVERY_S)
        missing = _missing(parts)
        answer = explainer.explain(kind, name)
        tasks.cancel_scope.cancel()
    if missing:
        raise CannotReadError("; ".join(missing))
    return answer


def _missing(parts: Parts) -> Sequence[str]:
    """Return what was not listed yet, each with the reason."""
    sources = parts.reconciler.graph.sources
    needed = (*sources.unlisted, *(sources.workloads_unlisted if parts.schedules else ()))
    return [f"{source}: {sources.tables[source].why}" for source in needed]
