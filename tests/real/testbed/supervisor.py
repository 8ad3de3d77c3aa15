"""Keeps one sandbox alive exactly as long as its owner, then removes its remains.

Run it as `python -I -S supervisor.py DIRECTORY LOCK_FD`, with DIRECTORY/setup.sh in place. Only the
owner holds the other end of its standard input: at its end the owner has closed the sandbox or is
dead. It prints `ready PID` (PID of the init of the namespaces) after setup.sh. LOCK_FD is a locked
descriptor of DIRECTORY: while this process lives, no sweep removes DIRECTORY. It imports only the
standard library, so that it starts in 20 ms.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

# PID 1 of the namespaces ignores SIGCHLD, so the kernel reaps orphans for it.
INIT = """
set -e
read -r pid rest </proc/self/stat
cd "$1"
. ./setup.sh
echo "ready $pid"
exec >/dev/null
trap '' CHLD
exec sleep infinity
"""
# Each process dies with its parent, and the kernel kills the whole PID namespace with its init.
ENTER = ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child"]


def main() -> int:
    directory = Path(sys.argv[1])
    with subprocess.Popen(
        [*ENTER, "sh", "-c", INIT, "init", str(directory)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    ) as namespaces:
        assert namespaces.stdout is not None
        answer = namespaces.stdout.readline()
        sys.stdout.write(answer or "failed\n")
        sys.stdout.flush()
        if answer.startswith("ready "):
            wait_for_owner()
            os.kill(int(answer.split()[1]), signal.SIGKILL)
        # This returns when no process of the PID namespace is left.
        namespaces.wait()
    remove(directory)
    return 0 if answer else 1


def wait_for_owner() -> None:
    for a_signal in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(a_signal, signal.SIG_IGN)
    while os.read(0, 4096):
        pass


def remove(directory: Path) -> None:
    # The mounts were in the namespaces and are gone: the mount points are empty folders now.
    for _ in range(20):
        shutil.rmtree(directory, ignore_errors=True)
        if not directory.exists():
            return
        time.sleep(0.05)


if __name__ == "__main__":
    sys.exit(main())
