"""KubeClient: every failure of the server or of the credentials is a value."""

import asyncio
import json
import os
import shlex
import time
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from sunk_sync.kube.api import credentials
from sunk_sync.kube.api.answers import KubeError
from sunk_sync.kube.api.client import DEADLINE_S, KubeClient, Request, ResourceAttributes
from sunk_sync.kube.api.transport import Stream, route
from sunk_sync.telemetry.exchange import Exchange
from tests.kit.kube_watch import refuses, streams
from tests.kube.recorded.server import (
    Answer,
    ApiServer,
    answers,
    page,
    refusal,
    serving,
    status,
    stream,
)

MonkeyPatch = pytest.MonkeyPatch
NODES = "/api/v1/nodes"
LEASES = "/apis/coordination.k8s.io/v1/namespaces"
UNAUTHORIZED = refuses(401, "Unauthorized")


def text(body: bytes) -> str:
    return json.dumps(json.loads(body))


async def asked(answer: Any, **request: Any) -> tuple[Any, list[Exchange]]:
    async with serving(answer) as (server, client):
        return await client.call(Request(path=NODES, **request), text), server.exchanges


def accepts(token: str) -> Answer:
    async def answer(request: web.Request) -> web.StreamResponse:
        if request.headers["Authorization"] != f"Bearer {token}":
            return refusal(401, "Unauthorized")
        return await stream(request, b"{}\n", then="end")

    return answer


def absent_server(folder: Path) -> ApiServer:
    server = ApiServer(lambda _: pytest.fail("not reached"), folder)
    server.url = "http://127.0.0.1:1"
    return server


def in_cluster(folder: Path, monkeypatch: MonkeyPatch, *, token: str) -> None:
    authority = "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"
    for name, content in (("token", token), ("namespace", "slurm"), ("ca.crt", authority)):
        (folder / name).write_text(content)
    monkeypatch.setattr(credentials, "SERVICE_ACCOUNT", folder)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")


async def test_html_instead_of_json_is_garbage_F4() -> None:
    """A proxy answers with its own page and status 200."""
    failure, exchanges = await asked(answers(b"<html>login</html>"))
    assert failure.kind == "garbage"
    assert "<html>" in failure.why
    assert [exchange.status for exchange in exchanges] == ["garbage"]


async def test_an_answer_that_breaks_off_is_a_temporary_failure_F4() -> None:
    failure, _ = await asked(streams(b'{"kind":', then="break"))
    assert failure.kind in ("garbage", "connection")
    assert failure.passing


async def test_an_answer_that_stops_halfway_ends_at_its_deadline_F4() -> None:
    begun_s = time.perf_counter()
    failure, exchanges = await asked(streams(b'{"kind":'), deadline_s=0.2)
    assert failure.kind == "timeout"
    assert time.perf_counter() - begun_s < DEADLINE_S / 2
    assert exchanges[0].status == "timeout"


async def test_an_oversized_answer_is_not_read_to_its_end_F4() -> None:
    failure, _ = await asked(answers(b'"' + b"x" * 500_000 + b'"'), bytes_max=1000)
    assert failure.kind == "too-large"


async def test_retry_after_is_read_F8() -> None:
    failure, exchanges = await asked(answers(b"", 429, **{"Retry-After": "3"}))
    assert (failure.status, failure.retry_after_s, failure.passing) == (429, 3.0, True)
    assert exchanges[0].status == "429"


async def test_a_refused_connection_is_a_value_F4(tmp_path: Path) -> None:
    server = ApiServer(lambda _: pytest.fail("not reached"), tmp_path)
    await server.start()
    client = await server.client()
    await server.stop()
    failure = await client.call(Request(path=NODES), text)
    await client.aclose()
    assert isinstance(failure, KubeError)
    assert failure.kind == "connection"
    assert failure.passing


async def test_a_redirect_is_not_followed() -> None:
    """The token must not reach another server."""
    elsewhere = answers(b"", 302, Location="http://127.0.0.1:1/")
    failure, _ = await asked(elsewhere)
    assert (failure.kind, failure.status) == ("answer", 302)


async def test_at_most_32_calls_are_sent_at_once() -> None:
    now = most = 0

    async def answer(_: web.Request) -> web.Response:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.01)
        now -= 1
        return page("Node", [], 1)

    async with serving(answer) as (_, client):
        await asyncio.gather(*(client.call(Request(path=NODES), text) for _ in range(100)))
    assert most == 32


async def test_on_401_a_rotated_token_file_is_read_and_the_call_repeated_F5(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    async with serving(accepts("new"), {"tokenFile": str(token)}) as (server, client):
        token.write_text("new\n")
        answers = [await client.call(Request(path=NODES), text) for _ in range(2)]
    assert answers == ["{}", "{}"]
    assert len(server.requests) == 3


async def test_a_refused_token_is_not_sent_twice_F5() -> None:
    async with serving(UNAUTHORIZED) as (server, client):
        failure = await client.call(Request(path=NODES), text)
    assert isinstance(failure, KubeError)
    assert failure.status == 401
    assert len(server.requests) == 1


async def test_a_watch_opens_with_a_rotated_token_F5(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    async with serving(accepts("new"), {"tokenFile": str(token)}) as (_, client):
        token.write_text("new")
        opened = await client.open(Request(path=NODES), silence_s=5)
        assert isinstance(opened, Stream)
        assert await opened.lines() == [b"{}"]
        opened.close()


async def test_an_exec_plugin_runs_at_the_start_and_again_on_401(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    script = tmp_path / "plugin"
    script.write_text(
        f"#!/bin/sh\necho run >> {shlex.quote(str(runs))}\n"
        f"n=$(wc -l < {shlex.quote(str(runs))} | tr -d ' ')\n"
        'echo "{\\"apiVersion\\":\\"client.authentication.k8s.io/v1\\",'
        '\\"kind\\":\\"ExecCredential\\",\\"status\\":{\\"token\\":\\"t$n\\"}}"\n'
    )
    script.chmod(0o700)
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(script)}
    async with serving(accepts("t2"), {"exec": plugin}) as (_, client):
        assert await client.call(Request(path=NODES), text) == "{}"
    assert runs.read_text().count("run") == 2


@pytest.mark.parametrize(
    "content",
    ["", "][", "a: b", "clusters: 3", json.dumps({"current-context": "x", "contexts": []})],
)
async def test_an_invalid_kubeconfig_is_a_value(tmp_path: Path, content: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(content)
    made = await KubeClient.connect(kubeconfig=str(path), context=None, on_exchange=lambda _: None)
    assert isinstance(made, KubeError)
    assert made.kind == "credentials"


async def test_a_pod_uses_its_service_account(tmp_path: Path, monkeypatch: MonkeyPatch) -> None:
    in_cluster(tmp_path, monkeypatch, token="sa")
    found = credentials.Credentials(kubeconfig=None, context=None, clock=time.monotonic)
    assert await found.load() is None
    assert (found.configuration.host, found.namespace) == ("https://10.0.0.1:443", "slurm")
    assert await found.authorization() == "Bearer sa"


async def test_in_a_pod_the_token_is_read_again(tmp_path: Path, monkeypatch: MonkeyPatch) -> None:
    in_cluster(tmp_path, monkeypatch, token="first")
    now_s = 0.0
    found = credentials.Credentials(kubeconfig=None, context=None, clock=lambda: now_s)
    await found.load()
    (tmp_path / "token").write_text("second")
    assert await found.authorization() == "Bearer first"
    now_s = 61.0
    assert await found.authorization() == "Bearer second"


async def test_a_token_file_is_read_every_minute_and_may_disappear(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first")
    path = absent_server(tmp_path).kubeconfig({"tokenFile": str(token)})
    now_s = 0.0
    found = credentials.Credentials(kubeconfig=path, context=None, clock=lambda: now_s)
    assert await found.load() is None
    seen = []
    for change in (lambda: token.write_text("second"), token.unlink):
        change()
        now_s += 61.0
        seen.append(await found.authorization())
    assert seen == ["Bearer second", "Bearer second"]


async def test_after_a_401_the_address_of_the_server_is_read_again() -> None:
    async with serving(UNAUTHORIZED) as (server, client), serving(accepts("t1")) as (elsewhere, _):
        elsewhere.folder = server.folder
        elsewhere.kubeconfig({"token": "t1"})
        assert await client.call(Request(path=NODES), text) == "{}"
        assert client.address == elsewhere.url != server.url


async def test_exec_plugins_have_deadlines(tmp_path: Path, monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "PLUGIN_DEADLINE_S", 0.2)
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "sleep", "args": ["5"]}
    path = absent_server(tmp_path).kubeconfig({"exec": plugin})
    made = await KubeClient.connect(kubeconfig=path, context=None, on_exchange=lambda _: None)
    assert isinstance(made, KubeError)
    assert made.kind == "credentials"


async def test_without_a_flag_KUBECONFIG_is_read(tmp_path: Path, monkeypatch: MonkeyPatch) -> None:
    path = absent_server(tmp_path).kubeconfig({"token": "t"})
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("KUBECONFIG", path + os.pathsep + "/none")
    made = await KubeClient.connect(kubeconfig=None, context=None, on_exchange=lambda _: None)
    assert isinstance(made, KubeClient)
    assert (made.address, made.namespace) == ("http://127.0.0.1:1", "own")
    await made.aclose()


async def test_the_cluster_uid_the_version_and_permissions_are_read() -> None:
    async def answer(request: web.Request) -> web.Response:
        if request.method == "POST":
            spec = json.loads(await request.read())["spec"]["resourceAttributes"]
            return web.json_response({"status": {"allowed": spec["verb"] == "list"}}, status=201)
        if request.path == "/version":
            return web.json_response({"gitVersion": "v1.35.4"})
        return web.json_response({"metadata": {"uid": "u-1"}})

    async with serving(answer) as (_, client):
        assert await client.cluster_uid() == "u-1"
        assert await client.server_version() == "v1.35.4"
        assert await client.may(ResourceAttributes(verb="list", resource="nodes")) is True
        assert await client.may(ResourceAttributes(verb="drop", resource="nodes")) is False


async def test_a_403_to_these_calls_says_why() -> None:
    body = status(403, "Forbidden", message="you may not")
    async with serving(answers(body, 403)) as (_, client):
        for failure in (
            await client.cluster_uid(),
            await client.server_version(),
            await client.may(ResourceAttributes(verb="list", resource="nodes")),
        ):
            assert isinstance(failure, KubeError)
            assert failure.why == "you may not"


@pytest.mark.parametrize(
    ("path", "bounded"),
    [
        ("/api/v1/nodes", "/api/v1/nodes"),
        ("/api/v1/nodes/n1/status", "/api/v1/nodes/{name}/status"),
        ("/api/v1/namespaces/kube-system", "/api/v1/namespaces/{name}"),
        ("/api/v1/namespaces/a/pods", "/api/v1/namespaces/{namespace}/pods"),
        ("/api/v1/namespaces/a/pods/p", "/api/v1/namespaces/{namespace}/pods/{name}"),
        (f"{LEASES}/a/leases/l", LEASES + "/{namespace}/leases/{name}"),
        ("/version", "/version"),
    ],
)
def test_paths_in_metrics_carry_no_names(path: str, bounded: str) -> None:
    assert route(path) == bounded
