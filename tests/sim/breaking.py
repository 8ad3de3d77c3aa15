"""Faults of Kubernetes that scenarios cause at a given time."""

from collections.abc import Callable

from tests.sim.faults import Journey
from tests.sim.stage import Stage
from tests.sim.wire import Exchange


def cut_streams(stage: Stage) -> None:
    for stream in list(stage.wire.streams):
        stream.cut()


def restore(stage: Stage) -> None:
    """Restore Kubernetes to its first state; the API server is down for a moment."""
    cut_streams(stage)
    restore_unseen(stage)


def restore_unseen(stage: Stage) -> None:
    """Restore Kubernetes while connections are dead, so that no watch ends."""
    assert stage.backup is not None
    stage.wire.outages["kube"] = "refused"
    stage.worlds.restore(stage.backup)


def back_up(stage: Stage) -> None:
    stage.backup = stage.kube.backup()


def api_server_back(stage: Stage) -> None:
    stage.wire.outages.clear()


def freeze_streams(stage: Stage) -> None:
    for stream in list(stage.wire.streams):
        stream.freeze()


def write_much(stage: Stage) -> None:
    for number in range(300):
        stage.kube.annotate("k2", {"x": str(number)})


def delay(
    method: str, path: str, *, out_s: float = 0.001, back_s: float = 0.001
) -> Callable[[Stage], None]:
    """Return a step that delays the next such call: its request, or its answer."""

    def doing(stage: Stage) -> None:
        def fate(exchange: Exchange) -> Journey | None:
            question = exchange.question
            if question.method != method or not question.path.endswith(path):
                return None
            stage.wire.fate = lambda _: None
            return Journey(out_s=out_s, back_s=back_s, words="late")

        stage.wire.fate = fate

    return doing
