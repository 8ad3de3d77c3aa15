"""L5: the key of the hook tokens outlives the process."""

import json
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Any

import pytest
import structlog
from structlog.testing import LogCapture

from sunk_sync.kube.api.answers import Decode, KubeError, T, refusal
from sunk_sync.kube.api.backoff import Ambient
from sunk_sync.kube.api.client import Request
from sunk_sync.kube.write.hooks_key import SecretReference, find_key, keep_key, secret_name
from sunk_sync.server.tokens import KEY_BYTES_MIN
from sunk_sync.service.hooks_key import EVENT, TRIES, kept_key
from sunk_sync.settings.model import Settings

PLACE = SecretReference("slurm", "sunk-sync-slurm-hooks-key")
PATH = "/api/v1/namespaces/slurm/secrets"
KEY = b"0123456789abcdef"
FORBIDDEN = KubeError(kind="answer", status=403, why="secrets is forbidden", reason="Forbidden")
AWAY = KubeError(kind="connection", why="refused")


def answered(status: int, reason: str) -> KubeError:
    text = json.dumps({"kind": "Status", "reason": reason, "message": reason})
    return refusal(status, text.encode())


class Secrets:
    """One Secret of an API server, or none; `before` may answer instead."""

    def __init__(self, key: bytes | None = None) -> None:
        self.key = key
        """None: there is no such Secret; empty: it has no key."""
        self.version = 1
        self.asked: list[str] = []
        self.before: Callable[[Request], KubeError | None] = lambda _: None

    async def call(self, request: Request, decode: Decode[T], /) -> T | KubeError:
        self.asked.append(request.method)
        instead = self.before(request)
        return self._answer(request, decode) if instead is None else instead

    def _answer(self, request: Request, decode: Decode[T]) -> T | KubeError:
        body: dict[str, Any] = json.loads(request.body or b"{}")
        match request.method:
            case "POST":
                assert request.path == PATH
                if self.key is not None:
                    return answered(409, "AlreadyExists")
                assert body["type"] == "Opaque"
                self._put(body)
            case "PATCH":
                assert request.content_type == "application/merge-patch+json"
                if body["metadata"]["resourceVersion"] != str(self.version):
                    return answered(409, "Conflict")
                self._put(body)
        if self.key is None:
            return answered(404, "NotFound")
        data = {"key": b64encode(self.key).decode()} if self.key else None
        shown = {"metadata": {"resourceVersion": str(self.version)}, "data": data}
        return decode(json.dumps(shown).encode())

    def _put(self, body: dict[str, Any]) -> None:
        self.key = b64decode(body["data"]["key"])
        self.version += 1


async def kept(secrets: Secrets) -> bytes | KubeError:
    return await keep_key(secrets, PLACE, make=lambda: KEY)


@pytest.mark.parametrize(
    ("before", "after", "asked"),
    [
        pytest.param(b"a key of somebody\n", b"a key of somebody", ["GET"], id="read and trimmed"),
        pytest.param(b"", KEY, ["GET", "PATCH"], id="filled"),
        pytest.param(None, KEY, ["GET", "POST"], id="created"),
    ],
)
async def test_a_secret_keeps_its_key(before: bytes | None, after: bytes, asked: list[str]) -> None:
    secrets = Secrets(before)
    assert await kept(secrets) == after
    assert await keep_key(secrets, PLACE, make=lambda: b"another") == after
    assert secrets.asked == [*asked, "GET"]


@pytest.mark.parametrize("before", [None, b""], ids=["missing", "empty"])
async def test_a_key_that_another_process_wrote_meanwhile_is_taken(before: bytes | None) -> None:
    secrets = Secrets(before)

    def race(request: Request) -> KubeError | None:
        if request.method != "GET" and secrets.key != b"theirs, written first":
            secrets.key = b"theirs, written first"
            secrets.version += 1
        return None

    secrets.before = race
    assert await kept(secrets) == b"theirs, written first"


async def test_a_secret_that_always_changes_is_a_failure_after_bounded_tries() -> None:
    secrets = Secrets(b"")
    secrets.before = lambda one: None if one.method == "GET" else answered(409, "Conflict")
    found = await kept(secrets)
    assert isinstance(found, KubeError)
    assert len(secrets.asked) == 6


async def test_a_refusal_is_returned() -> None:
    secrets = Secrets()
    secrets.before = lambda one: None if one.method == "GET" else FORBIDDEN
    assert await kept(secrets) == FORBIDDEN
    secrets.before = lambda _: FORBIDDEN
    assert await kept(secrets) == FORBIDDEN


async def test_find_key_writes_nothing() -> None:
    secrets = Secrets(b"")
    assert await find_key(secrets, PLACE) == b""
    assert secrets.asked == ["GET"]


@pytest.mark.parametrize(
    ("cluster", "name"), [("slurm", "slurm"), ("HPC_2.east", "hpc-2-east"), ("a..b", "a-b")]
)
def test_the_secret_is_named_after_the_cluster(cluster: str, name: str) -> None:
    """The value of a label may have characters that the name of a Secret may not."""
    assert secret_name(cluster) == f"sunk-sync-{name}-hooks-key"


class Run:
    """The key of one process, and its log."""

    def __init__(self, secrets: Secrets, **settings: Any) -> None:
        self.capture = LogCapture()
        self.waited_s = 0.0
        self._secrets = secrets
        self._settings = Settings(**{"components": ("syncer", "scheduler"), **settings})

    async def key(self) -> bytes:
        async def sleep(seconds: float) -> None:
            self.waited_s += seconds

        return await kept_key(
            self._secrets,
            self._settings,
            log=structlog.wrap_logger(structlog.PrintLogger(), processors=[self.capture]),
            namespace="slurm",
            ambient=Ambient(sleep=sleep, random=lambda: 0.5),
        )

    def warning(self) -> Any:
        (line,) = [one for one in self.capture.entries if one["log_level"] == "warning"]
        return line


async def test_the_next_process_has_the_same_key_and_does_not_log_it() -> None:
    secrets = Secrets(b"")
    first = await Run(secrets).key()
    assert len(first) >= KEY_BYTES_MIN
    run = Run(secrets)
    assert await run.key() == first
    assert [one["log_level"] for one in run.capture.entries] == ["info"]
    assert first.decode() not in str(run.capture.entries)


@pytest.mark.parametrize(
    ("key", "before"),
    [
        (None, lambda one: FORBIDDEN if one.method == "POST" else None),
        (b"", lambda one: FORBIDDEN if one.method == "PATCH" else None),
        (KEY, lambda _: FORBIDDEN),
        (b"too short", lambda _: None),
    ],
    ids=["missing", "may not write", "may not read", "no key"],
)
async def test_without_a_kept_key_the_process_makes_one_and_warns(
    key: bytes | None, before: Callable[[Request], KubeError | None]
) -> None:
    secrets = Secrets(key)
    secrets.before = before
    run = Run(secrets)
    assert len(await run.key()) >= KEY_BYTES_MIN
    line = run.warning()
    assert line["event"] == EVENT
    assert line["secret"] == "slurm/sunk-sync-slurm-hooks-key"
    assert line["why"]
    assert "kubectl -n slurm create secret generic sunk-sync-slurm-hooks-key" in line["cure"]
    assert secrets.key == key


async def test_a_temporary_failure_is_retried_for_some_seconds() -> None:
    """A busy API server must not make the tokens of running placeholders invalid."""
    secrets = Secrets(KEY)
    secrets.before = lambda _: AWAY if len(secrets.asked) < 5 else None
    run = Run(secrets)
    assert await run.key() == KEY
    assert 1 < run.waited_s < 10
    secrets.asked.clear()
    secrets.before = lambda _: AWAY
    assert await run.key() != KEY
    assert len(secrets.asked) == TRIES


async def test_a_dry_run_reads_the_key_and_writes_none() -> None:
    assert await Run(Secrets(KEY), dry_run=True).key() == KEY
    secrets = Secrets(b"")
    await Run(secrets, dry_run=True).key()
    assert secrets.asked == ["GET"]


@pytest.mark.parametrize(
    "settings", [{"components": ("syncer",)}, {"hooks_api_bind_address": ""}], ids=str
)
async def test_without_hooks_no_secret_is_read(settings: dict[str, Any]) -> None:
    secrets = Secrets(KEY)
    run = Run(secrets, **settings)
    await run.key()
    assert secrets.asked == []
    assert run.capture.entries == []
