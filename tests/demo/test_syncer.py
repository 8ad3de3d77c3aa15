"""The service of the demo: the production service, killed and started on this event loop."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from sunk_sync.demo.stage.syncer import Syncer, settings_for
from sunk_sync.demo.stage.worlds import HOOKS_KEY, Worlds

WITHIN_S = 60.0
LOOK_S = 0.01


async def until(claim: Callable[[], bool]) -> None:
    for _ in range(int(WITHIN_S / LOOK_S)):
        if claim():
            return
        await asyncio.sleep(LOOK_S)
    pytest.fail("not in time")


def ours(tasks: set[asyncio.Task[Any]]) -> list[str]:
    """Names of tasks that run code of the service, without the simulated programs of Slurm."""
    names = [task.get_name() for task in tasks]  # anyio names a task after its function
    codes = [getattr(task.get_coro(), "cr_code", None) for task in tasks]
    names += [code.co_qualname for code in codes if code and "/sunk_sync/" in code.co_filename]
    found = [name for name in names if not name.startswith(("Task-", "Callers."))]
    return [name for name in found if "Callers." not in name and "embedded" not in name]


@pytest.fixture
async def worlds() -> AsyncIterator[Worlds]:
    worlds = Worlds()
    await worlds.start()
    yield worlds
    await worlds.aclose()


@pytest.fixture
async def syncer(worlds: Worlds, tmp_path: Path) -> AsyncIterator[Syncer]:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(worlds.kubeconfig)
    key_file = tmp_path / "key"
    key_file.write_bytes(HOOKS_KEY)
    settings = settings_for(
        kubeconfig=str(kubeconfig), slurm_address=worlds.slurm_address, key_file=str(key_file)
    )
    worlds.start_callers(settings.hooks_url)
    syncer = Syncer(settings)
    yield syncer
    await syncer.aclose()


async def test_a_killed_service_leaves_no_task_or_write(worlds: Worlds, syncer: Syncer) -> None:
    before = asyncio.all_tasks()
    syncer.start()
    await until(lambda: syncer.ready)
    assert len(ours(asyncio.all_tasks() - before)) > 5
    syncer.kill()
    await until(lambda: not syncer.alive)
    await asyncio.sleep(0)
    assert ours(asyncio.all_tasks() - before) == []
    syncer.check()
    worlds.cordon("n1", "x")
    await asyncio.sleep(0.3)
    assert "DRAIN" not in worlds.slurm_node("n1").flags


async def test_a_stopped_service_ends_with_exit_code_0(syncer: Syncer) -> None:
    for _ in range(2):
        syncer.start()
        await until(lambda: syncer.ready)
        assert await syncer.stop()
        assert not syncer.alive


async def test_the_exception_that_ends_the_service_is_raised(
    syncer: Syncer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(_: object) -> int:
        raise ValueError("a bug")

    monkeypatch.setattr("sunk_sync.demo.stage.syncer.Service.run", broken)
    syncer.start()
    await until(lambda: not syncer.alive)
    with pytest.raises(ValueError, match="a bug"):
        syncer.check()


async def test_only_a_running_service_explains_decisions(worlds: Worlds, syncer: Syncer) -> None:
    syncer.start()
    worlds.cordon("n1", "disk")
    await until(lambda: "Node n1 is cordoned (disk)" in syncer.sentence("n1"))
    assert syncer.reads_slurm
    syncer.kill()
    await until(lambda: not syncer.alive)
    assert syncer.sentence("n1") == ""
    assert not syncer.ready
    assert not syncer.reads_slurm
