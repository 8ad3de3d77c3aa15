"""What breaks on the Kubernetes side of a named story."""

from collections.abc import Callable

from tests.sim.faults import Journey
from tests.sim.stage import Stage
from tests.sim.wire import Exchange


def cut_streams(stage: Stage) -> None:
    """Every watch breaks."""
    for stream in list(stage.wire.streams):
        stream.cut()


def restore(stage: Stage) -> None:
    """Kubernetes as it was before anybody did anything; the API server is down for a moment."""
    cut_streams(stage)
    restore_unseen(stage)


def restore_unseen(stage: Stage) -> None:
    """The same behind dead connections."""
    assert stage.backup is not None
    stage.wire.outages["kube"] = "refused"
    stage.worlds.restore(stage.backup)


def back_up(stage: Stage) -> None:
    """Of etcd."""
    stage.backup = stage.kube.backup()


def api_server_back(stage: Stage) -> None:
    """It answers."""
    stage.wire.outages.clear()


def freeze_streams(stage: Stage) -> None:
    """No watch brings anything any more, and nobody says so."""
    for stream in list(stage.wire.streams):
        stream.freeze()


def write_much(stage: Stage) -> None:
    """Versions run ahead."""
    for number in range(300):
        stage.kube.annotate("k2", {"x": str(number)})


def delay(
    method: str, path: str, *, out_s: float = 0.001, back_s: float = 0.001
) -> Callable[[Stage], None]:
    """The next such call of a path that ends so is late: the request, or its answer."""

    def doing(stage: Stage) -> None:
        def fate(exchange: Exchange) -> Journey | None:
            question = exchange.question
            if question.method != method or not question.path.endswith(path):
                return None
            stage.wire.fate = lambda _: None
            return Journey(out_s=out_s, back_s=back_s, words="late")

        stage.wire.fate = fate

    return doing
