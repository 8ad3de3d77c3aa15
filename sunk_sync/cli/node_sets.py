"""Doctor's look at NodeSets."""

from sunk_sync.cli.findings import Finding, fail, ok
from sunk_sync.core.model.facts import NODE_SETS
from sunk_sync.kube.api.answers import KubeError
from sunk_sync.kube.api.client import KubeClient, Request
from sunk_sync.kube.read.liveness import NOT_FOUND
from sunk_sync.kube.read.selection import KIND_MISSING
from sunk_sync.service.wiring import NODESETS, selections_of
from sunk_sync.settings.model import Settings


async def check_node_sets(client: KubeClient, settings: Settings) -> list[Finding]:
    """Check that the kind exists where component nodesets looks for it."""
    if NODESETS not in settings.components:
        return []
    selection = selections_of(settings)[NODE_SETS]
    for path in selection.paths:
        answer = await client.call(
            Request(path=path, query=(("limit", "1"),)), selection.decoder.page
        )
        if isinstance(answer, KubeError):
            return [_finding(answer)]
    return [
        ok(NODESETS, f"the kind NodeSet exists; read in {', '.join(settings.slurmd_namespace)}")
    ]


def _finding(error: KubeError) -> Finding:
    if error.status == NOT_FOUND:
        problem, _, cure = KIND_MISSING.partition(": ")
        return fail(NODESETS, problem, cure)
    return fail(NODESETS, f"NodeSets cannot be listed: {error.why}", "see permissions")
