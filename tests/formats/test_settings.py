"""Today's code reads the settings of earlier versions, or says what to do instead."""

from pathlib import Path
from typing import Any

import pytest

from sunk_sync.__main__ import main
from sunk_sync.core.model.user_policy import problems_of
from sunk_sync.core.translate.user_policy import user_policy_of
from sunk_sync.settings import model
from sunk_sync.settings.model import FIELDS, key_of
from sunk_sync.settings.sources import SettingsError, load
from sunk_sync.settings.yaml_file import read_sections
from tests.formats.samples import each, read

GONE = "cordon-taint"
INSTEAD = "set cordon-on-slurm-drain"


def test_every_setting_of_earlier_versions_exists_or_its_error_says_what_to_do() -> None:
    known = {one["key"] for one in read("settings")}
    now = {key_of(field) for field in FIELDS}
    assert known <= now | model.REMOVED.keys(), "add it to settings.model.REMOVED"
    assert now <= known, "a new one: add it to the samples"
    assert not now & model.REMOVED.keys()


@pytest.fixture
def _removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "REMOVED", {GONE: INSTEAD})


@pytest.mark.usefixtures("_removed")
def test_a_removed_setting_is_named_with_what_to_do_instead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the file, in the environment and on the command line."""
    monkeypatch.chdir(tmp_path)  # messages shorten long paths
    file = Path("config.yaml")
    file.write_text(f"dry-run: true\n{GONE}: true\n")
    with pytest.raises(SettingsError) as caught:
        load({"config": str(file)}, {"SUNK_SYNC_CORDON_TAINT": "true"})
    instead = f"this version does not have it any more; {INSTEAD}"
    assert caught.value.mistakes == (
        f"{file} line 2: key '{GONE}': {instead}",
        f"SUNK_SYNC_CORDON_TAINT: {instead}",
    )
    assert main(["run", f"--{GONE}"]) == 2
    assert f"sunk-sync: --{GONE}: {instead}\n" in capsys.readouterr().err


@each("user-policies")
def test_files_of_the_policy_of_namespaces_are_read(sample: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(sample["text"])
    policy = user_policy_of(read_sections(file))
    for outcome in ("allowed", "denied"):
        for namespace, users in sample[outcome].items():
            for user in users:
                asked = {"user-id": user}
                refused = bool(problems_of(policy, asked, namespace=namespace))
                assert refused == (outcome == "denied"), (namespace, user)
