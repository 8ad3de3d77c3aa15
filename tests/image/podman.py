"""podman with storage of its own, in a sandbox: its images, containers and mounts end with it."""

import json
import tarfile
from pathlib import Path
from typing import Any

from tests.real.testbed import cache
from tests.real.testbed.build import IMAGE_BASE_FILE
from tests.real.testbed.closing import Closing
from tests.real.testbed.sandbox import Daemon, Sandbox, run
from tools import image

Files = dict[str, tarfile.TarInfo]

BASE = "localhost/python"
DEADLINE_S = 300
"""A busy machine needs a minute for what takes seconds."""
SETUP = """
mount -t proc proc /proc
mkdir -p /run/runc
mount -t tmpfs tmpfs /run/runc
"""
# Limits above those of this process would need a capability. Locks in files: the default ones are
# shared with every other podman of this machine.
CONFIGURATION = """
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
[engine]
lock_type = "file"
events_logger = "none"
"""


class Podman(Closing):
    """Use as a context manager, or call `close`."""

    def __init__(self) -> None:
        self._files: dict[str, Files] = {}
        self._sandbox = Sandbox("image", setup=SETUP)
        self.directory = self._sandbox.directory
        (self.directory / "containers.conf").write_text(CONFIGURATION)
        (self.directory / "tmp").mkdir()
        self.command = self._sandbox.enter(self._podman())

    def _podman(self) -> list[str | Path]:
        folder = self.directory
        # runc: crun refuses machines with both versions of cgroups.
        return [
            *("env", f"CONTAINERS_CONF={folder / 'containers.conf'}", f"TMPDIR={folder / 'tmp'}"),
            *("podman", "--root", folder / "root", "--runroot", folder / "run"),
            *("--tmpdir", folder / "libpod", "--storage-driver=overlay", "--runtime=runc"),
            "--cgroup-manager=cgroupfs",
        ]

    def run(self, *words: str | Path, deadline_s: float = DEADLINE_S) -> str:
        """Return the output of a podman command. BedError with its errors if it fails."""
        return run([*self.command, *words], deadline_s=deadline_s)

    def spawn(self, name: str, *words: str | Path) -> Daemon:
        """Start a podman command as a server of the sandbox."""
        return self.process(name, *self._podman(), *words)

    def process(self, name: str, *argv: str | Path) -> Daemon:
        """Start another process in the sandbox."""
        return self._sandbox.spawn(name, argv)

    def import_base(self) -> None:
        self.run("import", cache.image_base().path / IMAGE_BASE_FILE, BASE)

    def build(self, tag: str) -> str:
        """Build the image from its Containerfile, as `make image` does; return its digest."""
        image.build(self.command, tag, base=BASE, options=["--no-cache"])
        return str(self.inspect(tag)["Digest"])

    def inspect(self, tag: str) -> Any:
        (one,) = json.loads(self.run("image", "inspect", tag))
        return one

    def files(self, tag: str) -> Files:
        """Return everything in the file system of an image, by its path."""
        if tag not in self._files:
            self._files[tag] = self._read_files(tag)
        return self._files[tag]

    def _read_files(self, tag: str) -> Files:
        container = self.run("create", tag, "true").strip()
        archive = self.directory / "exported.tar"
        self.run("export", "--output", archive, container)
        self.run("rm", container)
        with tarfile.open(archive) as tar:
            found = {f"/{one.name.strip('/')}": one for one in tar}
        archive.unlink()
        return found

    def close(self) -> None:
        self._sandbox.close()
