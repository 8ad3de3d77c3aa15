"""The image is built from its Containerfile and runs as the manifests say, on real servers."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from sunk_sync import __version__
from tests.image.conftest import Built
from tests.image.pod import Pod
from tests.image.podman import BASE
from tests.real.stage import Host
from tests.real.testbed import BedError
from tools import image as tool

pytestmark = pytest.mark.real

ADDED_BYTES_MAX = 120_000_000
READY_S_MAX = 60
"""A busy machine is ten times slower."""
STOP_S_MAX = 10
INSIDE = "/opt/sunk-sync"
PYTHON = {"python_version": "3.13", "python_full_version": "3.13.0"}
INSTALLERS = re.compile(
    r"/(pip|ensurepip)/__init__\.py$|/bin/(pip[\d.]*|uv|easy_install)$|/pip-.*whl$"
)
COMPILERS = re.compile(
    r"/bin/([\w-]+-)?(cc|c\+\+|gcc|g\+\+|clang|cpp|as|ld|make|go|rustc)(-[\d.]+)?$"
)


def matching(files: Any, pattern: re.Pattern[str]) -> list[str]:
    return [path for path in files if pattern.search(path)]


def size(files: Any) -> int:
    return sum(one.size for one in files.values())


def locked() -> dict[str, str]:
    """Return the packages that the image's lock names for this Python, with their versions."""
    text = (tool.ROOT / "requirements-traces.lock").read_text()
    rows = [Requirement(row) for row in re.findall(r"^[A-Za-z][^\\\n]*", text, re.MULTILINE)]
    wanted = [row for row in rows if row.marker is None or row.marker.evaluate(PYTHON)]
    return {canonicalize_name(row.name): str(row.specifier)[2:] for row in wanted}


def test_the_image_adds_at_most_120_mb_to_python(image: Built) -> None:
    added = size(image.podman.files(image.tag)) - size(image.podman.files(BASE))
    print(f"{added / 1e6:.1f} MB beyond Python")
    assert 0 < added <= ADDED_BYTES_MAX


def test_no_installer_and_no_compiler_is_in_the_image(image: Built) -> None:
    """The base has pip in each form, so that this looks."""
    files = image.podman.files(image.tag)
    assert len(matching(image.podman.files(BASE), INSTALLERS)) >= 5
    assert not matching(files, INSTALLERS)
    assert not matching(files, COMPILERS)


def test_no_file_of_ours_can_be_changed_by_the_user_of_the_image(image: Built) -> None:
    """It runs as a number that no file belongs to."""
    assert image.podman.inspect(image.tag)["Config"]["User"] == "65532:65532"
    files = image.podman.files(image.tag)
    assert not [path for path, one in files.items() if 65532 in (one.uid, one.gid)]
    ours = [one for path, one in files.items() if path.startswith(INSIDE) and not one.issym()]
    assert ours
    assert not [one.name for one in ours if one.mode & 0o022]


def test_what_the_build_knew_of_the_mirror_is_not_in_the_image(image: Built) -> None:
    names = re.compile(r"/(pip\.conf|pip-ca\.crt|requirements.*\.lock)$")
    assert not matching(image.podman.files(image.tag), names)
    history = image.podman.run("history", "--no-trunc", "--format=json", image.tag)
    assert "pip.conf" not in history


def test_every_module_is_compiled(image: Built) -> None:
    """With a read-only root, any other would be compiled at each start."""
    files = image.podman.files(image.tag)
    modules = [Path(path) for path in files if re.search(r"/(sunk_sync|asyncio)/.*\.py$", path)]
    compiled = [one.parent / "__pycache__" / f"{one.stem}.cpython-313.pyc" for one in modules]
    assert len(modules) > 200
    assert not {str(one) for one in compiled} - files.keys()


def test_the_labels_say_which_commit_it_is(image: Built) -> None:
    labels = image.podman.inspect(image.tag)["Labels"]
    found = {
        name.removeprefix("org.opencontainers.image."): value
        for name, value in labels.items()
        if name.startswith("org.opencontainers.image.")
    }
    assert found.pop("description")
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", found.pop("created"))
    assert found == {
        "title": "sunk-sync",
        "licenses": "Apache-2.0",
        "version": __version__,
        "revision": image.revision,
    }


def test_the_bill_of_materials_names_what_is_installed(image: Built, tmp_path: Path) -> None:
    tool.write_sbom(image.podman.command, image.tag, tmp_path / "sbom.json")
    bill = json.loads((tmp_path / "sbom.json").read_text())
    assert bill["bomFormat"] == "CycloneDX"
    root = bill["metadata"]["component"]
    assert (root["name"], root["version"]) == ("sunk-sync", __version__)
    named = {canonicalize_name(one["name"]): one["version"] for one in bill["components"]}
    assert named == locked()
    assert all(one["purl"].startswith("pkg:pypi/") for one in bill["components"])


def test_a_second_build_gives_the_same_image(image: Built) -> None:
    """Everything is built again, but for the base."""
    assert image.podman.build("localhost/sunk-sync:again") == image.digest


def test_it_runs_as_the_manifests_say_and_becomes_ready(pod: Pod) -> None:
    print(f"ready after {pod.seconds_to_ready:.1f} s")
    assert pod.seconds_to_ready < READY_S_MAX
    status = pod.status()
    assert set(status["Uid"].split()) == set(status["Gid"].split()) == {"65532"}
    assert {status[f"Cap{kind}"] for kind in ("Prm", "Eff", "Bnd", "Amb")} == {"0" * 16}
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2"), "2: a filter"
    with pytest.raises(BedError, match="Read-only file system"):
        pod.execute("touch", "/tmp/file")


def test_it_drains_the_host_of_a_cordoned_node(pod: Pod, host: Host) -> None:
    host.cordon()
    host.until_drained("k8s: node cordoned")
    host.uncordon()
    host.until_free()
    assert [line for line in pod.log() if line.get("event") == "write"]


def test_doctor_runs_in_the_same_container(pod: Pod) -> None:
    """As the notes of the chart say; only the time of its Slurm differs from the default."""
    said = pod.execute("sunk-sync", "doctor")
    assert "0 wrong" in said, said


def test_it_ends_in_time_when_the_kubelet_ends_it(pod: Pod) -> None:
    """The last test here: a process 1 has no default for SIGTERM."""
    assert pod.stop() < STOP_S_MAX
    errors = [line for line in pod.log() if line.get("level") == "error"]
    assert not errors
