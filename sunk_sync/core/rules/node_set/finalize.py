"""Keep a NodeSet until its Pods and records are gone (N23)."""

from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.facts import reference_of
from sunk_sync.core.model.node_set_actions import SetFinalizer
from sunk_sync.core.model.verdict import QUIET, Ruling
from sunk_sync.core.translate.counted import counted
from sunk_sync.core.views.node_set import NodeSetView


def finalize(view: NodeSetView, *_: Configuration | float) -> Ruling:
    """Set the finalizer before the first Pod is made; remove it after the last record is gone.

    The last Pod may have registered a moment before it went, so an older listing proves nothing.
    """
    spec = view.spec
    if not spec.deleting:
        if spec.held:
            return QUIET
        return Ruling(
            (SetFinalizer(reference_of(spec), held=True),), f"{spec.path} is followed from now on"
        )
    if not spec.held or not (view.kube_listed and view.slurm_listed):
        return QUIET
    left = 0 if spec.orphan else len(view.slots) + view.records_left
    if left:
        rest = counted(left, "Pod or record is left", "Pods and records are left")
        return Ruling(because=f"{spec.path} is deleted: {rest}")
    if not spec.orphan and view.slurm_read_s <= view.emptied_s:
        return Ruling(because=f"{spec.path} is deleted: waiting for a listing of Slurm nodes")
    return Ruling(
        (SetFinalizer(reference_of(spec), held=False),), f"{spec.path} is deleted: nothing is left"
    )
