"""The service with a collector: one trace for each Pod, whatever happens to the collector."""

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from sunk_sync.demo.stage.syncer import Syncer, settings_for
from sunk_sync.demo.stage.users import TEAM, Users
from sunk_sync.demo.stage.worlds import HOOKS_KEY, Worlds
from sunk_sync.settings.model import Settings
from sunk_sync.settings.sources import SettingsError, load
from tests.kit.collector import Collector

WITHIN_S = 60.0
LOOK_S = 0.02
QUIET = {"OTEL_BSP_SCHEDULE_DELAY": "100", "OTEL_EXPORTER_OTLP_TIMEOUT": "1"}


async def until(claim: Callable[[], bool]) -> None:
    for _ in range(int(WITHIN_S / LOOK_S)):
        if claim():
            return
        await asyncio.sleep(LOOK_S)
    pytest.fail("not in time")


class Scene:
    """Both embedded worlds, a service that traces, and its collector."""

    def __init__(self, folder: Path) -> None:
        self.worlds = Worlds()
        self.users = Users(self.worlds)
        self.collector = Collector()
        self._folder = folder
        self._syncers: list[Syncer] = []

    async def start(self) -> None:
        await self.worlds.start()
        await self.collector.start()
        (self._folder / "kubeconfig").write_text(self.worlds.kubeconfig)
        (self._folder / "key").write_bytes(HOOKS_KEY)

    async def serve(self, **changes: Any) -> Syncer:
        """Start a service and wait until it is ready; `changes`: of its settings."""
        settings = settings_for(
            kubeconfig=str(self._folder / "kubeconfig"),
            slurm_address=self.worlds.slurm_address,
            key_file=str(self._folder / "key"),
        )
        traced: Mapping[str, Any] = {"traces_endpoint": self.collector.address, **changes}
        self.worlds.start_callers(settings.hooks_url)
        syncer = Syncer(settings.model_copy(update=dict(traced)))
        self._syncers.append(syncer)
        syncer.start()
        await until(lambda: syncer.ready)
        return syncer

    async def aclose(self) -> None:
        for syncer in self._syncers:
            await syncer.aclose()
        await self.worlds.aclose()
        await self.collector.aclose()

    async def bound(self, name: str) -> str:
        """Apply a Pod, wait until it is bound, and return its UID."""
        self.users.apply(name)
        await until(lambda: self.users.is_bound(name))
        return str(self.users.pod(name)["metadata"]["uid"])


@pytest.fixture
async def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scene]:
    for name, value in QUIET.items():
        monkeypatch.setenv(name, value)
    scene = Scene(tmp_path)
    await scene.start()
    yield scene
    await scene.aclose()


def lines_of(syncer: Syncer, event: str) -> list[dict[str, Any]]:
    return [line for line in syncer.tail.take() if line["event"] == event]


async def test_one_trace_is_the_way_of_one_pod(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=blue")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=lab")
    await scene.serve()
    uid = await scene.bound("train")
    scene.users.cancel_placeholder("train")
    collector = scene.collector
    await until(lambda: "pod" in collector.names_of(uid))
    names = collector.names_of(uid)
    assert names[:4] == ["submit job", "queued in Slurm", "waiting to be bound", "bind"]
    assert sorted(names[4:]) == ["end Pod", "pod", "running"]
    spans = {one.name: one for one in collector.of(uid)}
    root = spans.pop("pod")
    assert root.parent_id == ""
    assert {one.parent_id for one in spans.values()} == {root.span_id}
    assert root.attributes["k8s.pod.name"] == "train"
    assert root.attributes["k8s.namespace.name"] == TEAM
    assert root.attributes["slurm.job.state"] == "CANCELLED"
    assert root.failed
    assert "SlurmJobCancelled" in root.failure
    assert all(root.start_ns <= one.start_ns <= one.end_ns <= root.end_ns for one in spans.values())
    assert root.service["service.name"] == "sunk-sync"
    assert root.service["deployment.environment.name"] == "lab"
    assert collector.headers[0]["x-tenant"] == "blue"


async def test_a_killed_service_goes_on_with_the_same_trace(scene: Scene) -> None:
    syncer = await scene.serve()
    uid = await scene.bound("train")
    await until(lambda: "bind" in scene.collector.names_of(uid))
    syncer.kill()
    await until(lambda: not syncer.alive)
    syncer.start()
    await until(lambda: syncer.ready)
    await asyncio.sleep(0.5)
    scene.users.delete("train")
    await until(lambda: "pod" in scene.collector.names_of(uid))
    names = scene.collector.names_of(uid)
    assert sorted(names) == sorted(set(names)), "no span twice"
    (running,) = [one for one in scene.collector.of(uid) if one.name == "running"]
    assert running.attributes["sunk_sync.resumed"] == "True"
    assert len({one.parent_id for one in scene.collector.of(uid)} - {""}) == 1


async def test_a_stopped_service_sends_its_last_spans(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "60000")
    syncer = await scene.serve()
    uid = await scene.bound("train")
    assert scene.collector.requests == 0
    assert await syncer.stop()
    assert "bind" in scene.collector.names_of(uid)


@pytest.mark.parametrize("fault", ["down", "slow", "status 500", "status 400"])
async def test_a_collector_that_fails_costs_one_line_and_nothing_else(
    scene: Scene, fault: str
) -> None:
    collector = scene.collector
    match fault.split():
        case ["down"]:
            await collector.aclose()
        case ["slow"]:
            collector.delay_s = 600.0
        case ["status", number]:
            collector.status = int(number)
    syncer = await scene.serve()
    await scene.bound("first")
    await scene.bound("second")
    lines: list[Any] = []

    def lost() -> list[Any]:
        lines.extend(syncer.tail.take())
        return [line for line in lines if line["event"] == "traces are lost"]

    await until(lambda: bool(lost()))
    await asyncio.sleep(1.0)
    (told,) = lost()
    assert told["why"] not in ("", "no answer")
    assert not [line for line in lines if "opentelemetry" in str(line.get("logger", ""))]
    assert await dropped(syncer) > 0
    async with asyncio.timeout(WITHIN_S):
        assert await syncer.stop()


async def test_when_the_collector_is_back_it_gets_the_next_spans(scene: Scene) -> None:
    scene.collector.status = 400
    syncer = await scene.serve()
    await scene.bound("first")
    await until(lambda: scene.collector.requests > 0)
    scene.collector.status = 200
    uid = await scene.bound("second")
    await until(lambda: "bind" in scene.collector.names_of(uid))
    assert lines_of(syncer, "the collector takes traces again")


async def test_a_variable_that_the_sdk_refuses_costs_the_traces_alone(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "99999")
    syncer = await scene.serve()
    await scene.bound("train")
    (line,) = lines_of(syncer, "traces cannot start")
    assert line["why"]
    assert await syncer.stop()


async def test_without_pods_in_the_share_nothing_is_sent(scene: Scene) -> None:
    await scene.serve(traces_sample=0.0)
    await scene.bound("train")
    await asyncio.sleep(0.5)
    assert scene.collector.requests == 0


async def dropped(syncer: Syncer) -> float:
    async with aiohttp.request(
        "GET", f"http://{syncer.settings.metrics_bind_address}/metrics"
    ) as answer:
        text = await answer.text()
    found = re.search(r"^sunk_sync_trace_spans_dropped_total (\S+)$", text, re.MULTILINE)
    assert found is not None
    return float(found.group(1))


def run(code: str) -> Any:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_without_the_setting_no_part_of_opentelemetry_is_imported() -> None:
    code = """
import asyncio, json, sys
from sunk_sync.service.app import Service
from sunk_sync.service.tracing import tracing
from sunk_sync.settings.sources import load
from sunk_sync.telemetry.logs import Logs
async def run():
    service = Service(load({}, {}), Logs("info", "json", sys.stderr))
    async with tracing(service.settings, service.telemetry):
        return service.telemetry.traces
assert asyncio.run(run()) is None
names = ("opentelemetry", "requests", "google.protobuf")
print(json.dumps([one for one in sys.modules if one.startswith(names)]))
"""
    assert run(code) == []


def test_without_the_packages_the_setting_says_what_to_install() -> None:
    code = """
import json, sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "opentelemetry":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent())
from contextlib import redirect_stderr
from io import StringIO
from sunk_sync.__main__ import main
said = StringIO()
with redirect_stderr(said):
    code = main(["run", "--traces-endpoint=http://collector:4318"])
print(json.dumps([code, said.getvalue()]))
"""
    code_, said = run(code)
    assert code_ == 2
    assert "--traces-endpoint" in said
    assert "pip install --no-deps -r requirements-traces.lock" in said


@pytest.mark.parametrize(
    ("flags", "mistake"),
    [
        ({"traces-endpoint": "collector:4318"}, "http://HOST:PORT"),
        ({"traces-endpoint": "http://user:secret@collector"}, "http://HOST:PORT"),
        ({"traces-sample": "2"}, "from 0 to 1"),
        ({"traces-sample": "-0.1"}, "from 0 to 1"),
        ({"traces-sample": "10%"}, "from 0 to 1"),
        ({"traces-sample": "nan"}, "from 0 to 1"),
    ],
)
def test_a_wrong_value_is_refused(flags: dict[str, str], mistake: str) -> None:
    with pytest.raises(SettingsError, match=mistake):
        load(flags, {})


def test_an_empty_address_means_no_traces() -> None:
    assert load({"traces-endpoint": ""}, {}).traces_endpoint is None


@pytest.mark.parametrize("share", ["0", "1", "0.25", ".5", "1.0", "0.0"])
def test_a_share_is_a_number_from_0_to_1(share: str) -> None:
    settings: Settings = load({"traces-sample": share}, {})
    assert settings.traces_sample == float(share)
