"""The shell scripts against a small server whose answers a test writes: every branch of L9.

With dash and bash as the shell, and with each of the three HTTP clients.
"""

import asyncio
import contextlib
import os
import re
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from sunk_sync.server.placeholder import script_of
from tests.server.hook_machine import (
    EPILOG,
    HANG,
    LOCK,
    NOT_YET,
    PROLOG,
    ROOT,
    SENDERS,
    SHELLS,
    TOKEN,
    Machine,
    Reply,
    hook_server,
)

TEMPLATE = ROOT / "sunk_sync" / "server" / "placeholder.sh"


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def refusing() -> Iterator[str]:
    """Yield the URL of a port where nobody listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{held.getsockname()[1]}"


@pytest.fixture
def machine(tmp_path: Path, shell: str) -> Machine:
    return Machine(tmp_path, shell, "curl")


GO = (200, '{"action":"go"}')
WAIT = (200, '{"action":"wait","pods":["Pod ns/a ends"]}')
REQUEUE = (200, '{"action":"requeue","pods":["Pod ns/a ends"]}')
DEAD = (0, "")
NOTED = (200, '{"action":"noted"}')
GONE = (200, '{"action":"gone"}')
DRAIN = (200, '{"action":"drain"}')


@pytest.mark.parametrize("sender", SENDERS)
async def test_the_prolog_needs_one_call(tmp_path: Path, shell: str, sender: str) -> None:
    async with hook_server(GO) as server:
        run = await Machine(tmp_path, shell, sender).gate(server.url)
        assert (run.code, run.errors) == (0, "")
        (asked,) = server.asked
        assert (asked.method, asked.path, asked.token) == ("POST", "/v1/gate", TOKEN)
        body = {"job_id": "7", "nodes": "n[1-2]", "deadline_s": 55, "then": "ask"}
        assert asked.body == body


@pytest.mark.parametrize("sender", SENDERS)
@pytest.mark.parametrize("bad", [NOT_YET, DEAD, (200, "garbage"), (401, '{"error":"no"}')])
async def test_after_a_failed_call_the_prolog_calls_again_a_second_later_L9(
    tmp_path: Path, sender: str, bad: Reply
) -> None:
    async with hook_server(bad, GO) as server:
        run = await Machine(tmp_path, "dash", sender).gate(server.url)
        assert run.code == 0
        assert len(server.asked) == 2
        assert run.seconds == 1
        assert run.errors.count("no answer from") == 1


async def test_a_service_that_refuses_delays_a_job_by_silent_L9(machine: Machine) -> None:
    async with hook_server(NOT_YET) as server:
        run = await machine.gate(server.url, "--silent", "20s=pass")
        assert (run.code, run.seconds, len(server.asked)) == (0, 20, 20)
        assert "no answer for 20 s" in run.errors


@pytest.mark.parametrize("sender", SENDERS)
async def test_a_service_that_hangs_delays_a_job_by_silent_L9(tmp_path: Path, sender: str) -> None:
    machine = Machine(tmp_path, "dash", sender)
    machine.live_in_real_time()
    async with hook_server((HANG, "")) as server:
        run = await machine.gate(server.url, "--silent", "2s=pass")
        assert (run.code, run.seconds >= 1, len(server.asked) <= 2) == (0, True, True)
        assert "no answer for 2 s" in run.errors


@pytest.mark.parametrize(("silent", "code"), [("1s=pass", 0), ("1s=requeue", 1), ("1s", 0)])
async def test_silent_passes_or_requeues_a_job_L9(machine: Machine, silent: str, code: int) -> None:
    async with hook_server(NOT_YET) as server:
        assert (await machine.gate(server.url, "--silent", silent)).code == code


async def test_refused_connections_count_as_silence_L9(machine: Machine, refusing: str) -> None:
    run = await machine.gate(refusing, "--silent", "2s=pass")
    assert (run.code, run.seconds) == (0, 2)


async def test_a_job_that_cannot_be_requeued_starts_after_busy_max_L9(machine: Machine) -> None:
    async with hook_server(WAIT) as server:
        run = await machine.gate(server.url, "--busy", "1s", "--busy-max", "2s")
        assert run.code == 0
        assert [asked.body["then"] for asked in server.asked] == ["requeue", "pass"]
        assert run.seconds == 2
        assert "busy for 2 s: started although" in run.errors
        assert "Pod ns/a ends" in run.errors


async def test_a_requeueable_job_is_requeued_after_busy_L9(machine: Machine) -> None:
    async with hook_server(REQUEUE) as server:
        run = await machine.gate(server.url, "--busy", "1s")
        assert run.code == 1
        assert "requeued" in run.errors


async def test_a_requeue_before_the_end_of_busy_counts_as_wait_L9(machine: Machine) -> None:
    async with hook_server(REQUEUE, GO) as server:
        run = await machine.gate(server.url)
        assert (run.code, len(server.asked)) == (0, 2)


@pytest.mark.parametrize("context", ["prolog_slurmd", "", "epilog_slurmd"])
@pytest.mark.parametrize("reply", [REQUEUE, NOT_YET])
async def test_the_prolog_of_a_node_always_exits_with_0_L9(
    machine: Machine, context: str, reply: Reply
) -> None:
    """Another exit code would drain the node."""
    async with hook_server(reply) as server:
        argv = ["--busy", "1s", "--busy-max", "3s", "--silent", "1s=requeue"]
        env = {"SLURM_SCRIPT_CONTEXT": context, "SLURMD_NODENAME": "n2"}
        run = await machine.gate(server.url, *argv, **env)
        assert run.code == 0
        if context == "prolog_slurmd":
            assert server.asked[0].body["nodes"] == "n2"


async def test_a_task_of_an_array_is_named_by_array_and_task(machine: Machine) -> None:
    """12_3, not the id that the task got when it started."""
    async with hook_server(GO) as server:
        await machine.gate(server.url, SLURM_ARRAY_JOB_ID="12", SLURM_ARRAY_TASK_ID="3")
        assert server.asked[0].body["job_id"] == "12_3"


async def test_settings_are_read_from_a_file_and_never_run(machine: Machine) -> None:
    async with hook_server(NOT_YET) as server:
        (machine.folder / "sunk-sync.conf").write_text(
            f"# comment\n\nurl = {server.url}/\ntoken-file={machine.folder}/token\r\n"
            "silent = 1s=requeue\nodd = $(touch owned)\n"
        )
        env = {"SLURM_SCRIPT_CONTEXT": "prolog_slurmctld"}
        run = await machine.run(PROLOG, **env)
        assert run.code == 1
        assert "unknown setting: odd=$(touchowned)" in run.errors
        assert not (machine.folder / "owned").exists()
        assert (await machine.run(PROLOG, "--silent", "1s=pass", **env)).code == 0
        assert {asked.token for asked in server.asked} == {TOKEN}


@pytest.mark.parametrize("words", [["--busy", "soon"], ["--nonsense"], ["--silent"]])
async def test_the_job_starts_despite_a_bad_argument(machine: Machine, words: list[str]) -> None:
    async with hook_server(GO) as server:
        run = await machine.gate(server.url, *words)
        assert run.code == 0
        assert re.search("unknown argument|invalid duration", run.errors)


async def test_a_missing_token_is_reported_and_the_job_starts(machine: Machine) -> None:
    (machine.folder / "token").unlink()
    async with hook_server((401, '{"error":"no valid token"}')) as server:
        run = await machine.gate(server.url, "--silent", "1s=pass")
        assert run.code == 0
        assert "--url is not set, or --token-file has no token" in run.errors


@pytest.mark.parametrize(("reply", "code"), [((200, '{"action":"ready"}'), 0), (NOT_YET, 1)])
async def test_check_prints_the_health(machine: Machine, reply: Reply, code: int) -> None:
    async with hook_server(reply) as server:
        run = await machine.gate(server.url, "--check")
        assert (run.code, run.out) == (code, f"{reply[0]} {reply[1]}\n")
        assert server.asked[0].path == "/v1/health"


@pytest.mark.parametrize("sender", SENDERS)
async def test_the_token_is_in_the_arguments_of_no_process(tmp_path: Path, sender: str) -> None:
    machine = Machine(tmp_path, "dash", sender)
    async with hook_server((HANG, "")) as server:
        run = asyncio.create_task(machine.gate(server.url, "--silent", "1s=pass"))
        await server.until(1)
        commands = list(_commands())
        assert any(b"/v1/gate" in one or b"/dev/tcp" in one for one in commands)
        assert not any(TOKEN.encode() in one for one in commands)
        await run


def _commands() -> Iterator[bytes]:
    """Yield the command line of every process, which all users can read."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            yield path.read_bytes()


@pytest.mark.parametrize("sender", SENDERS)
async def test_the_lock_needs_one_call_L1(tmp_path: Path, shell: str, sender: str) -> None:
    async with hook_server(GO) as server:
        run = await Machine(tmp_path, shell, sender).lock(server.url)
        assert (run.code, run.errors) == (0, "")
        (asked,) = server.asked
        assert (asked.method, asked.path, asked.token) == ("POST", "/v1/lock", TOKEN)
        assert asked.body == {
            "job_id": "7",
            "node": "n2",
            "nodes": "n[1-2]",
            "level": "auto",
            "waited_s": 0,
            "deadline_s": 15,
        }


async def test_the_lock_asks_again_after_wait_and_says_since_when_L1(machine: Machine) -> None:
    async with hook_server(WAIT, WAIT, GO) as server:
        run = await machine.lock(server.url, "--level", "strict")
        assert (run.code, run.errors) == (0, "")
        assert [asked.body["waited_s"] for asked in server.asked] == [0, 1, 2]
        assert {asked.body["level"] for asked in server.asked} == {"strict"}


UNLOCKED = (200, '{"action":"go","pods":["Pods ns/a live there"]}')


@pytest.mark.parametrize("reply", [UNLOCKED, NOT_YET, DEAD, WAIT, (401, '{"error":"no"}')])
@pytest.mark.parametrize(("unlocked", "code"), [("start", 0), ("drain", 1)])
async def test_without_the_lock_the_job_starts_unless_drain_is_asked_for_L4a(
    machine: Machine, reply: Reply, unlocked: str, code: int
) -> None:
    async with hook_server(reply) as server:
        argv = ["--silent", "2s", "--max", "3s", "--unlocked", unlocked]
        run = await machine.lock(server.url, *argv)
        assert run.code == code
        assert run.seconds == {UNLOCKED: 0, WAIT: 3}.get(reply, 2)
        assert ("drained" if code else "started without the lock") in run.errors


async def test_a_hook_that_hangs_delays_a_job_by_silent_L4a(tmp_path: Path) -> None:
    machine = Machine(tmp_path, "dash", "curl")
    machine.live_in_real_time()
    async with hook_server((HANG, "")) as server:
        run = await machine.lock(server.url, "--silent", "2s")
        assert (run.code, run.seconds >= 1, len(server.asked) <= 2) == (0, True, True)


async def test_a_hook_that_nobody_answers_starts_the_job_L4a(
    machine: Machine, refusing: str
) -> None:
    run = await machine.lock(refusing, "--silent", "2s")
    assert (run.code, run.seconds) == (0, 2)
    assert "no answer for 2 s: started without the lock" in run.errors


async def test_the_lock_reads_its_settings_beside_those_of_the_gate_L1(machine: Machine) -> None:
    async with hook_server(NOT_YET, NOT_YET, GO) as server:
        (machine.folder / "sunk-sync.conf").write_text(
            f"url = {server.url}/\ntoken-file = {machine.folder}/none\nbusy = 1s\n"
            f"lock-token-file = {machine.folder}/token\nlock-silent = 1s\nlock-odd = $(id)\n"
            "lock-unlocked = drain\n"
        )
        run = await machine.run(LOCK, SLURMD_NODENAME="n2")
        assert run.code == 1
        assert "unknown setting: lock-odd=$(id)" in run.errors
        assert {asked.token for asked in server.asked} == {TOKEN}
        env = {"SLURM_SCRIPT_CONTEXT": "prolog_slurmctld"}
        run = await machine.run(PROLOG, "--silent", "3s", **env)
        assert "unknown setting" not in run.errors


@pytest.mark.parametrize("words", [["--level", "odd"], ["--nonsense"], ["--max", "soon"]])
async def test_the_job_starts_with_the_lock_despite_a_bad_argument_L4a(
    machine: Machine, words: list[str]
) -> None:
    async with hook_server(GO) as server:
        run = await machine.lock(server.url, *words)
        assert (run.code, len(server.asked)) == (0, 1)
        assert re.search("unknown argument|invalid", run.errors)


@pytest.mark.parametrize("sender", SENDERS)
async def test_the_epilog_reports_the_end_once_L8(tmp_path: Path, shell: str, sender: str) -> None:
    async with hook_server(NOTED) as server:
        run = await Machine(tmp_path, shell, sender).epilog(server.url)
        assert (run.code, run.errors) == (0, "")
        assert (server.asked[0].path, server.asked[0].body) == ("/v1/ended", {"job_id": "7"})


async def test_the_epilog_of_a_hook_that_hangs_exits_with_0_L8(tmp_path: Path) -> None:
    """A failing epilog would drain nodes."""
    machine = Machine(tmp_path, "dash", "curl")
    machine.live_in_real_time()
    async with hook_server((HANG, "")) as server:
        run = await machine.epilog(server.url)
        assert (run.code, len(server.asked)) == (0, 1)
        assert "sunk-sync does not know of its end" in run.errors


class Placeholder:
    """The batch script, running."""

    def __init__(self, machine: Machine, url: str, *, kill_wait_s: float = 30) -> None:
        self.machine = machine
        machine.program("scontrol", '#!/bin/sh\necho "$*" >>FOLDER/scontrol.log\n')
        machine.link("sh")
        script = machine.folder / "placeholder.sh"
        text = script_of(url=url, token="abc.123", kill_wait_s=kill_wait_s, extra="it's ours")
        script.write_text(text)
        self.script = machine.install(script)

    async def __aenter__(self) -> asyncio.subprocess.Process:
        self.process = await asyncio.create_subprocess_exec(
            self.machine.shell,
            self.script,
            env=self.machine.env(SLURM_JOB_ID="12"),
            cwd=self.machine.directory,
            start_new_session=True,
        )
        return self.process

    async def __aexit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        await self.process.wait()


@pytest.mark.parametrize("sender", SENDERS)
async def test_the_placeholder_runs_nothing_of_its_directory_and_environment(
    tmp_path: Path, sender: str
) -> None:
    """A user chooses the directory, and the script may be root's."""
    machine = Machine(tmp_path, "dash", sender)
    hit = machine.turn_hostile()
    async with hook_server(NOTED) as server, Placeholder(machine, server.url) as process:
        await server.until(1)
        directory = os.readlink(f"/proc/{process.pid}/cwd")
    assert (server.asked[0].path, directory) == ("/v1/placeholder/started", "/")
    assert not hit.exists()


@pytest.mark.parametrize("sender", SENDERS)
async def test_prolog_epilog_and_lock_run_nothing_of_their_directory_and_environment(
    tmp_path: Path, sender: str
) -> None:
    machine = Machine(tmp_path, "dash", sender)
    hit = machine.turn_hostile()
    async with hook_server(GO) as server:
        runs = [await machine.gate(server.url), await machine.lock(server.url)]
        runs.append(await machine.epilog(server.url))
        assert [(run.code, run.errors) for run in runs[:2]] == [(0, "")] * 2
        assert len(server.asked) >= 3
    assert not hit.exists()


async def test_the_placeholder_writes_extra_before_its_call_P24(machine: Machine) -> None:
    """The call leads to a read of the job, which must find it in `extra`."""
    async with hook_server(NOTED) as server, Placeholder(machine, server.url) as process:
        await server.until(1)
        asked = server.asked[0]
        assert (asked.path, asked.body) == ("/v1/placeholder/started", {"job_id": "12"})
        assert asked.token == "abc.123"
        log = (machine.folder / "scontrol.log").read_text()
        assert log == "update job=12 extra=it's ours: started\n"
        await asyncio.sleep(0.2)
        assert process.returncode is None


async def test_the_placeholder_repeats_its_call_until_an_answer(machine: Machine) -> None:
    async with hook_server(NOT_YET, DEAD, NOTED) as server, Placeholder(machine, server.url):
        await server.until(3)
        await asyncio.sleep(0.2)
        assert [asked.path for asked in server.asked] == ["/v1/placeholder/started"] * 3


@pytest.mark.parametrize("everybody", [True, False], ids=["all processes", "script alone"])
async def test_on_TERM_it_blocks_for_its_pods_L6(machine: Machine, *, everybody: bool) -> None:
    replies = (NOTED, DRAIN, NOT_YET, DEAD, GONE)
    async with hook_server(*replies) as server, Placeholder(machine, server.url) as process:
        await server.until(1)
        if everybody:
            os.killpg(process.pid, signal.SIGTERM)
        else:
            process.terminate()
        async with asyncio.timeout(60):
            assert await process.wait() == 0
        assert [asked.path for asked in server.asked[1:]] == ["/v1/placeholder/stopping"] * 4
        left = [asked.body["deadline_s"] for asked in server.asked[1:]]
        assert left == [30, 29, 28, 27]


@pytest.mark.parametrize("everybody", [True, False], ids=["all processes", "script alone"])
@pytest.mark.parametrize("name", ["HUP", "INT", "QUIT", "USR1", "USR2", "ALRM", "TSTP", "XCPU"])
async def test_a_signal_is_not_the_end_of_the_placeholder_L6(
    machine: Machine, name: str, *, everybody: bool
) -> None:
    """`scancel --signal=USR1 --batch` or `--full`, by a habit from other jobs."""
    number = signal.Signals[f"SIG{name}"]
    async with (
        hook_server(NOT_YET, NOTED, GONE) as server,
        Placeholder(machine, server.url) as process,
    ):
        await server.until(1)
        for _ in range(2):
            if everybody:
                os.killpg(process.pid, number)
            else:
                process.send_signal(number)
            await asyncio.sleep(0.1)
        await server.until(2)
        process.terminate()
        async with asyncio.timeout(60):
            assert await process.wait() == 0
        asked = [one.path.rpartition("/")[2] for one in server.asked]
        assert asked == ["started", "started", "stopping"]


async def test_without_an_answer_the_placeholder_blocks_until_KILL_L6(machine: Machine) -> None:
    async with (
        hook_server(NOTED) as server,
        Placeholder(machine, server.url, kill_wait_s=3) as process,
    ):
        await server.until(1)
        server.replies = [DEAD]
        os.killpg(process.pid, signal.SIGTERM)
        await server.until(2)
        os.killpg(process.pid, signal.SIGTERM)
        await server.until(4)
        assert process.returncode is None
        assert [asked.body["deadline_s"] for asked in server.asked[1:]][-1] == 1


@pytest.mark.parametrize("shell", SHELLS)
def test_both_shells_parse_the_scripts(shell: str) -> None:
    for script in (PROLOG, EPILOG, TEMPLATE):
        assert os.spawnlp(os.P_WAIT, shell, shell, "-n", str(script)) == 0


def test_the_common_part_of_the_scripts_is_equal() -> None:
    """Each script is one file, so that a copy installs it."""
    common = re.compile(r"# --- common.*begin\n(.*)# --- common.*end\n", re.DOTALL)
    texts = [script.read_text(encoding="utf-8") for script in (PROLOG, EPILOG, TEMPLATE)]
    prolog, epilog, placeholder = (common.findall(text) for text in texts)
    assert prolog
    assert prolog == epilog == placeholder


def test_values_in_a_script_are_quoted_and_not_expanded() -> None:
    text = script_of(url="http://x/$(id)", token="@URL@", kill_wait_s=30, extra="a'b; id")
    assert "url='http://x/$(id)' token=@URL@ extra='a'\"'\"'b; id' kill_wait_s=30\n" in text
