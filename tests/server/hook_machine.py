"""A machine for the shell scripts, whose clock is a file, and the server that they call."""

import asyncio
import contextlib
import os
import re
import shutil
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Struct

ROOT = Path(__file__).parents[2]
PROLOG = ROOT / "deploy" / "slurm" / "sunk-sync-prolog.sh"
LOCK = ROOT / "deploy" / "slurm" / "sunk-sync-lock.sh"
EPILOG = ROOT / "deploy" / "slurm" / "sunk-sync-epilog.sh"
TOKEN = "gate.0123456789abcdef"
SHELLS = ("dash", "bash")
SENDERS = ("curl", "bash", "python3")
ALWAYS = ("cat", "date", "env", "timeout", "tr")
FIXED_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n"
UPTIME = "/proc/uptime"
SLEEP = """#!/bin/sh
# A pause of seconds is over at once. A look at another process is real, and so is a long pause,
# which a signal ends.
case $1 in
    0.*) exec REAL 0.02 ;;
    ??*) >FOLDER/pauses; exec REAL "$1" ;;
esac
read -r up <FOLDER/uptime
echo $((up + $1)) >FOLDER/uptime
"""
HANG = -1
NOT_YET = (503, '{"error":"not listed yet"}')
Reply = tuple[int, str]


class Asked(Struct):
    """One request."""

    method: str
    path: str
    token: str
    body: dict[str, Any]


class HookServer:
    """Answers with `replies` in turn, the last one for ever; a status of 0 closes."""

    def __init__(self, replies: Sequence[Reply]) -> None:
        self.replies = list(replies)
        self.asked: list[Asked] = []
        self.url = ""
        self._called = asyncio.Event()

    async def until(self, calls: int) -> None:
        """Wait for so many calls."""
        async with asyncio.timeout(60):
            while len(self.asked) < calls:
                await self._called.wait()
                self._called.clear()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            self.asked.append(await _read(reader))
            self._called.set()
            status, text = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
            if status == HANG:
                await reader.read()
            elif status:
                line = text.encode() + b"\n"
                writer.write(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n" % (status, len(line)))
                writer.write(line)
        writer.close()


async def _read(reader: asyncio.StreamReader) -> Asked:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    method, path, _ = head.split(" ", 2)
    token = re.search(r"(?im)^authorization: bearer (\S+)", head)
    length = re.search(r"(?im)^content-length: (\d+)", head)
    body = await reader.readexactly(int(length.group(1)) if length else 0)
    decoded = msgspec.json.decode(body) if body else {}
    return Asked(method, path, token.group(1) if token else "", decoded)


@contextlib.asynccontextmanager
async def hook_server(*replies: Reply) -> AsyncIterator[HookServer]:
    opened = HookServer(replies)
    listener = await asyncio.start_server(opened.serve, "127.0.0.1", 0)
    opened.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    try:
        yield opened
    finally:
        listener.close()


class Run(Struct):
    """A script that ended; `seconds` by the clock of its machine."""

    code: int
    out: str
    errors: str
    seconds: float


class Machine:
    """A folder with the commands on the PATH of the script, its token and its clock."""

    def __init__(self, folder: Path, shell: str, sender: str) -> None:
        self.folder, self.shell = folder, shutil.which(shell) or shell
        self.bin = folder / "bin"
        self.bin.mkdir()
        for name in (*ALWAYS, sender):
            self.link(name)
        self.program("sleep", SLEEP.replace("REAL", real("sleep")))
        self.directory = folder
        """Where scripts start."""
        self._hostile: dict[str, str] = {}
        self.uptime = folder / "uptime"
        self.uptime.write_text("1000\n")
        (folder / "token").write_text(TOKEN + "\n")

    def link(self, name: str) -> None:
        """Let the script find this program."""
        (self.bin / name).symlink_to(real(name))

    def program(self, name: str, text: str) -> None:
        """Put a program of the test on the PATH; FOLDER is that of the machine."""
        path = self.bin / name
        path.unlink(missing_ok=True)
        path.write_text(text.replace("FOLDER", str(self.folder)))
        path.chmod(0o755)

    def live_in_real_time(self) -> None:
        """Use the clock and the pauses of this computer, for calls that hang."""
        for path, target in ((self.bin / "sleep", real("sleep")), (self.uptime, UPTIME)):
            path.unlink()
            path.symlink_to(target)

    def turn_hostile(self) -> Path:
        """Let the directory, the home and the environment of scripts be those of an attacker.

        The file that is returned exists once any of it was run or read as settings.
        """
        evil, hit = self.folder / "evil", self.folder / "hit"
        for package in ("urllib", "sitecustomize"):
            (evil / package).mkdir(parents=True)
            (evil / package / "__init__.py").write_text(f"open({str(hit)!r}, 'w')\n")
        (evil / ".curlrc").write_text(f'trace-ascii = "{hit}"\nproxy = "http://127.0.0.1:1"\n')
        (evil / "rc").write_text(f": >{hit}\n")
        self.directory = evil
        self._hostile = {
            **{name: str(evil) for name in ("HOME", "CURL_HOME", "XDG_CONFIG_HOME", "PYTHONPATH")},
            **{name: str(evil / "rc") for name in ("BASH_ENV", "ENV")},
            **dict.fromkeys(("http_proxy", "ALL_PROXY"), "http://127.0.0.1:1"),
            "PYTHONINSPECT": "1",
            "PYTHONUSERBASE": str(evil),
            "BASH_FUNC_cat%%": f"() {{ : >{hit}; }}",
        }
        return hit

    def now(self) -> float:
        return float(self.uptime.read_text().split()[0])

    def wait(self, seconds: int) -> None:
        """Let time pass."""
        self.uptime.write_text(f"{self.now() + seconds:.0f}\n")

    async def until_it_pauses(self) -> None:
        """Wait until a script is in a long pause."""
        async with asyncio.timeout(60):
            while not (self.folder / "pauses").exists():  # noqa: ASYNC110 -- of another process
                await asyncio.sleep(0.01)

    def install(self, script: Path) -> str:
        """Copy the script, which reads the clock of this machine."""
        text = script.read_text()
        assert UPTIME in text
        copy = self.folder / script.name
        text = text.replace(FIXED_PATH, f"PATH={self.bin}\n")
        copy.write_text(text.replace(UPTIME, str(self.uptime)))
        return str(copy)

    def env(self, **more: str) -> dict[str, str]:
        return {"PATH": str(self.bin), **self._hostile, **more}

    def common(self, url: str) -> list[str]:
        return ["--url", url, "--token-file", str(self.folder / "token")]

    async def gate(self, url: str, *argv: str, **env: str) -> Run:
        job = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n[1-2]"}
        context = {"SLURM_SCRIPT_CONTEXT": "prolog_slurmctld"}
        return await self.run(PROLOG, *self.common(url), *argv, **(job | context | env))

    async def lock(self, url: str, *argv: str, **env: str) -> Run:
        job = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n[1-2]", "SLURMD_NODENAME": "n2"}
        return await self.run(LOCK, *self.common(url), *argv, **(job | env))

    async def epilog(self, url: str) -> Run:
        return await self.run(EPILOG, *self.common(url), SLURM_JOB_ID="7")

    async def run(self, script: Path, *argv: str, **env: str) -> Run:
        began = self.now()
        process = await asyncio.create_subprocess_exec(
            self.shell,
            self.install(script),
            *argv,
            env=self.env(**env),
            cwd=self.directory,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(60):
            out, errors = await process.communicate()
        assert process.returncode is not None
        return Run(process.returncode, out.decode(), errors.decode(), self.now() - began)


def real(name: str) -> str:
    """Skip shims of version switchers: they need more on the PATH."""
    for place in ("/usr/bin", "/bin", "/usr/local/bin"):
        if os.access(f"{place}/{name}", os.X_OK):
            return f"{place}/{name}"
    pytest.skip(f"there is no {name} here")
