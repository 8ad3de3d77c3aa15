"""The shell scripts against a small door that says what the test wants: every branch of L9.

With dash and bash as the shell, and with each of the three ways to speak HTTP.
"""

import asyncio
import contextlib
import os
import re
import shutil
import signal
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Struct

from sunk_sync.server.placeholder import script_of

ROOT = Path(__file__).parents[2]
PROLOG = ROOT / "deploy" / "slurm" / "sunk-sync-prolog.sh"
EPILOG = ROOT / "deploy" / "slurm" / "sunk-sync-epilog.sh"
TEMPLATE = ROOT / "sunk_sync" / "server" / "placeholder.sh"
TOKEN = "gate.0123456789abcdef"
SHELLS = ("dash", "bash")
SENDERS = ("curl", "bash", "python3")
ALWAYS = ("cat", "date", "sleep", "timeout", "tr")
HANG = -1


class Asked(Struct):
    """One request as the door saw it."""

    method: str
    path: str
    token: str
    body: dict[str, Any]


class Door:
    """Answers with `replies` in turn, the last one for ever; no reply at all: closes."""

    def __init__(self, replies: Sequence[tuple[int, str]]) -> None:
        self.replies = list(replies)
        self.asked: list[Asked] = []
        self.url = ""
        self._called = asyncio.Event()

    async def until(self, calls: int) -> None:
        """So many calls came."""
        async with asyncio.timeout(15):
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
async def door(*replies: tuple[int, str]) -> AsyncIterator[Door]:
    opened = Door(replies)
    server = await asyncio.start_server(opened.serve, "127.0.0.1", 0)
    opened.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield opened
    finally:
        server.close()


class Run(Struct):
    """A script that ended."""

    code: int
    out: str
    errors: str
    seconds: float


class Machine:
    """A folder with the commands that the script may find, and what it reads."""

    def __init__(self, folder: Path, shell: str, sender: str) -> None:
        self.folder, self.shell = folder, shutil.which(shell) or shell
        self.bin = folder / "bin"
        self.bin.mkdir()
        for name in (*ALWAYS, sender):
            (self.bin / name).symlink_to(_real(name))
        (folder / "token").write_text(TOKEN + "\n")

    def env(self, **more: str) -> dict[str, str]:
        return {"PATH": str(self.bin), **more}

    async def gate(self, url: str, *argv: str, **env: str) -> Run:
        words = ["--url", url, "--token-file", str(self.folder / "token"), *argv]
        job = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n[1-2]"}
        context = {"SLURM_SCRIPT_CONTEXT": "prolog_slurmctld"}
        return await self.run(PROLOG, *words, **(job | context | env))

    async def run(self, script: Path, *argv: str, **env: str) -> Run:
        began = time.monotonic()
        process = await asyncio.create_subprocess_exec(
            self.shell,
            str(script),
            *argv,
            env=self.env(**env),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(60):
            out, errors = await process.communicate()
        assert process.returncode is not None
        seconds = time.monotonic() - began
        return Run(process.returncode, out.decode(), errors.decode(), seconds)


def _real(name: str) -> str:
    """Not a shim of some version switcher: those need more on the PATH than we leave."""
    for place in ("/usr/bin", "/bin", "/usr/local/bin"):
        if os.access(f"{place}/{name}", os.X_OK):
            return f"{place}/{name}"
    pytest.skip(f"there is no {name} here")


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def machine(tmp_path: Path, shell: str) -> Machine:
    return Machine(tmp_path, shell, "curl")


GO = (200, '{"action":"go"}')
WAIT = (200, '{"action":"wait","pods":["Pod ns/a ends"]}')
REQUEUE = (200, '{"action":"requeue","pods":["Pod ns/a ends"]}')
NOT_YET = (503, '{"error":"not listed yet"}')
DEAD = (0, "")


@pytest.mark.parametrize("sender", SENDERS)
async def test_one_answer_needs_one_call(tmp_path: Path, shell: str, sender: str) -> None:
    """Go: the job starts at once; the call carries token, job, nodes and deadline."""
    async with door(GO) as there:
        run = await Machine(tmp_path, shell, sender).gate(there.url)
        assert (run.code, run.errors) == (0, "")
        (asked,) = there.asked
        assert (asked.method, asked.path, asked.token) == ("POST", "/v1/gate", TOKEN)
        body = {"job_id": "7", "nodes": "n[1-2]", "deadline_s": 55, "then": "ask"}
        assert asked.body == body


@pytest.mark.parametrize("sender", SENDERS)
@pytest.mark.parametrize("bad", [NOT_YET, DEAD, (200, "garbage"), (401, '{"error":"no"}')])
async def test_what_is_no_answer_is_asked_again_L9(
    tmp_path: Path, sender: str, bad: tuple[int, str]
) -> None:
    """503, a broken connection, garbage, a refused token: a second later it asks again."""
    async with door(bad, GO) as there:
        run = await Machine(tmp_path, "dash", sender).gate(there.url)
        assert run.code == 0
        assert len(there.asked) == 2
        assert 1 <= run.seconds < 4
        assert run.errors.count("no answer from") == 1


@pytest.mark.parametrize("sender", SENDERS)
@pytest.mark.parametrize("reply", [NOT_YET, (HANG, "")], ids=["standby", "hangs"])
async def test_silence_has_an_end_L9(tmp_path: Path, sender: str, reply: tuple[int, str]) -> None:
    """A service that is down never wedges Slurm, whether it refuses or hangs."""
    async with door(reply) as there:
        run = await Machine(tmp_path, "dash", sender).gate(there.url, "--silent", "2s=pass")
        assert run.code == 0
        assert 1 <= run.seconds < 5
        assert "no answer for 2 s" in run.errors


@pytest.mark.parametrize(("silent", "code"), [("1s=pass", 0), ("1s=requeue", 1), ("1s", 0)])
async def test_silence_ends_as_the_administrator_chose_L9(
    machine: Machine, silent: str, code: int
) -> None:
    """`requeue` sends the job back, everything else starts it."""
    async with door(NOT_YET) as there:
        assert (await machine.gate(there.url, "--silent", silent)).code == code


async def test_nobody_listens_L9(machine: Machine) -> None:
    """Refused connections count as silence too."""
    async with door(GO) as there:
        url = there.url
    run = await machine.gate(url, "--silent", "2s=pass")
    assert (run.code, 1 <= run.seconds < 5) == (0, True)


async def test_busy_asks_on_and_then_starts_all_the_same_L9(machine: Machine) -> None:
    """Told to wait until --busy: not requeueable, so on to --busy-max, and that is told to us."""
    async with door(WAIT) as there:
        run = await machine.gate(there.url, "--busy", "1s", "--busy-max", "2s")
        assert run.code == 0
        kinds = [asked.body["then"] for asked in there.asked]
        assert kinds[0] == "requeue"
        assert kinds[-1] == "pass"
        assert len(kinds) < 6  # whatever the door says, once a second is enough
        assert 1 <= run.seconds < 5
        assert "busy for 2 s: started although" in run.errors
        assert "Pod ns/a ends" in run.errors


async def test_a_requeueable_job_goes_back_to_the_queue_L9(machine: Machine) -> None:
    """Exit 1, when --busy is over and we said so."""
    async with door(REQUEUE) as there:
        run = await machine.gate(there.url, "--busy", "1s")
        assert run.code == 1
        assert "requeued" in run.errors


async def test_no_requeue_before_busy_is_over_L9(machine: Machine) -> None:
    """An answer that was not asked for is only a wait."""
    async with door(REQUEUE, GO) as there:
        run = await machine.gate(there.url)
        assert (run.code, len(there.asked)) == (0, 2)


@pytest.mark.parametrize("context", ["prolog_slurmd", "", "epilog_slurmd"])
@pytest.mark.parametrize("reply", [REQUEUE, NOT_YET])
async def test_as_prolog_of_a_node_it_never_exits_non_zero_L9(
    machine: Machine, context: str, reply: tuple[int, str]
) -> None:
    """That would drain the node; and it asks for its own node alone."""
    async with door(reply) as there:
        argv = ["--busy", "1s", "--busy-max", "3s", "--silent", "1s=requeue"]
        env = {"SLURM_SCRIPT_CONTEXT": context, "SLURMD_NODENAME": "n2"}
        run = await machine.gate(there.url, *argv, **env)
        assert run.code == 0
        if context == "prolog_slurmd":
            assert there.asked[0].body["nodes"] == "n2"


async def test_a_task_of_an_array_is_named_as_slurm_cancels_it(machine: Machine) -> None:
    """12_3, not the id that only its start gave it."""
    async with door(GO) as there:
        await machine.gate(there.url, SLURM_ARRAY_JOB_ID="12", SLURM_ARRAY_TASK_ID="3")
        assert there.asked[0].body["job_id"] == "12_3"


async def test_settings_come_from_the_file_beside_the_script(machine: Machine) -> None:
    """Nothing in it is run; what is not understood is said; arguments win."""
    script = machine.folder / "sunk-sync-prolog.sh"
    shutil.copy(PROLOG, script)
    async with door(NOT_YET) as there:
        (machine.folder / "sunk-sync.conf").write_text(
            f"# comment\n\nurl = {there.url}/\ntoken-file={machine.folder}/token\r\n"
            "silent = 1s=requeue\nodd = $(touch owned)\n"
        )
        env = {"SLURM_SCRIPT_CONTEXT": "prolog_slurmctld"}
        run = await machine.run(script, **env)
        assert run.code == 1
        assert "unknown setting: odd=$(touchowned)" in run.errors
        assert not (machine.folder / "owned").exists()
        assert (await machine.run(script, "--silent", "1s=pass", **env)).code == 0
        assert {asked.token for asked in there.asked} == {TOKEN}


@pytest.mark.parametrize("words", [["--busy", "soon"], ["--nonsense"], ["--silent"]])
async def test_bad_arguments_are_said_and_never_wedge(machine: Machine, words: list[str]) -> None:
    """A job still starts."""
    async with door(GO) as there:
        run = await machine.gate(there.url, *words)
        assert run.code == 0
        assert re.search("unknown argument|invalid duration", run.errors)


async def test_without_token_it_says_so_and_ends(machine: Machine) -> None:
    """And asks nobody for ever."""
    (machine.folder / "token").unlink()
    async with door((401, '{"error":"no valid token"}')) as there:
        run = await machine.gate(there.url, "--silent", "1s=pass")
        assert run.code == 0
        assert "--url is not set, or --token-file has no token" in run.errors


@pytest.mark.parametrize(("reply", "code"), [((200, '{"action":"ready"}'), 0), (NOT_YET, 1)])
async def test_check_says_whether_it_would_work(
    machine: Machine, reply: tuple[int, str], code: int
) -> None:
    """For the administrator, by hand."""
    async with door(reply) as there:
        run = await machine.gate(there.url, "--check")
        assert (run.code, run.out) == (code, f"{reply[0]} {reply[1]}\n")
        assert there.asked[0].path == "/v1/health"


@pytest.mark.parametrize("sender", SENDERS)
async def test_the_token_is_in_nobodys_arguments(tmp_path: Path, sender: str) -> None:
    """Everybody on a machine can read those."""
    machine = Machine(tmp_path, "dash", sender)
    async with door((HANG, "")) as there:
        run = asyncio.create_task(machine.gate(there.url, "--silent", "3s=pass"))
        await there.until(1)
        commands = list(_commands())
        assert any(b"/v1/gate" in one or b"/dev/tcp" in one for one in commands)
        assert not any(TOKEN.encode() in one for one in commands)
        await run


def _commands() -> Iterator[bytes]:
    """What everybody on this machine can read of every process."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            yield path.read_bytes()


@pytest.mark.parametrize("sender", SENDERS)
async def test_the_epilog_tells_of_the_end_L8(tmp_path: Path, shell: str, sender: str) -> None:
    """One call, exit 0."""
    machine = Machine(tmp_path, shell, sender)
    async with door((200, '{"action":"noted"}')) as there:
        words = ["--url", there.url, "--token-file", str(machine.folder / "token")]
        run = await machine.run(EPILOG, *words, SLURM_JOB_ID="7")
        assert (run.code, run.errors) == (0, "")
        assert (there.asked[0].path, there.asked[0].body) == ("/v1/ended", {"job_id": "7"})


async def test_the_epilog_never_waits_long_nor_fails_L8(machine: Machine) -> None:
    """Whatever we do: a failing epilog would drain nodes."""
    async with door((HANG, "")) as there:
        words = ["--url", there.url, "--token-file", str(machine.folder / "token")]
        run = await machine.run(EPILOG, *words, SLURM_JOB_ID="7")
        assert (run.code, run.seconds < 5) == (0, True)
        assert "sunk-sync does not know of its end" in run.errors


class Placeholder:
    """The batch script, running."""

    def __init__(self, machine: Machine, url: str, *, kill_wait_s: float = 30) -> None:
        self.machine = machine
        scontrol = machine.bin / "scontrol"
        scontrol.write_text(f'#!/bin/sh\necho "$*" >>{machine.folder}/scontrol.log\n')
        scontrol.chmod(0o755)
        (machine.bin / "sh").symlink_to(_real("sh"))
        self.script = machine.folder / "placeholder.sh"
        text = script_of(url=url, token="abc.123", kill_wait_s=kill_wait_s, extra="it's ours")
        self.script.write_text(text)

    async def __aenter__(self) -> asyncio.subprocess.Process:
        self.process = await asyncio.create_subprocess_exec(
            self.machine.shell,
            str(self.script),
            env=self.machine.env(SLURM_JOB_ID="12"),
            start_new_session=True,
        )
        return self.process

    async def __aexit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        await self.process.wait()


NOTED = (200, '{"action":"noted"}')
GONE = (200, '{"action":"gone"}')
DRAIN = (200, '{"action":"drain"}')


async def test_the_placeholder_says_that_it_started_P24(machine: Machine) -> None:
    """In the job's extra first, so that the look which the call brings finds it there."""
    async with door(NOTED) as there, Placeholder(machine, there.url) as process:
        await there.until(1)
        asked = there.asked[0]
        assert (asked.path, asked.body) == ("/v1/placeholder/started", {"job_id": "12"})
        assert asked.token == "abc.123"
        log = (machine.folder / "scontrol.log").read_text()
        assert log == "update job=12 extra=it's ours: started\n"
        await asyncio.sleep(0.2)
        assert process.returncode is None


async def test_the_placeholder_repeats_its_start_until_it_is_heard(machine: Machine) -> None:
    """A service that was down learns it from the call, or from the job's extra."""
    async with door(NOT_YET, DEAD, NOTED) as there, Placeholder(machine, there.url):
        await there.until(3)
        await asyncio.sleep(1)
        assert [asked.path for asked in there.asked] == ["/v1/placeholder/started"] * 3


@pytest.mark.parametrize("everybody", [True, False], ids=["all processes", "script alone"])
async def test_L6_on_TERM_it_blocks_until_the_pod_is_gone(
    machine: Machine, *, everybody: bool
) -> None:
    """It asks at once, blocks while told to, and ends with 0 when the Pods are gone."""
    replies = (NOTED, DRAIN, NOT_YET, DEAD, GONE)
    async with door(*replies) as there, Placeholder(machine, there.url) as process:
        await there.until(1)
        await asyncio.sleep(0.2)
        if everybody:
            os.killpg(process.pid, signal.SIGTERM)
        else:
            process.terminate()
        began = time.monotonic()
        await there.until(2)
        assert time.monotonic() - began < 0.5
        async with asyncio.timeout(20):
            assert await process.wait() == 0
        assert [asked.path for asked in there.asked[1:]] == ["/v1/placeholder/stopping"] * 4
        left = [asked.body["deadline_s"] for asked in there.asked[1:]]
        assert left[0] == 30
        assert left == sorted(left, reverse=True)


async def test_without_an_answer_it_blocks_until_it_is_killed_L6(machine: Machine) -> None:
    """A second TERM changes nothing: only Slurm's KILL does."""
    async with door(NOTED) as there, Placeholder(machine, there.url, kill_wait_s=3) as process:
        await there.until(1)
        there.replies = [DEAD]
        os.killpg(process.pid, signal.SIGTERM)
        await there.until(2)
        os.killpg(process.pid, signal.SIGTERM)
        await there.until(4)
        assert process.returncode is None
        assert [asked.body["deadline_s"] for asked in there.asked[1:]][-1] == 1


@pytest.mark.parametrize("shell", SHELLS)
def test_the_scripts_are_read_by_both_shells(shell: str) -> None:
    """`-n` reads without running."""
    for script in (PROLOG, EPILOG, TEMPLATE):
        assert os.spawnlp(os.P_WAIT, shell, shell, "-n", str(script)) == 0


def test_what_the_scripts_share_is_the_same_text() -> None:
    """Each is one file, so that it can be installed by a copy; the placeholder travels alone."""
    shared = []
    for script in (PROLOG, EPILOG, TEMPLATE):
        text = script.read_text(encoding="utf-8")
        shared.append(re.findall(r"# --- common.*begin\n(.*)# --- common.*end\n", text, re.DOTALL))
    assert shared[0]
    assert shared[0] == shared[1] == shared[2]


def test_what_a_script_is_made_of_cannot_become_code() -> None:
    """Values are quoted, and never looked through for places of other values."""
    text = script_of(url="http://x/$(id)", token="@URL@", kill_wait_s=30, extra="a'b; id")
    assert "url='http://x/$(id)' token=@URL@ extra='a'\"'\"'b; id' kill_wait_s=30\n" in text
