"""The images of the Pods, made of the test bed's Slurm, as one file for `ctr images import`."""

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tests.real.testbed import cache
from tests.real.testbed.build import run_logged
from tests.real.testbed.cache import Artifact
from tests.real.testbed.progress import Progress

PAUSE = "docker.io/local/pause:1"
SLURMD = "docker.io/local/slurmd:{}"
"""1 and 2 differ in their label alone."""
FILE = "images.tar"
BUSYBOX = Path("/bin/busybox")
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
FOLDERS = ("dev", "proc", "sys", "run", "tmp", "etc/slurm", "var/spool/slurmd", "shared")
LEFT_OUT = (
    *("./dev/*", "./proc/*", "./sys/*", "./run/*", "./var/lib/*", "./var/cache/*"),
    *("./usr/share/doc", "./usr/share/man", "./usr/share/locale", "./usr/share/mariadb"),
    *("./usr/sbin/mariadbd", "./usr/lib/systemd", "./boot"),
)


def images(version: str) -> Artifact:
    """All images with slurmd of this version, in one file."""
    recipe = Path(__file__).read_text() + cache.slurm(version).recipe
    return Artifact(f"node-images-{version}", recipe)


def build_images(version: str, progress: Progress) -> None:
    images(version).ensure(partial(_build, version, progress))


def _build(version: str, progress: Progress, part: Path) -> None:
    artifact, root = images(version), part / "slurm.tar"
    with progress.step(artifact.name, "making images") as step:
        left_out = [f"--exclude={pattern}" for pattern in LEFT_OUT]
        source = cache.slurm(version).path
        run_logged(["tar", "-C", source, *left_out, "-cf", root, "."], artifact.log, step.see)
        folders, busybox = part / "folders.tar", part / "busybox.tar"
        _write(folders, dict.fromkeys(FOLDERS))
        _write(busybox, {"bin/busybox": BUSYBOX.read_bytes()})
        with tarfile.open(part / FILE, "w") as archive:
            manifest = [_add(archive, PAUSE, ["/bin/busybox", "sleep", "2147483647"], [busybox])]
            manifest += [
                _add(archive, SLURMD.format(number), ["/usr/sbin/slurmd"], [root, folders])
                for number in (1, 2)
            ]
            _add_bytes(archive, "manifest.json", json.dumps(manifest).encode())
    for layer in (root, folders, busybox):
        layer.unlink()


def _write(layer: Path, files: Mapping[str, bytes | None]) -> None:
    """Write a layer with these files; None: a folder."""
    with tarfile.open(layer, "w") as archive:
        for name, content in files.items():
            one = tarfile.TarInfo(name)
            one.mode = 0o1777 if name == "tmp" else 0o755
            one.type = tarfile.DIRTYPE if content is None else tarfile.REGTYPE
            one.size = len(content or b"")
            archive.addfile(one, io.BytesIO(content or b""))


def _add(
    archive: tarfile.TarFile, name: str, entrypoint: Sequence[str], layers: Sequence[Path]
) -> dict[str, Any]:
    """Add the image; return its line of the manifest."""
    digests = [hashlib.sha256(layer.read_bytes()).hexdigest() for layer in layers]
    config = {
        "architecture": ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {
            "Entrypoint": list(entrypoint),
            "Env": ["PATH=/usr/sbin:/usr/bin:/sbin:/bin"],
            "Labels": {"name": name},
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}" for digest in digests]},
    }
    known = set(archive.getnames())
    for layer, digest in zip(layers, digests, strict=True):
        if f"{digest}.tar" not in known:
            archive.add(layer, f"{digest}.tar")
    content = json.dumps(config).encode()
    file = f"{hashlib.sha256(content).hexdigest()}.json"
    _add_bytes(archive, file, content)
    return {"Config": file, "RepoTags": [name], "Layers": [f"{one}.tar" for one in digests]}


def _add_bytes(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    archive.addfile(entry, io.BytesIO(content))
