"""L5: tokens, their key, and the metrics and logs of calls."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import structlog
from structlog.testing import LogCapture

from sunk_sync.server.tokens import (
    GATE,
    KEY_BYTES_MAX,
    KeyFileError,
    make_token,
    new_key,
    read_key,
    subject_of,
)
from sunk_sync.telemetry.exchange import Called, Reply
from sunk_sync.telemetry.hooks import HookJournal
from sunk_sync.telemetry.metrics import Metrics

KEY = b"a key of sixteen"
SUBJECTS = [GATE, "0123456789abcdef", "k8s/team-a/train.v1-0/01234567", "é.\u00fc"]


@pytest.mark.parametrize("subject", SUBJECTS)
def test_a_token_is_valid_for_its_subject_and_key_alone(subject: str) -> None:
    token = make_token(KEY, subject)
    assert subject_of(KEY, token) == subject
    assert subject_of(KEY + b"x", token) is None
    assert subject_of(KEY, "x" + token) is None
    assert subject_of(KEY, token.upper()) is None
    assert subject_of(KEY, token + " ") is None
    assert KEY.decode() not in token


def test_the_openssl_recipe_of_the_docs_makes_the_token_of_the_gate() -> None:
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl here")
    page = (Path(__file__).parents[2] / "docs" / "gate.md").read_text(encoding="utf-8")
    (recipe,) = re.findall(r"^printf 'gate.*(?= >/etc)", page, re.MULTILINE)
    made = subprocess.run(
        ["sh", "-c", recipe], env={**os.environ, "KEY": KEY.decode()}, capture_output=True
    )
    assert made.stdout.decode() == make_token(KEY, GATE) + "\n"


def test_new_keys_differ_and_are_long_enough() -> None:
    first, second = new_key(), new_key()
    assert first != second
    assert len(first) >= 32


def test_a_key_file_may_end_with_a_newline(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_bytes(KEY + b"\n")
    assert read_key(file) == KEY


@pytest.mark.parametrize("content", [None, b"", b"   \n", b"short", b"x" * (KEY_BYTES_MAX + 1)])
def test_the_error_for_a_bad_key_file_has_its_path(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "key"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(KeyFileError, match=str(file)):
        read_key(file)


def test_calls_are_counted_and_a_401_or_passed_job_is_one_warning() -> None:
    capture, metrics, asked = LogCapture(), Metrics(), []
    log = structlog.wrap_logger(structlog.PrintLogger(), processors=[capture])

    def ask(trouble: tuple[str, ...]) -> tuple[bool, int]:
        asked.append(trouble)
        return asked.count(trouble) == 1, 0

    journal = HookJournal(log, metrics, ask=ask)
    journal.waiting(lambda: 3)
    for outcome in ("go", "401", "401", "passed"):
        journal.called(Called("gate", Reply(200, {}, outcome, "7"), 0.5, "10.0.0.1"))
    journal.called(Called("gate", None, 0.5, "10.0.0.1"))
    refused, passed = [one for one in capture.entries if one["log_level"] == "warning"]
    assert refused["event"].startswith("hook call refused")
    assert passed["event"].startswith("a job starts beside Pods that still terminate")
    assert passed["job"] == "7"

    def value(name: str, **labels: str) -> float | None:
        return metrics.registry.get_sample_value(name, labels)

    assert value("sunk_sync_hook_calls_total", call="gate", outcome="401") == 2
    assert value("sunk_sync_hook_calls_total", call="gate", outcome="left") == 1
    assert value("sunk_sync_hook_calls_waiting") == 3
    assert value("sunk_sync_hook_call_duration_seconds_count", call="gate") == 5
