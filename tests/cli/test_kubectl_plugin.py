"""`kubectl sunk` against a kubectl that a test writes: which Pod it asks, and with which words."""

import os
import subprocess
from pathlib import Path

import pytest

PLUGIN = Path(__file__).parents[2] / "deploy" / "kubectl" / "kubectl-sunk"
FAKE = """#!/bin/sh
printf '%s\\n' "$*" >>"$CALLS"
case $* in
*exec*) exit 3 ;;
*deployments*) printf "$NAMESPACES" ;;
*leases*) printf "$HOLDERS" ;;
*pods*) printf "$PODS" ;;
esac
"""


class Run:
    def __init__(self, folder: Path, *words: str, **answers: str) -> None:
        kubectl, calls = folder / "kubectl", folder / "calls"
        kubectl.write_text(FAKE)
        kubectl.chmod(0o755)
        calls.touch()
        shown = {"NAMESPACES": "slurm\\n", "HOLDERS": "sunk-sync-abc_1f\\n", "PODS": "", **answers}
        path = f"{folder}:{os.environ['PATH']}"
        done = subprocess.run(
            [str(PLUGIN), *words],
            env={"PATH": path, "CALLS": str(calls), **shown},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        self.code, self.error = done.returncode, done.stderr
        self.calls = calls.read_text().splitlines()


def test_the_leader_is_asked_in_the_only_namespace_and_its_exit_code_is_kept(
    tmp_path: Path,
) -> None:
    run = Run(tmp_path, "explain", "pod", "a/b", "--json")
    assert run.code == 3
    command = "-n slurm exec sunk-sync-abc -- sunk-sync explain pod a/b --json"
    assert run.calls[-1] == command


def test_namespace_and_context_of_the_caller_are_used_for_each_call(tmp_path: Path) -> None:
    run = Run(tmp_path, "-n", "x", "--context", "c", "--kubeconfig", "/k", "doctor")
    assert all(call.startswith("--context c --kubeconfig /k -n x ") for call in run.calls)
    assert run.calls[-1].endswith("exec sunk-sync-abc -- sunk-sync doctor")


def test_without_an_election_the_running_pod_is_asked(tmp_path: Path) -> None:
    run = Run(tmp_path, "doctor", HOLDERS="", PODS="sunk-sync-1")
    assert run.calls[-1] == "-n slurm exec sunk-sync-1 -- sunk-sync doctor"


@pytest.mark.parametrize(
    ("words", "answers", "said"),
    [
        ([], {}, "usage: kubectl sunk"),
        (["--bad", "doctor"], {}, "usage: kubectl sunk"),
        (["-n"], {}, "usage: kubectl sunk"),
        (["doctor"], {"NAMESPACES": ""}, "no Deployment of sunk-sync in any namespace"),
        (["doctor"], {"NAMESPACES": "a\\nb\\n"}, "in several namespaces, choose with -n: a b"),
        (["doctor"], {"HOLDERS": ""}, "no Pod of sunk-sync runs in namespace slurm"),
    ],
)
def test_what_cannot_be_asked_is_exit_code_2_and_a_sentence(
    tmp_path: Path, words: list[str], answers: dict[str, str], said: str
) -> None:
    run = Run(tmp_path, *words, **answers)
    assert run.code == 2
    assert said in run.error
