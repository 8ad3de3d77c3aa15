"""The embedded API server and the real one, compared on the same requests."""

import asyncio
import http.client
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sunk_sync.embedded.kubernetes.api.api import KubeApi
from sunk_sync.embedded.kubernetes.api.http import KubeServer as EmbeddedServer
from sunk_sync.embedded.kubernetes.api.http import kubeconfig
from sunk_sync.embedded.kubernetes.kubernetes import Kubernetes
from sunk_sync.embedded.wire import Question
from tests.embedded.kube_random import random_scenario
from tests.embedded.kube_scenarios import EVENTS, LEASES, NODES, PODS
from tests.embedded.kube_trace import HOME, Embedded, Step, ends, trace, url
from tests.embedded.kube_workloads import SCENARIOS
from tests.real.conftest import require
from tests.real.testbed import KubeServer
from tests.real.testbed.cache import KUBE_DEFAULT
from tests.real.testbed.cache import kube as built
from tests.real.testbed.rest import Rest

pytestmark = pytest.mark.real

SEEDS = 150
GRACELESS = json.dumps({"gracePeriodSeconds": 0}).encode()
EXTRA = ("/api/v1/namespaces/default/events", "/api/v1/namespaces")


class Real:
    """A kube-apiserver without controllers and kubelets, on one connection."""

    def __init__(self, server: KubeServer) -> None:
        self._server = server
        self._connection = server.rest.connect()

    def ask(self, question: Question) -> tuple[int, bytes]:
        answer = self._send(self._connection, question)
        return answer.status, answer.read()

    def watch(self, question: Question, until: str) -> tuple[int, list[bytes]]:
        connection = self._server.rest.connect()
        try:
            answer = self._send(connection, question)
            if answer.status != 200:
                return answer.status, [answer.read()]
            lines: list[bytes] = []
            while not lines or not ends(lines[-1], until):
                lines.append(answer.readline())
            return 200, lines
        finally:
            connection.close()

    def _send(
        self, connection: http.client.HTTPConnection, question: Question
    ) -> http.client.HTTPResponse:
        headers = {**question.headers, "Authorization": f"Bearer {self._server.admin_token}"}
        connection.request(question.method, url(question), question.body or None, headers)
        return connection.getresponse()

    def forget(self) -> None:
        """Compact etcd, and restart the API server, whose cache would still have old versions."""
        _, body = self.ask(Question(path=NODES))
        version = json.loads(body)["metadata"]["resourceVersion"]
        etcd = Rest(self._server.etcd_url)
        etcd.call("POST", "/v3/kv/compaction", {"revision": version, "physical": True})
        self._connection.close()
        self._server.restart()

    def clean(self) -> None:
        for path in (PODS, NODES, LEASES, EVENTS, EXTRA[0]):
            _, body = self.ask(Question(path=path))
            for item in json.loads(body)["items"]:
                self._remove(f"{path}/{item['metadata']['name']}", item)
        self.ask(Question(method="DELETE", path=f"{EXTRA[1]}/one"))
        done = json.dumps({"metadata": {"name": "one"}, "spec": {"finalizers": []}}).encode()
        headers = {"content-type": "application/json"}
        path = f"{EXTRA[1]}/one/finalize"
        self.ask(Question(method="PUT", path=path, body=done, headers=headers))

    def _remove(self, path: str, item: Any) -> None:
        headers = {"content-type": "application/json"}
        if item["metadata"].get("finalizers"):
            bare = {**item, "metadata": {**item["metadata"], "finalizers": []}}
            body = json.dumps(bare).encode()
            self.ask(Question(method="PUT", path=path, body=body, headers=headers))
        self.ask(Question(method="DELETE", path=path, body=GRACELESS, headers=headers))


@pytest.fixture(scope="module")
def real() -> Iterator[Real]:
    """A server of its own: controllers would write between the steps."""
    require(kube=KUBE_DEFAULT)
    with KubeServer(controllers=False, kubelet=False) as server:
        server.ensure_namespace(HOME)
        yield Real(server)


def compare(real: Real, steps: list[Step]) -> None:
    """Compare step by step, so that the first difference is shown."""
    real.clean()
    theirs, ours = trace(real, steps), trace(Embedded(), steps)
    for number, (step, one, other) in enumerate(zip(steps, theirs, ours, strict=True)):
        assert other == one, f"step {number}: {step}"


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_embedded_server_answers_as_the_real_one(real: Real, name: str) -> None:
    compare(real, SCENARIOS[name])


@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_requests_get_the_same_answers(real: Real, seed: int) -> None:
    compare(real, random_scenario(seed))


class Kubectl:
    """kubectl with the embedded server."""

    def __init__(self, address: str, folder: Path) -> None:
        config = folder / "kubeconfig"
        config.write_text(kubeconfig(address))
        binary = built(KUBE_DEFAULT).path / "kubectl"
        where = [f"--kubeconfig={config}", f"--cache-dir={folder / 'cache'}"]
        self._command = [str(binary), *where, "--request-timeout=10s"]

    async def __call__(self, line: str) -> list[str]:
        """Run kubectl, which must succeed; return its output by line, with single spaces."""
        done = await asyncio.to_thread(
            subprocess.run, [*self._command, *line.split()], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return [" ".join(row.split()) for row in done.stdout.splitlines()]


async def test_kubectl_works_against_the_embedded_server(tmp_path: Path) -> None:
    require(kube=KUBE_DEFAULT)
    world = Kubernetes()
    for name in ("a", "b"):
        world.add_node(name)
        world.add_pod(f"slurmd-{name}", namespace="slurm", node=name)
    server = EmbeddedServer(KubeApi(world))
    kubectl = Kubectl(await server.start(), tmp_path)
    try:
        await use(kubectl)
    finally:
        await server.aclose()


async def use(kubectl: Kubectl) -> None:
    head, first, _ = await kubectl("get nodes")
    assert head == "NAME STATUS ROLES AGE VERSION"
    assert first.startswith("a Ready <none> ")
    assert await kubectl("cordon a") == ["node/a cordoned"]
    assert (await kubectl("get nodes"))[1].startswith("a Ready,SchedulingDisabled")
    assert await kubectl("uncordon a") == ["node/a uncordoned"]
    assert await kubectl("annotate node b x=y") == ["node/b annotated"]
    assert await kubectl("label pod -n slurm slurmd-a q=r") == ["pod/slurmd-a labeled"]
    assert len(await kubectl("get pods -A -l q=r --no-headers")) == 1
    assert await kubectl("get node b -o jsonpath={.metadata.annotations.x}") == ["y"]
    assert "Unschedulable: false" in await kubectl("describe node a")
    assert "Status: Running" in await kubectl("describe pod -n slurm slurmd-a")
    assert await kubectl("wait node/a --for=condition=Ready") == ["node/a condition met"]
    assert await kubectl("delete pod -n slurm slurmd-a") == [
        'pod "slurmd-a" deleted from slurm namespace'
    ]
    assert "node/b drained" in await kubectl("drain b --force")
    assert await kubectl("get pods -n slurm") == []
    assert await kubectl("delete node b") == ['node "b" deleted']
