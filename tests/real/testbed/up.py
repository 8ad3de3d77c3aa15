"""One test bed for manual use, until Ctrl-C."""

import shlex
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from rich.console import Console

from tests.real.testbed.bed import Bed
from tests.real.testbed.errors import CannotRunError
from tests.real.testbed.requirements import why_not
from tests.real.testbed.slurm_conf import SlurmConf

SLURM_COMMANDS = ("sinfo", "scontrol", "squeue", "sbatch", "srun", "scancel")
TOKEN_LIFESPAN_S = 7 * 86400


def up(*, slurm: str, kube: str, hosts: int) -> None:
    """Start it, print how to reach it, wait for Ctrl-C (or SIGTERM), clean up."""
    if reason := why_not(kube=kube, slurm=slurm):
        raise CannotRunError(reason)
    for end in (signal.SIGTERM, signal.SIGINT):  # a shell starts background jobs without SIGINT
        signal.signal(end, _interrupt)
    console = Console(highlight=False, soft_wrap=True)
    start_s = time.monotonic()
    console.print(f"Starting Kubernetes {kube} and Slurm {slurm} …")
    with console.status("waiting for both to be ready"):
        bed = Bed.start(slurm=slurm, kube=kube, conf=SlurmConf(slurmds=hosts))
    with bed:
        console.print(f"Ready after {time.monotonic() - start_s:.1f} s.\n")
        console.print(how_to_reach(bed), markup=False)
        console.print("\nCtrl-C ends it and removes everything.")
        try:
            signal.pause()
        except KeyboardInterrupt:
            console.print("\nCleaning up …")
    console.print("Everything is removed.")


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def how_to_reach(bed: Bed) -> str:
    """Write the token file and the commands; return a text that names them."""
    directory = bed.kube.directory
    token = directory / "slurm.token"
    token.write_text(bed.slurm.token(TOKEN_LIFESPAN_S))
    commands = write_commands(bed, directory / "bin")
    names = bed.slurm.conf.names
    ping = f"{bed.slurm.url}/slurm/{bed.slurm.api_version}/ping/"
    lines = {
        "kubeconfig (admin)": bed.kube.admin_kubeconfig,
        "Kubernetes API": bed.kube.url,
        "slurmrestd": f"{bed.slurm.url} ({bed.slurm.api_version})",
        "Slurm token (root)": token,
        "commands": f"{commands} (kubectl, {', '.join(SLURM_COMMANDS)})",
        "hosts": f"{names[0]}..{names[-1]}: a Node, a slurmd Pod and a Slurm node each",
        "logs": f"{directory}/*.log, {bed.slurm.directory}/*.log",
    }
    width = max(map(len, lines))
    return "\n".join(
        [
            *(f"  {name:<{width}}  {value}" for name, value in lines.items()),
            "\nTry, in another terminal:\n",
            f"  export PATH={commands}:$PATH KUBECONFIG={bed.kube.admin_kubeconfig}",
            f"  export SUNK_SYNC_SLURM_API_BASE={bed.slurm.url}",
            f"  export SUNK_SYNC_SLURM_AUTH_TOKEN_FILE={token} SUNK_SYNC_SLURMD_NAMESPACE=slurm",
            "  .venv/bin/sunk-sync doctor; .venv/bin/sunk-sync run",
            "\nand in a third one, with the same exports:\n",
            f"  sinfo; kubectl cordon {names[0]}; kubectl get nodes,pods -A",
            f'  curl -s -H "X-SLURM-USER-TOKEN: $(cat {token})" {ping}',
        ]
    )


def write_commands(bed: Bed, directory: Path) -> Path:
    """Write scripts that run kubectl and Slurm's own commands with this test bed."""
    directory.mkdir(exist_ok=True)
    write_script(directory / "kubectl", bed.kube.kubectl_command())
    for command in SLURM_COMMANDS:
        write_script(directory / command, bed.slurm.in_root(command))
    return directory


def write_script(path: Path, command: Sequence[str | Path]) -> None:
    """Write a script that runs the command with further arguments."""
    path.write_text(f'#!/bin/sh\nexec {shlex.join(map(str, command))} "$@"\n')
    path.chmod(0o755)
