"""Builds the container image with podman or docker: `python -m tools.image`, or `make image`.

pip in the build uses the mirror and the certificate of this machine's pip. With podman, two builds
of one commit on one base give the same image.
"""

import argparse
import ast
import configparser
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from sunk_sync import __version__

ROOT = Path(__file__).parents[1]
SBOM = ROOT / "build" / "sunk-sync.cdx.json"
SBOM_INSIDE = "/opt/sunk-sync/sbom.cdx.json"
CA_INSIDE = "/run/pip-ca.crt"
PIP_SETTINGS = (
    "index-url",
    "extra-index-url",
    "trusted-host",
    "proxy",
    "timeout",
    "default-timeout",
)
"""Settings of pip that mean the same inside the build."""
NO_COMMIT_EPOCH = 315532800
"""1980, the first year that a wheel can hold."""


def build(
    engine: Sequence[str], tag: str, *, base: str | None = None, options: Sequence[str] = ()
) -> None:
    """Build the image. `engine` is the command of podman or docker, `options` go to its `build`."""
    podman = "docker" not in map(os.path.basename, engine)
    epoch = _commit_epoch()
    arguments = {"SOURCE_DATE_EPOCH": str(epoch), **_labels(epoch)}
    if base:
        arguments["PYTHON_IMAGE"] = base
    words = [f"--build-arg={name}={value}" for name, value in arguments.items()]
    if podman:
        words += ["--network=host", f"--timestamp={epoch}"]
    with _secrets(_pip_settings()) as secrets:
        where = ["--tag", tag, "--file", str(ROOT / "Containerfile"), str(ROOT)]
        subprocess.run([*engine, "build", *words, *secrets, *options, *where], check=True)


def write_sbom(engine: Sequence[str], tag: str, file: Path = SBOM) -> None:
    """Copy the software bill of materials out of an image."""
    file.parent.mkdir(exist_ok=True)
    create = [*engine, "create", tag]
    container = subprocess.run(create, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    try:
        subprocess.run([*engine, "cp", f"{container}:{SBOM_INSIDE}", str(file)], check=True)
    finally:
        subprocess.run([*engine, "rm", container], stdout=subprocess.DEVNULL, check=True)


def revision() -> str:
    """Return the commit, with -dirty if the working tree has other files."""
    return _git("describe", "--always", "--dirty", "--abbrev=40", "--exclude=*") or "unknown"


def _commit_epoch() -> int:
    return int(_git("log", "-1", "--format=%ct") or NO_COMMIT_EPOCH)


def _git(*argv: str) -> str:
    """Return the output of git; nothing where there is no repository."""
    if not shutil.which("git"):
        return ""
    return subprocess.run(
        ["git", *argv], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ).stdout.strip()


def _labels(epoch: int) -> dict[str, str]:
    created = datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"VERSION": __version__, "REVISION": revision(), "CREATED": created}


def _pip_settings() -> dict[str, str]:
    """Return the settings of this machine's pip by their short names; later sources win."""
    argv = [sys.executable, "-m", "pip", "config", "list"]
    said = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True).stdout
    found: dict[str, str] = {}
    for line in said.splitlines():
        name, _, value = line.partition("=")
        found[name.rpartition(".")[2]] = str(ast.literal_eval(value))
    ca = os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE")
    return {"cert": ca, **found} if ca else found


@contextmanager
def _secrets(settings: Mapping[str, str]) -> Iterator[list[str]]:
    """Yield the options that show pip's settings and certificate to the build alone."""
    file = configparser.RawConfigParser()
    file["global"] = {name: settings[name] for name in PIP_SETTINGS if name in settings}
    ca = settings.get("cert")
    if ca:
        file["global"]["cert"] = CA_INSIDE
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "pip.conf"
        with path.open("w") as out:
            file.write(out)
        secrets = {"pip": str(path), **({"pip-ca": ca} if ca else {})}
        yield [f"--secret=id={name},src={source}" for name, source in secrets.items()]


def _engine() -> str:
    for name in ("podman", "docker"):
        if shutil.which(name):
            return name
    sys.exit("podman or docker is missing: apt-get install podman")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m tools.image")
    parser.add_argument("--engine", default=None, help="command of podman or docker")
    parser.add_argument("--base", help="base image (default: that of the Containerfile)")
    parser.add_argument("--tag", default=f"sunk-sync:{__version__}", help="default: %(default)s")
    options = parser.parse_args()
    engine = shlex.split(options.engine or _engine())
    try:
        build(engine, options.tag, base=options.base)
        write_sbom(engine, options.tag)
    except subprocess.CalledProcessError as error:
        sys.exit(f"{engine[0]} failed with exit code {error.returncode}")
    print(f"image {options.tag}, bill of materials {SBOM.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
