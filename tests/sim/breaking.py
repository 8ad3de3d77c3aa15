"""What breaks on the Kubernetes side of a named story."""

from tests.sim.stage import Stage


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
