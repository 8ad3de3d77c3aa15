"""The script beside slurmctld that writes the topology file, with stand-ins for Slurm (T6, T7)."""

import asyncio
import hashlib
import json
import os
import signal
from pathlib import Path

import pytest

from tests.server.hook_machine import (
    NOT_YET,
    ROOT,
    SENDERS,
    SHELLS,
    TOKEN,
    Asked,
    HookServer,
    Machine,
    Reply,
    Run,
    hook_server,
)

SCRIPT = ROOT / "deploy" / "slurm" / "sunk-sync-topology.sh"
NEEDED = (
    "chmod", "cp", "cut", "dirname", "grep", "head", "ln", "mkdir", "mktemp", "mv", "readlink",
    "rm", "sed", "sh", "sha256sum", "sort", "tail", "true",
)  # fmt: skip
SLURMCTLD = """#!/bin/sh
case $1 in -V) echo "slurm-wlm $(cat FOLDER/version)"; exit ;; esac
here=$(dirname "$4")
log=$(sed -n 's/^SlurmctldLogFile=//p' "$4")
grep -q "^SlurmctldHost=h(127.0.0.1)" "$4" || exit 8
grep -q AuthInfo "$4" && exit 8
grep -q AccountingStorageHost "$here"/*.conf && exit 9
cat "$here"/topology.* >>FOLDER/tried
if grep -q bad "$here"/topology.*; then
    echo "[2026-11-26T10:00:00] fatal: a \\"bad\\" line" >>"$log"
    exit 1
fi
if grep -q slow "$here"/topology.*; then exec sleep 30; fi
echo "Running as primary controller" >>"$log"
exec sleep 30
"""
SCONTROL = """#!/bin/sh
case $* in
    ping) if [ -e FOLDER/up ]; then echo "Slurmctld(primary) at h is UP"; fi ;;
    reconfigure)
        echo reconfigure >>FOLDER/log
        if [ -e FOLDER/stuck ]; then exec sleep 30; fi
        if [ -e FOLDER/denied ]; then echo "Protocol authentication error"; exit 1; fi
        if grep -q deadly FOLDER/etc/topology.*; then rm -f FOLDER/up; fi ;;
    *show*) cat FOLDER/nodes ;;
esac
"""
TREE = "SwitchName=root Nodes=cpu-[0-3]\n# 4 nodes are registered: 01234567\n"
BLOCKS = "blk b1\nblk b2\n"
BASE = "- topology: blk\n  block:\n    block_sizes: [2]\n    blocks:\n    # sunk-sync blocks blk\n"
NOTHING: Reply = (200, '{"action":"nothing","why":""}')


def write(content: str) -> Reply:
    digest = hashlib.sha256(content.encode()).hexdigest()
    told = {"action": "write", "hash": digest, "content": content}
    return 200, json.dumps(told, separators=(",", ":"))


class Controller:
    """The machine of slurmctld."""

    def __init__(self, machine: Machine, version: str = "24.11.5") -> None:
        self.machine, self.folder = machine, machine.folder
        for name in NEEDED:
            machine.link(name)
        for name, text in (("slurmctld", SLURMCTLD), ("scontrol", SCONTROL)):
            machine.program(name, text)
        self.etc = self.folder / "etc"
        self.etc.mkdir()
        (self.etc / "slurm.conf").write_text(
            "ClusterName=c\nSlurmctldHost=h(10.0.0.1)\nAuthInfo=x\nAccountingStorageHost=db\n"
        )
        (self.folder / "version").write_text(version)
        (self.folder / "up").touch()
        (self.folder / "nodes").touch()
        form = "conf" if version.startswith("24") else "yaml"
        self.file = self.etc / f"topology.{form}"
        self.base = self.etc / f"topology.base.{form}"

    def argv(self, url: str, *more: str) -> list[str]:
        conf = str(self.etc / "slurm.conf")
        return [*self.machine.common(url), "--conf", conf, *more]

    async def until_reconfigured(self) -> None:
        async with asyncio.timeout(60):
            while not self.reconfigured:  # noqa: ASYNC110 -- another process writes the file
                await asyncio.sleep(0.05)

    async def once(self, server: HookServer, *more: str) -> Run:
        return await self.machine.run(SCRIPT, *self.argv(server.url, "--once", *more))

    @property
    def reconfigured(self) -> int:
        log = self.folder / "log"
        return len(log.read_text().splitlines()) if log.exists() else 0

    @property
    def tried(self) -> str:
        path = self.folder / "tried"
        return path.read_text() if path.exists() else ""

    def left(self) -> set[str]:
        """Return the names of files that must not stay."""
        return {one.name for one in self.etc.iterdir() if one.name.endswith((".new", ".old"))}


@pytest.fixture
def controller(tmp_path: Path) -> Controller:
    return Controller(Machine(tmp_path, "dash", "curl"))


@pytest.fixture
def blocky(tmp_path: Path) -> Controller:
    made = Controller(Machine(tmp_path, "bash", "curl"), version="26.05.5")
    made.base.write_text(BASE)
    return made


@pytest.mark.parametrize("sender", SENDERS)
async def test_the_topology_script_runs_nothing_of_its_directory_and_environment(
    tmp_path: Path, sender: str
) -> None:
    machine = Machine(tmp_path, "dash", sender)
    hit = machine.turn_hostile()
    controller = Controller(machine)
    async with hook_server(write(TREE), NOTHING) as server:
        run = await controller.once(server)
    assert (run.code, run.errors.count("written, and read")) == (0, 1)
    assert not hit.exists()


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("sender", SENDERS)
async def test_the_file_is_tried_moved_in_place_and_read_once_T6(
    tmp_path: Path, shell: str, sender: str
) -> None:
    controller = Controller(Machine(tmp_path, shell, sender))
    controller.base.write_text("SwitchName=top Switches=root,theirs")
    async with hook_server(write(TREE), NOTHING) as server:
        run = await controller.once(server)
        assert (run.code, run.errors.count("written, and read")) == (0, 1)
        text = controller.file.read_text()
        assert text.splitlines()[1:] == [
            "SwitchName=top Switches=root,theirs",
            "SwitchName=root Nodes=cpu-[0-3]",
            "# 4 nodes are registered: 01234567",
        ]
        assert text in controller.tried
        first, second = server.asked
        assert (first.method, first.path, first.token) == ("POST", "/v1/topology", TOKEN)
        assert first.body == {"format": "conf", "applied": "", "refused": "", "why": ""}
        assert second.body["applied"] == hashlib.sha256(TREE.encode()).hexdigest()
        written = controller.file.stat().st_mtime_ns
        for _ in range(2):
            assert (await controller.once(server)).code == 0
        assert controller.file.stat().st_mtime_ns == written
        assert (controller.reconfigured, controller.left()) == (1, set())


async def test_a_refused_file_is_not_moved_in_place_and_slurmctld_says_why_T6(
    controller: Controller,
) -> None:
    controller.file.write_text("# Made by sunk-sync-topology.sh\nSwitchName=s Nodes=n\n")
    controller.base.write_text("bad\n")
    async with hook_server(write(TREE)) as server:
        run = await controller.once(server)
        assert "SwitchName=s" in controller.file.read_text()
        assert controller.reconfigured == 0
        assert "refused: fatal: a" in run.errors
        told = server.asked[-1].body
        assert told["refused"] == hashlib.sha256(TREE.encode()).hexdigest()
        assert told["why"].strip() == "fatal: a  bad  line"
        controller.base.write_text("good\n")
        server.replies = [write(TREE), NOTHING]
        await controller.once(server)
        assert "good" in controller.file.read_text()


async def test_a_trial_without_a_word_counts_as_refused_T6(controller: Controller) -> None:
    controller.base.write_text("slow\n")
    async with hook_server(write(TREE)) as server:
        run = await controller.once(server)
        assert not controller.file.exists()
        assert "neither accepts nor refuses" in run.errors


async def test_if_slurmctld_ends_the_last_file_is_back_and_is_not_tried_again_T6(
    controller: Controller,
) -> None:
    good = "# Made by sunk-sync-topology.sh\nSwitchName=s Nodes=n\n"
    controller.file.write_text(good)
    controller.base.write_text("deadly\n")
    async with hook_server(write(TREE)) as server:
        await controller.once(server, "--pause", "0s")
        assert controller.file.read_text() == good
        assert "slurmctld ended at the reconfigure" in server.asked[-1].body["why"]
        (controller.folder / "up").touch()
        for _ in range(2):
            await controller.once(server, "--pause", "0s")
        assert controller.reconfigured == 1
        assert (controller.file.read_text(), controller.left()) == (
            good,
            {"topology.sunk-sync.new"},
        )


async def test_a_reconfigure_that_fails_is_told_and_the_last_file_is_back_T6(
    controller: Controller,
) -> None:
    (controller.folder / "denied").touch()
    async with hook_server(write(TREE)) as server:
        await controller.once(server)
        assert not controller.file.exists()
        assert server.asked[-1].body["why"].endswith("Protocol authentication error")
        (controller.folder / "denied").unlink()
        server.replies = [write(TREE), NOTHING]
        await controller.once(server, "--pause", "0s")
        assert controller.file.exists()


async def test_at_most_one_reconfigure_in_half_a_minute_T6(controller: Controller) -> None:
    async with hook_server(write(TREE), NOTHING, write(TREE + "#\n"), NOTHING) as server:
        for _ in range(3):
            await controller.once(server)
        assert controller.reconfigured == 1
        for later_s, reconfigured in ((29, 1), (1, 2)):
            controller.machine.wait(later_s)
            server.replies = [write(TREE + "#\n"), NOTHING]
            await controller.once(server)
            assert controller.reconfigured == reconfigured


async def test_killed_in_the_middle_the_next_pass_completes_it_T6(controller: Controller) -> None:
    (controller.folder / "stuck").touch()
    async with hook_server(write(TREE)) as server:
        process = await asyncio.create_subprocess_exec(
            controller.machine.shell,
            controller.machine.install(SCRIPT),
            *controller.argv(server.url, "--once"),
            env=controller.machine.env(),
            start_new_session=True,
        )
        await controller.until_reconfigured()
        os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        (controller.folder / "stuck").unlink()
        server.replies = [write(TREE), NOTHING]
        await controller.once(server, "--pause", "0s")
        assert server.asked[-2].body["applied"] == ""
        assert server.asked[-1].body["applied"]
        assert (controller.reconfigured, controller.left()) == (2, set())


async def test_killed_while_slurmctld_ended_the_next_pass_puts_the_last_file_back_T6(
    controller: Controller,
) -> None:
    controller.file.write_text("deadly\n")
    (controller.etc / "topology.sunk-sync.old").write_text("good\n")
    (controller.folder / "up").unlink()
    async with hook_server(NOTHING) as server:
        run = await controller.once(server)
        assert controller.file.read_text() == "good\n"
        assert "the last topology file is back" in run.errors


async def test_a_file_of_the_administrator_is_not_overwritten_T6(controller: Controller) -> None:
    controller.file.write_text("SwitchName=theirs Nodes=n1\n")
    async with hook_server(write(TREE)) as server:
        run = await controller.once(server)
        assert controller.file.read_text() == "SwitchName=theirs Nodes=n1\n"
        assert f"copy it to {controller.base}" in run.errors


async def test_an_edit_of_base_or_file_is_noticed_T6(controller: Controller) -> None:
    async with hook_server(write(TREE), NOTHING) as server:
        await controller.once(server)
        controller.base.write_text("SwitchName=top Switches=root\n")
        server.replies = [write(TREE), NOTHING]
        await controller.once(server, "--pause", "0s")
        assert "SwitchName=top" in controller.file.read_text()
        controller.file.write_text("")
        server.replies = [write(TREE), NOTHING]
        await controller.once(server, "--pause", "0s")
        assert "SwitchName=top" in controller.file.read_text()


async def test_a_damaged_answer_changes_nothing_T7(controller: Controller) -> None:
    async with hook_server((200, write(TREE)[1].replace("cpu", "gpu"))) as server:
        run = await controller.once(server)
        assert run.code == 1
        assert not controller.file.exists()


@pytest.mark.parametrize("reply", [NOT_YET, (0, ""), (401, '{"error":"no"}')])
async def test_without_an_answer_nothing_changes_T7(controller: Controller, reply: Reply) -> None:
    async with hook_server(reply) as server:
        run = await controller.once(server)
        assert (run.code, controller.file.exists()) == (1, False)
        assert run.errors.count("no answer from") == 1


async def test_blocks_go_below_the_marked_line_T6(blocky: Controller) -> None:
    async with hook_server(write(BLOCKS), NOTHING) as server:
        run = await blocky.once(server)
        assert "written" in run.errors
        lines = blocky.file.read_text().splitlines()
        assert lines[-3:] == [
            "    # sunk-sync blocks blk", '    - block: "b1"', '    - block: "b2"',
        ]  # fmt: skip
        assert server.asked[0].body["format"] == "yaml"


async def test_without_a_marked_line_the_script_says_what_is_missing_T6(blocky: Controller) -> None:
    blocky.base.write_text(BASE.replace("blocks blk", "blocks other"))
    async with hook_server(write(BLOCKS)) as server:
        run = await blocky.once(server)
        assert "has no line '# sunk-sync blocks blk'" in run.errors
        assert not blocky.file.exists()


async def test_a_block_that_any_node_names_never_leaves_the_file_T7(blocky: Controller) -> None:
    async with hook_server(write(BLOCKS), NOTHING) as server:
        await blocky.once(server)
        (blocky.folder / "nodes").write_text("NodeName=n1 Topology=tree:root:s,blk:b1 X=y\n")
        server.replies = [write("blk b2\n"), NOTHING]
        await blocky.once(server, "--pause", "0s")
        assert '"b1"' in blocky.file.read_text()
        assert blocky.reconfigured == 2
        (blocky.folder / "nodes").write_text("NodeName=n1 A=b Topology=blk:b10 X=y\n")
        server.replies = [write("blk b2\nblk b3\n"), NOTHING]
        await blocky.once(server, "--pause", "0s")
        assert '"b1"' not in blocky.file.read_text()


async def test_ten_thousand_nodes_fit_into_one_answer_T6(controller: Controller) -> None:
    lines = [f"SwitchName=leaf-{n} Nodes=gpu-rack{n}-[0-9],x{n}-{'y' * 60}" for n in range(4000)]
    content = "\n".join(lines) + "\n"
    async with hook_server(write(content), NOTHING) as server:
        await controller.once(server)
        assert controller.file.read_text().endswith(content)


async def test_a_link_is_followed_T6(controller: Controller) -> None:
    target = controller.folder / "writable"
    target.mkdir()
    controller.file.symlink_to(target / "topology.conf")
    async with hook_server(write(TREE), NOTHING) as server:
        await controller.once(server)
        assert controller.file.is_symlink()
        assert controller.file.read_text().endswith(TREE)
        assert {one.name for one in target.iterdir()} == {
            "topology.conf", "topology.sunk-sync", "topology.sunk-sync.last",
            "topology.sunk-sync.part",
        }  # fmt: skip


async def test_it_stops_at_once_while_it_pauses(controller: Controller) -> None:
    async with hook_server(NOTHING) as server:
        process = await asyncio.create_subprocess_exec(
            controller.machine.shell,
            controller.machine.install(SCRIPT),
            *controller.argv(server.url, "--poll", "60s"),
            env=controller.machine.env(),
        )
        await controller.machine.until_it_pauses()
        process.terminate()
        async with asyncio.timeout(30):
            assert await process.wait() == 0


async def test_it_calls_again_after_each_pause_T6(controller: Controller) -> None:
    async with hook_server(NOT_YET, NOTHING) as server:
        process = await asyncio.create_subprocess_exec(
            controller.machine.shell,
            controller.machine.install(SCRIPT),
            *controller.argv(server.url, "--poll", "1s"),
            env=controller.machine.env(),
            start_new_session=True,
        )
        await server.until(3)
        os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        assert [type(one) for one in server.asked[:3]] == [Asked] * 3


async def test_settings_are_read_from_the_file_of_the_other_scripts(controller: Controller) -> None:
    conf = controller.folder / "sunk-sync.conf"
    async with hook_server(NOTHING) as server:
        conf.write_text(
            f"url = {server.url}\ntoken-file = {controller.folder}/token\nbusy = 3s\n"
            f"topology-conf = {controller.etc}/slurm.conf\ntopology-odd = $(id)\n"
        )
        env = {"SUNK_SYNC_HOOKS_CONF": str(conf)}
        run = await controller.machine.run(SCRIPT, "--once", **env)
        assert (run.code, len(server.asked)) == (0, 1)
        assert "unknown setting: topology-odd=$(id)" in run.errors
        run = await controller.machine.run(SCRIPT, "--check", **env)
        assert server.asked[-1].path == "/v1/health"
