"""Tell the script beside slurmctld which topology file is wanted (T6, T7)."""

from sunk_sync.core.model.topology_file import AnswerTopology
from sunk_sync.core.model.verdict import QUIET, Ruling
from sunk_sync.core.views.parts import Cluster


def plan_topology(cluster: Cluster, *_: object) -> Ruling:
    """Answer each call. Nothing is wanted while the picture is incomplete, or during a pause.

    An empty file is never wanted: what nobody needs may stay.
    """
    if not cluster.topology_calls:
        return QUIET
    state = cluster.topology
    file, why_not = state.wanted, cluster.paused or state.why_not
    answers = []
    for call in cluster.topology_calls:
        if why_not or call.applied == file.digest:
            answers.append(AnswerTopology(call.call, why=why_not))
        else:
            answers.append(AnswerTopology(call.call, file.digest, file.content))
    return Ruling(tuple(answers), "the script beside slurmctld asks for the topology file")
