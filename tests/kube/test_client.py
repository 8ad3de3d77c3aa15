"""KubeClient against a server that answers as a test tells it: every failure is a value."""

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
from sunk_sync.kube.api.client import KubeClient, Request, ResourceAttributes
from sunk_sync.kube.api.transport import Stream, route
from sunk_sync.telemetry.exchange import Exchange
from tests.kube.recorded.server import ApiServer, page, refusal, serving, status, stream

NODES = "/api/v1/nodes"


def text(body: bytes) -> str:
    return json.dumps(json.loads(body))


async def asked(answer: Any, tmp_path: Path, **request: Any) -> tuple[Any, list[Exchange]]:
    async with serving(answer, tmp_path) as (server, client):
        return await client.call(Request(path=NODES, **request), text), server.exchanges


# Answers


async def test_html_instead_of_json_is_garbage_F4(tmp_path: Path) -> None:
    """F4: a proxy's page with status 200 is no answer of Kubernetes."""

    async def answer(_: web.Request) -> web.Response:
        return web.Response(text="<html>login</html>")

    trouble, exchanges = await asked(answer, tmp_path)
    assert trouble.kind == "garbage"
    assert "<html>" in trouble.why
    assert [exchange.status for exchange in exchanges] == ["garbage"]


async def test_half_an_answer_is_garbage_F4(tmp_path: Path) -> None:
    """F4: the connection breaks inside the body."""

    async def answer(request: web.Request) -> web.StreamResponse:
        return await stream(request, b'{"kind":', then="break")

    trouble, _ = await asked(answer, tmp_path)
    assert trouble.kind in ("garbage", "connection")
    assert trouble.passing


async def test_a_slow_answer_ends_at_its_deadline_F4(tmp_path: Path) -> None:
    """F4: silence in the middle of an answer costs the deadline and no more."""

    async def answer(request: web.Request) -> web.StreamResponse:
        return await stream(request, b'{"kind":')

    begun_s = time.perf_counter()
    trouble, exchanges = await asked(answer, tmp_path, deadline_s=0.2)
    assert trouble.kind == "timeout"
    assert time.perf_counter() - begun_s < 2
    assert exchanges[0].status == "timeout"


async def test_an_oversized_answer_is_not_read_to_its_end_F4(tmp_path: Path) -> None:
    """F4: memory is bounded whatever the server sends."""

    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=b'"' + b"x" * 500_000 + b'"')

    trouble, _ = await asked(answer, tmp_path, bytes_max=1000)
    assert trouble.kind == "too-large"


async def test_retry_after_is_read_F8(tmp_path: Path) -> None:
    """F8: 429 and its Retry-After come as one value."""

    async def answer(_: web.Request) -> web.Response:
        return refusal(429, "TooManyRequests", **{"Retry-After": "3"})

    trouble, exchanges = await asked(answer, tmp_path)
    assert (trouble.status, trouble.retry_after_s, trouble.passing) == (429, 3.0, True)
    assert exchanges[0].status == "429"


async def test_a_server_that_is_not_there_is_a_value_F4(tmp_path: Path) -> None:
    """F4: connection refused."""
    server = ApiServer(lambda _: pytest.fail("not reached"), tmp_path)
    await server.start()
    client = await server.client()
    await server.stop()
    trouble = await client.call(Request(path=NODES), text)
    await client.aclose()
    assert isinstance(trouble, KubeError)
    assert trouble.kind == "connection"
    assert trouble.passing


async def test_a_redirect_is_not_followed(tmp_path: Path) -> None:
    """Our token goes to the API server and nowhere else."""

    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=302, headers={"Location": "http://127.0.0.1:1/"})

    trouble, _ = await asked(answer, tmp_path)
    assert (trouble.kind, trouble.status) == ("answer", 302)


async def test_calls_share_a_bounded_pool(tmp_path: Path) -> None:
    """At most 32 calls are on the wire at once; the rest waits within its deadline."""
    now = most = 0

    async def answer(_: web.Request) -> web.Response:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.01)
        now -= 1
        return page("Node", [], 1)

    async with serving(answer, tmp_path) as (_, client):
        await asyncio.gather(*(client.call(Request(path=NODES), text) for _ in range(100)))
    assert most == 32


# Credentials


async def test_a_rotated_token_file_is_read_again_once_on_401_F5(tmp_path: Path) -> None:
    """F5: the call that was refused is repeated with the new token, and succeeds."""
    token = tmp_path / "token"
    token.write_text("old")

    async def answer(request: web.Request) -> web.Response:
        if request.headers["Authorization"] == "Bearer new":
            return web.json_response({})
        return refusal(401, "Unauthorized")

    async with serving(answer, tmp_path) as (server, _):
        client = await server.client({"tokenFile": str(token)})
        token.write_text("new\n")
        answers = [await client.call(Request(path=NODES), text) for _ in range(2)]
        await client.aclose()
    assert answers == ["{}", "{}"]
    assert len(server.requests) == 3


async def test_a_token_that_stays_wrong_is_not_tried_again_and_again_F5(tmp_path: Path) -> None:
    """F5: re-read once; the same token is not sent twice for one call."""

    async def answer(_: web.Request) -> web.Response:
        return refusal(401, "Unauthorized")

    async with serving(answer, tmp_path) as (server, client):
        trouble = await client.call(Request(path=NODES), text)
    assert isinstance(trouble, KubeError)
    assert trouble.status == 401
    assert len(server.requests) == 1


async def test_a_watch_is_refreshed_like_a_call_F5(tmp_path: Path) -> None:
    """F5: streams open with the new token too."""
    token = tmp_path / "token"
    token.write_text("old")

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.headers["Authorization"] == "Bearer new":
            return await stream(request, b"{}\n", then="end")
        return refusal(401, "Unauthorized")

    async with serving(answer, tmp_path) as (server, _):
        client = await server.client({"tokenFile": str(token)})
        token.write_text("new")
        opened = await client.open(Request(path=NODES), silence_s=5)
        assert isinstance(opened, Stream)
        assert await opened.lines() == [b"{}"]
        opened.close()
        await client.aclose()


async def test_exec_plugins_give_tokens_and_are_asked_again_on_401(tmp_path: Path) -> None:
    """A kubeconfig's exec plugin runs once at the start and once for the refused token."""
    runs = tmp_path / "runs"
    script = tmp_path / "plugin"
    script.write_text(
        f"#!/bin/sh\necho run >> {shlex.quote(str(runs))}\n"
        f"n=$(wc -l < {shlex.quote(str(runs))} | tr -d ' ')\n"
        'echo "{\\"apiVersion\\":\\"client.authentication.k8s.io/v1\\",'
        '\\"kind\\":\\"ExecCredential\\",\\"status\\":{\\"token\\":\\"t$n\\"}}"\n'
    )
    script.chmod(0o700)

    async def answer(request: web.Request) -> web.Response:
        if request.headers["Authorization"] == "Bearer t2":
            return web.json_response({})
        return refusal(401, "Unauthorized")

    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(script)}
    async with serving(answer, tmp_path) as (server, _):
        client = await server.client({"exec": plugin})
        assert await client.call(Request(path=NODES), text) == "{}"
        await client.aclose()
    assert runs.read_text().count("run") == 2


@pytest.mark.parametrize(
    "content",
    ["", "][", "a: b", "clusters: 3", json.dumps({"current-context": "x", "contexts": []})],
)
async def test_a_kubeconfig_that_makes_no_sense_is_a_value(tmp_path: Path, content: str) -> None:
    """Wrong credentials are told, not raised."""
    path = tmp_path / "kubeconfig"
    path.write_text(content)
    made = await KubeClient.connect(kubeconfig=str(path), context=None, on_exchange=lambda _: None)
    assert isinstance(made, KubeError)
    assert made.kind == "credentials"


async def test_in_cluster_the_service_account_speaks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Address from the environment, token, authority and namespace from the mounted files."""
    for name, content in (("token", "sa"), ("namespace", "slurm"), ("ca.crt", _AUTHORITY)):
        (tmp_path / name).write_text(content)
    monkeypatch.setattr(credentials, "SERVICE_ACCOUNT", tmp_path)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    found = credentials.Credentials(kubeconfig=None, context=None, clock=time.monotonic)
    assert await found.load() is None
    assert (found.configuration.host, found.namespace) == ("https://10.0.0.1:443", "slurm")
    assert await found.authorization() == "Bearer sa"


async def test_in_cluster_the_token_is_read_again_every_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kubelet replaces the token long before it expires; no 401 is needed to see it."""
    for name, content in (("token", "first"), ("ca.crt", _AUTHORITY)):
        (tmp_path / name).write_text(content)
    monkeypatch.setattr(credentials, "SERVICE_ACCOUNT", tmp_path)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    now_s = 0.0
    found = credentials.Credentials(kubeconfig=None, context=None, clock=lambda: now_s)
    await found.load()
    (tmp_path / "token").write_text("second")
    assert await found.authorization() == "Bearer first"
    now_s = 61.0
    assert await found.authorization() == "Bearer second"


async def test_a_token_file_of_a_kubeconfig_is_read_again_and_its_loss_survived(
    tmp_path: Path,
) -> None:
    """Every minute; where it cannot be read the old token stays, the server is the judge of it."""
    token = tmp_path / "token"
    token.write_text("first")
    server = ApiServer(lambda _: pytest.fail("not reached"), tmp_path)
    server.url = "http://127.0.0.1:1"
    path = server.kubeconfig({"tokenFile": str(token)})
    now_s = 0.0
    found = credentials.Credentials(kubeconfig=path, context=None, clock=lambda: now_s)
    assert await found.load() is None
    seen = []
    for change in (lambda: token.write_text("second"), token.unlink):
        change()
        now_s += 61.0
        seen.append(await found.authorization())
    assert seen == ["Bearer second", "Bearer second"]


async def test_new_credentials_with_another_address_get_new_connections(tmp_path: Path) -> None:
    """After a 401 everything is read anew: address and certificates too."""

    async def refuse(_: web.Request) -> web.Response:
        return refusal(401, "Unauthorized")

    async def accept(_: web.Request) -> web.Response:
        return web.json_response({})

    elsewhere = ApiServer(accept, tmp_path)
    await elsewhere.start()
    async with serving(refuse, tmp_path) as (server, client):
        elsewhere.kubeconfig({"token": "t1"})
        assert await client.call(Request(path=NODES), text) == "{}"
        assert client.address == elsewhere.url != server.url
    await elsewhere.stop()


async def test_a_plugin_that_hangs_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every await has a deadline, a foreign program too."""
    monkeypatch.setattr(credentials, "PLUGIN_DEADLINE_S", 0.2)
    server = ApiServer(lambda _: pytest.fail("not reached"), tmp_path)
    server.url = "http://127.0.0.1:1"
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "sleep",
        "args": ["5"],
    }
    made = await KubeClient.connect(
        kubeconfig=server.kubeconfig({"exec": plugin}), context=None, on_exchange=lambda _: None
    )
    assert isinstance(made, KubeError)
    assert made.kind == "credentials"


async def test_without_a_flag_the_usual_kubeconfig_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KUBECONFIG as kubectl reads it."""
    server = ApiServer(lambda _: pytest.fail("not reached"), tmp_path)
    server.url = "http://127.0.0.1:1"
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("KUBECONFIG", server.kubeconfig({"token": "t"}) + os.pathsep + "/none")
    made = await KubeClient.connect(kubeconfig=None, context=None, on_exchange=lambda _: None)
    assert isinstance(made, KubeClient)
    assert (made.address, made.namespace) == ("http://127.0.0.1:1", "own")
    await made.aclose()


# Small questions


async def test_small_questions_are_answered(tmp_path: Path) -> None:
    """UID of the cluster, version, and what we may do."""

    async def answer(request: web.Request) -> web.Response:
        if request.method == "POST":
            spec = json.loads(await request.read())["spec"]["resourceAttributes"]
            return web.json_response({"status": {"allowed": spec["verb"] == "list"}}, status=201)
        if request.path == "/version":
            return web.json_response({"gitVersion": "v1.35.4"})
        return web.json_response({"metadata": {"uid": "u-1"}})

    async with serving(answer, tmp_path) as (_, client):
        assert await client.cluster_uid() == "u-1"
        assert await client.server_version() == "v1.35.4"
        assert await client.may(ResourceAttributes(verb="list", resource="nodes")) is True
        assert await client.may(ResourceAttributes(verb="drop", resource="nodes")) is False


async def test_small_questions_bring_their_trouble(tmp_path: Path) -> None:
    """A 403 is a value that says why."""

    async def answer(_: web.Request) -> web.Response:
        return web.json_response(status(403, "Forbidden", message="you may not"), status=403)

    async with serving(answer, tmp_path) as (_, client):
        for trouble in (
            await client.cluster_uid(),
            await client.server_version(),
            await client.may(ResourceAttributes(verb="list", resource="nodes")),
        ):
            assert isinstance(trouble, KubeError)
            assert trouble.why == "you may not"


@pytest.mark.parametrize(
    ("path", "bounded"),
    [
        ("/api/v1/nodes", "/api/v1/nodes"),
        ("/api/v1/nodes/n1/status", "/api/v1/nodes/{name}/status"),
        ("/api/v1/namespaces/kube-system", "/api/v1/namespaces/{name}"),
        ("/api/v1/namespaces/a/pods", "/api/v1/namespaces/{namespace}/pods"),
        ("/api/v1/namespaces/a/pods/p", "/api/v1/namespaces/{namespace}/pods/{name}"),
        (
            "/apis/coordination.k8s.io/v1/namespaces/a/leases/l",
            "/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}",
        ),
        ("/version", "/version"),
    ],
)
def test_paths_in_metrics_carry_no_names(path: str, bounded: str) -> None:
    """Label sets stay bounded."""
    assert route(path) == bounded


_AUTHORITY = "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"
