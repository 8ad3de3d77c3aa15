"""`make docs` fails if a link or an anchor is wrong."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.docs.pages import ROOT


def build(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    """Build a site of one page with our configuration, and with the arguments of the Makefile."""
    (folder / "docs").mkdir()
    (folder / "docs" / "README.md").write_text(f"# Start\n\n## There\n\n{text}\n")
    ours = {"docs_dir": "docs", "site_dir": "site", "hooks": [], "nav": [{"Start": "README.md"}]}
    file = folder / "mkdocs.yml"
    file.write_text(yaml.safe_dump({"INHERIT": str(ROOT / "mkdocs.yml"), **ours}))
    made = re.search(r"/mkdocs (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert made is not None
    command = [sys.executable, "-m", "mkdocs", *made[1].split(), "--config-file", str(file)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("link", ["[a](nowhere.md)", "[a](#nowhere)", "[a](README.md#nowhere)"])
def test_a_wrong_link_fails_the_build(link: str, tmp_path: Path) -> None:
    done = build(tmp_path, link)
    assert done.returncode == 1
    assert "nowhere" in done.stderr


def test_right_links_do_not(tmp_path: Path) -> None:
    done = build(tmp_path, "[a](#there) [b](README.md#there)")
    assert done.returncode == 0, done.stderr
