"""Runner of scripted requests against an API server; records the normalised responses.

A step is one request. A text `$3.metadata.uid` in it stands for that value in the response to step
3.
"""

import json
import re
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlencode

from msgspec import Struct

from sunk_sync.embedded.kubernetes.api.api import KubeApi
from sunk_sync.embedded.kubernetes.api.watch import Subscription
from sunk_sync.embedded.kubernetes.kubernetes import Kubernetes
from sunk_sync.embedded.wire import Question

Json = Any
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
RECORDED = Path(__file__).parent / "kube_traces.json"
HOME = "trace"
"""Namespace of the scenarios."""
FORGET = "FORGET"
"""Method of a step that compacts the history of the server."""
OLD = "2001-02-03T04:05:06Z"
"""A time in the scenarios. It is kept; all other times are normalised."""


class Step(Struct, frozen=True, kw_only=True):
    """One request. `until`: read a watch up to the ADDED event of the object with that name.

    `loose`: the error text comes from a library; compare only reason and code.
    """

    method: str = "GET"
    path: str
    body: Json = None
    content_type: str = "application/json"
    query: dict[str, str] = {}
    agent: str = "tracer/1"
    until: str = ""
    loose: bool = False

    def question(self, past: list[Json]) -> Question:
        """Return the request, filled in from the earlier responses."""
        body = _filled(self.body, past)
        raw = body if isinstance(body, str) else "" if body is None else json.dumps(body)
        headers = {"user-agent": self.agent, "accept": "application/json"}
        if raw:
            headers["content-type"] = self.content_type
        query = {key: str(_filled(value, past)) for key, value in self.query.items()}
        return Question(
            method=self.method, path=self.path, query=query, headers=headers, body=raw.encode()
        )


class Server(Protocol):
    """A server under test."""

    def ask(self, question: Question) -> tuple[int, bytes]:
        """Return status and body."""
        ...

    def watch(self, question: Question, until: str) -> tuple[int, list[bytes]]:
        """Return status and lines, up to the ADDED event of that name."""
        ...

    def forget(self) -> None:
        """Compact all versions before the current one."""
        ...


class Embedded:
    """The embedded API server alone: without kubelets and controllers."""

    def __init__(self) -> None:
        self.kube = Kubernetes(alive=False)
        self.kube.add_namespace(HOME)
        self.api = KubeApi(self.kube)

    def ask(self, question: Question) -> tuple[int, bytes]:
        answer = self.api.answer(question, self.kube.now_s)
        assert not isinstance(answer, Subscription)
        return answer.status, answer.body

    def watch(self, question: Question, until: str) -> tuple[int, list[bytes]]:
        watch = self.api.answer(question, self.kube.now_s)
        if not isinstance(watch, Subscription):
            return watch.status, [watch.body]
        lines: list[bytes] = []
        for line in watch.take(self.kube.now_s):
            lines.append(line)
            if ends(line, until):
                break
        watch.close()
        return 200, lines

    def forget(self) -> None:
        self.kube.compact()


def ends(line: bytes, until: str) -> bool:
    """Whether the watch was read for this line."""
    event = json.loads(line)
    metadata = event["object"].get("metadata", {})
    if until in ("BOOKMARK", "ERROR"):
        return bool(event["type"] == until)
    return bool(event["type"] == "ADDED" and metadata.get("name") == until)


def url(question: Question) -> str:
    """Return path and query."""
    query = urlencode(question.query)
    return f"{question.path}?{query}" if query else question.path


def trace(server: Server, steps: list[Step]) -> list[Json]:
    """Return the normalised response to each step."""
    answers: list[Json] = []
    records: list[Json] = []
    for step in steps:
        question = step.question(answers)
        if step.method == FORGET:
            server.forget()
            answers.append(None)
            records.append(None)
            continue
        if step.until:
            status, lines = server.watch(question, step.until)
            answer: Json = [json.loads(line) for line in lines]
        else:
            status, body = server.ask(question)
            answer = _decoded(body)
        answers.append(answer)
        records.append({"status": status, "answer": _loosened(answer) if step.loose else answer})
    return _Plain(records).answers


def _decoded(body: bytes) -> Json:
    try:
        return json.loads(body)
    except ValueError:
        return body.decode()


def _filled(value: Json, past: list[Json]) -> Json:
    if isinstance(value, dict):
        return {key: _filled(one, past) for key, one in value.items()}
    if isinstance(value, list):
        return [_filled(one, past) for one in value]
    if isinstance(value, str) and (match := re.fullmatch(r"\$(\d+)\.([\w.]+)", value)):
        found = past[int(match[1])]
        for name in match[2].split("."):
            found = found[int(name)] if name.isdigit() else found[name]
        return found
    return value


def _loosened(answer: Json) -> Json:
    if isinstance(answer, dict) and answer.get("kind") == "Status":
        return {key: answer.get(key) for key in ("reason", "code")}
    return answer


TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


class _Plain:
    """Numbers UIDs by appearance and versions by rank; drops times, tokens and orders."""

    def __init__(self, answers: list[Json]) -> None:
        self._uids: dict[str, str] = {}
        self._versions = sorted(set(_object_versions(answers)))
        self.answers = [self._plain(one) for one in answers]

    def _plain(self, value: Json, name: str = "") -> Json:
        if isinstance(value, dict):
            return self._plain_object(value)
        if isinstance(value, list):
            listed = [self._plain(one) for one in value]
            if name == "causes":  # the real server repeats some of them
                listed = [one for at, one in enumerate(listed) if one not in listed[:at]]
            if name in ("managedFields", "causes"):  # ordered by second, or by a Go map
                listed.sort(key=lambda one: json.dumps(one, sort_keys=True))
            return listed
        return self._plain_text(value, name) if isinstance(value, str) else value

    def _plain_object(self, value: dict[str, Json]) -> Json:
        whole = {key: self._plain(one, key) for key, one in value.items()}
        if "resourceVersion" in whole and "uid" not in whole:  # of a list or a bookmark
            whole["resourceVersion"] = "*"
        return whole

    def _plain_text(self, text: str, name: str) -> str:
        if name == "resourceVersion" and text.isdigit():
            number = int(text)
            return f"v{self._versions.index(number)}" if number in self._versions else text
        if name == "continue":
            return "token"
        if TIME.fullmatch(text):
            return text if text == OLD else "time"
        text = re.sub(r"current: \d+", "current: *", text)
        text = re.sub(r"resource version: \d+ \(\d+\)", "resource version: *", text)
        text = re.sub(r"in record \(\d+\)", "in record (*)", text)
        return UID.sub(self._numbered, text)

    def _numbered(self, match: re.Match[str]) -> str:
        return self._uids.setdefault(match[0], f"uid{len(self._uids)}")


def _object_versions(value: Json) -> list[int]:
    if isinstance(value, list):
        return [version for one in value for version in _object_versions(one)]
    if not isinstance(value, dict):
        return []
    found = [version for one in value.values() for version in _object_versions(one)]
    version = value.get("resourceVersion", "")
    if "uid" in value and isinstance(version, str) and version.isdigit():
        found.append(int(version))
    return found
