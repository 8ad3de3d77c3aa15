"""The lock files are complete, and newer releases do not change what is installed."""

import hashlib
import os
import re
import subprocess
import tomllib
import venv
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
LOCKS = (
    "requirements.lock",
    "requirements-traces.lock",
    "requirements-dev.lock",
    "requirements-build.lock",
)
INSTALLS = pytest.mark.night(
    "pip installs a whole lock into a fresh environment, half a minute each; make test installs one"
)
BROUGHT = {"pip", "setuptools", "sunk-sync"}
"""Packages of a fresh environment, and the product."""


def install_arguments() -> list[str]:
    """Return the arguments of pip in the Makefile."""
    made = re.search(r"^INSTALL = -m (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert made is not None
    return made.group(1).split()


def locked(name: str) -> set[str]:
    """Return the packages of a lock that this platform needs."""
    text = (ROOT / name).read_text()
    rows = (line.rstrip(" \\") for line in text.splitlines() if re.match(r"[A-Za-z]", line))
    found = [Requirement(row) for row in rows]
    assert all(re.fullmatch(r"==[^,]+", str(one.specifier)) for one in found)
    wanted = [one for one in found if one.marker is None or one.marker.evaluate()]
    return {canonicalize_name(one.name) for one in wanted}


def pins(name: str) -> list[str]:
    return re.findall(r"^[A-Za-z][^ ]*==[^ ]+", (ROOT / name).read_text(), re.MULTILINE)


def run(python: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PIP_NO")}
    return subprocess.run(
        [str(python), *arguments], cwd=ROOT, env=kept, capture_output=True, text=True, timeout=300
    )


def fresh(place: Path) -> Path:
    """Make a fresh environment and return its interpreter."""
    venv.create(place, with_pip=True)
    return place / "bin" / "python"


def install(python: Path, lock: str, *options: str) -> None:
    """Install a lock as the Makefile does, but without bytecode, which takes most of the time."""
    done = run(python, "-m", *install_arguments(), lock, "--no-compile", *options)
    assert not done.returncode, done.stderr


def versions(python: Path) -> list[str]:
    """Return the installed packages as `name==version`."""
    listed = run(python, "-m", "pip", "list", "--format=freeze", "--disable-pip-version-check")
    return listed.stdout.split()


def installed(python: Path) -> set[str]:
    return {canonicalize_name(line.partition("==")[0]) for line in versions(python)}


@INSTALLS
@pytest.mark.parametrize("newest", [False, True], ids=["the pip of this Python", "the newest pip"])
@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_installs_exactly_what_it_names(lock: str, newest: bool, tmp_path: Path) -> None:
    python = fresh(tmp_path)
    if newest:
        renewed = run(python, "-m", "pip", "install", "--quiet", "--upgrade", "pip")
        assert not renewed.returncode, renewed.stderr
    install(python, lock)
    checked = run(python, "-m", "pip", "check", "--disable-pip-version-check")
    assert not checked.returncode, checked.stdout
    assert installed(python) | BROUGHT == locked(lock) | BROUGHT


def test_the_locks_name_every_dependency_of_the_product() -> None:
    asked = metadata.requires("sunk-sync") or []
    rows = [Requirement(row) for row in asked]
    names = {canonicalize_name(one.name) for one in rows if "extra" not in str(one.marker)}
    assert names <= locked("requirements.lock") <= locked("requirements-traces.lock")
    assert locked("requirements-traces.lock") <= locked("requirements-dev.lock")


def test_the_extra_of_traces_is_in_the_image_and_not_in_the_demo() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extra = [Requirement(row) for row in project["optional-dependencies"]["traces"]]
    names = {canonicalize_name(one.name) for one in extra}
    assert names <= locked("requirements-traces.lock")
    assert not names & locked("requirements.lock")
    assert "--requirement requirements-traces.lock" in (ROOT / "Containerfile").read_text()


def test_the_locks_pin_each_package_to_one_release() -> None:
    for name in LOCKS[1:-1]:
        assert set(pins("requirements.lock")) <= set(pins(name))


def wheel(folder: Path, name: str, version: str, *, needs: str = "", extra: str = "") -> str:
    """Write an empty package into the folder and return its hash."""
    about = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}"]
    about += [f"Provides-Extra: {extra}"] if extra else []
    about += [f"Requires-Dist: {needs}"] if needs else []
    place = f"{name}-{version}.dist-info"
    file = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(f"{name}.py", "")
        archive.writestr(f"{place}/METADATA", "\n".join(about) + "\n")
        archive.writestr(
            f"{place}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{place}/RECORD", "")
    return hashlib.sha256(file.read_bytes()).hexdigest()


def test_newer_releases_do_not_change_an_extra_in_a_lock(tmp_path: Path) -> None:
    """pip must not resolve the extra that one package requires of another."""
    index, lock = tmp_path / "index", tmp_path / "lock"
    index.mkdir()
    old = {
        "reporter": wheel(index, "reporter", "1.0", needs="counter[toml]>=1.0"),
        "counter": wheel(index, "counter", "1.0", extra="toml"),
    }
    wheel(index, "reporter", "1.1", needs="counter[toml]>=1.1")
    wheel(index, "counter", "1.1", extra="toml")
    lock.write_text("".join(f"{one}==1.0 --hash=sha256:{old[one]}\n" for one in old))
    python = fresh(tmp_path / "venv")
    install(python, str(lock), "--no-index", "--find-links", str(index))
    assert {"reporter==1.0", "counter==1.0"} <= set(versions(python))


@INSTALLS
def test_the_lock_installs_the_pinned_releases_though_newer_ones_exist(tmp_path: Path) -> None:
    lock = "requirements.lock"
    index = tmp_path / "index"
    index.mkdir()
    for name in locked(lock):
        wheel(index, name.replace("-", "_"), "9999.0")
    python = fresh(tmp_path / "venv")
    install(python, lock, "--find-links", str(index))
    assert not [line for line in versions(python) if "9999" in line]
    assert installed(python) | BROUGHT == locked(lock) | BROUGHT
