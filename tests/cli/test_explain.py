"""`sunk-sync explain`: what it prints, and what it says if it cannot ask."""

import io
import json
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
import respx

from sunk_sync.cli.explain import Question, explain, explain_without_service
from sunk_sync.core.explain.account import Fact, Unknown
from sunk_sync.service.explanation import Event, Explanation, Write
from sunk_sync.settings.sources import load
from sunk_sync.settings.types import Address

URL = "http://127.0.0.1:8082"
ANSWER = Explanation(
    at="2026-11-26T03:00:01Z",
    kind="host",
    name="n1",
    decision="drained: Node kn1 is cordoned",
    facts=(
        Fact(side="Kubernetes", what="Node kn1", says="ready", read_s=0.0, unchanged_s=400.0),
        Fact(side="Slurm", what="Slurm node n1", says="IDLE", read_s=0.4, unchanged_s=7300.0),
    ),
    writes=(Write("drain: slurm node n1", "sent 0.1 s ago, no answer yet"),),
    look_again_s=4.0,
    cures=("kubectl uncordon kn1", "Make it ready"),
    pages=("docs/troubleshooting.md#drained",),
    history=(Event("2026-11-26T02:59:58Z", 3.0, "decided: drained"),),
    see=("pod ns/p1", "pod ns/p2"),
)
TEXT = """\
host n1, 2026-11-26T03:00:01Z
  decision    drained: Node kn1 is cordoned (not done yet: see writes) (looks again in 4 s)
  Kubernetes  Node kn1: ready  [watched, the same for 7 m]
  Slurm       Slurm node n1: IDLE  [read 0.4 s ago, the same for 2 h]
  writes      drain: slurm node n1: sent 0.1 s ago, no answer yet
  to change   kubectl uncordon kn1
              Make it ready
  docs        docs/troubleshooting.md#drained
  history     02:59:58 (3.0 s ago) decided: drained
  see also    pod ns/p1, pod ns/p2
"""


class Run:
    def __init__(self, **fields: Any) -> None:
        given = {"kind": "host", "name": "n1", "address": Address("127.0.0.1", 8082), **fields}
        self.out, self.err = io.StringIO(), io.StringIO()
        self.code = explain(Question(**given), out=self.out, errors=self.err)

    @property
    def text(self) -> str:
        return self.out.getvalue()

    @property
    def error(self) -> str:
        return self.err.getvalue()


def answered(answer: object, status: int = 200) -> httpx.Response:
    return httpx.Response(status, content=msgspec.json.encode(answer))


@respx.mock(base_url=URL)
def test_an_answer_is_text_with_one_line_for_each_fact(respx_mock: respx.MockRouter) -> None:
    respx_mock.get("/v1/explain/host/n1").mock(return_value=answered(ANSWER))
    run = Run()
    assert (run.code, run.text, run.error) == (0, TEXT, "")


@respx.mock(base_url=URL)
def test_json_is_one_line_with_a_version(respx_mock: respx.MockRouter) -> None:
    respx_mock.get("/v1/explain/host/n1").mock(return_value=answered(ANSWER))
    run = Run(form="json")
    assert run.text.count("\n") == 1
    assert json.loads(run.text)["version"] == 1
    assert msgspec.json.decode(run.text, type=Explanation) == ANSWER


@respx.mock(base_url=URL)
def test_a_slash_stays_and_a_strange_name_is_quoted(respx_mock: respx.MockRouter) -> None:
    route = respx_mock.get(url__regex=".*").mock(return_value=answered(ANSWER))
    Run(kind="pod", name="ns/p 1?x=%")
    assert route.calls.last.request.url.raw_path == b"/v1/explain/pod/ns/p%201%3Fx%3D%25"


@respx.mock(base_url=URL)
def test_an_unknown_object_is_exit_code_1_and_similar_names(respx_mock: respx.MockRouter) -> None:
    answer = answered(Unknown("there is no node n1", ("n2", "n3")), 404)
    respx_mock.get("/v1/explain/host/n1").mock(return_value=answer)
    run = Run()
    assert (run.code, run.text) == (1, "")
    assert run.error == "sunk-sync explain: there is no node n1. Similar names: n2, n3\n"


@respx.mock(base_url=URL)
def test_watch_prints_only_answers_that_differ(respx_mock: respx.MockRouter) -> None:
    other = msgspec.structs.replace(ANSWER, decision="in sync")
    older = msgspec.structs.replace(ANSWER, at="2026-11-26T03:00:02Z")
    respx_mock.get("/v1/explain/host/n1").mock(
        side_effect=[answered(ANSWER), answered(older), answered(other), answered(other)]
    )
    out = io.StringIO()
    question = Question(
        kind="host", name="n1", address=Address("127.0.0.1", 8082), form="json", watch=True
    )
    naps: list[float] = []

    def nap(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) > 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        explain(question, out=out, sleep=nap)
    decisions = [json.loads(line)["decision"] for line in out.getvalue().splitlines()]
    assert decisions == [ANSWER.decision, "in sync"]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (httpx.ConnectError("refused"), "nothing answers at 127.0.0.1:8082: refused. Ask where"),
        (httpx.ReadTimeout("timed out"), "nothing answers at 127.0.0.1:8082: timed out"),
        (httpx.Response(200, text="<html>"), "is no operators server of sunk-sync"),
        (httpx.Response(200, text="{}"), "is no operators server of sunk-sync"),
        (httpx.Response(404, text="gone"), "is no operators server of sunk-sync"),
        (httpx.Response(500, text="broken"), "answered 500: broken"),
        (answered(msgspec.structs.replace(ANSWER, version=2)), "of another version"),
    ],
)
@respx.mock(base_url=URL)
def test_a_service_that_cannot_be_asked_is_exit_code_2(
    answer: Any, said: str, respx_mock: respx.MockRouter
) -> None:
    route = respx_mock.get("/v1/explain/host/n1")
    route.mock(**{"side_effect" if isinstance(answer, Exception) else "return_value": answer})
    run = Run()
    assert (run.code, run.text) == (2, "")
    assert said in run.error


def test_without_the_service_an_unreachable_side_is_named(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    server = {"cluster": {"server": "http://127.0.0.1:1"}, "name": "c"}
    context = {"context": {"cluster": "c", "user": "u"}, "name": "c"}
    given = {"clusters": [server], "contexts": [context], "current-context": "c", "users": []}
    kubeconfig.write_text(json.dumps(given))
    errors = io.StringIO()
    question = Question(kind="host", name="n1", address=None)
    settings = load({"kubeconfig": str(kubeconfig)}, {})
    assert explain_without_service(question, settings, errors=errors) == 2
    assert errors.getvalue().startswith("sunk-sync explain: cannot read Kubernetes: ")


def test_a_service_that_does_not_listen_is_exit_code_2() -> None:
    run = Run(address=None)
    assert run.code == 2
    assert "--operators-bind-address is empty" in run.error
