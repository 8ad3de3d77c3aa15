"""`python -m tests.compile`: the core as C extensions in build/compiled, ready to run from.

What is measured, and what meets the real servers, runs from there, as users run the image. Where
there is no C compiler the tree is built without; on CI that is an error.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TREE = ROOT / "build" / "compiled"
BESIDE = ("tests", "docs", "deploy", "pyproject.toml", "README.md", "Makefile")
"""What tests and benches look for beside the package."""


def missing() -> str:
    """What this machine lacks to compile; empty: nothing."""
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    if shutil.which(compiler) is None:
        return f"no C compiler ({compiler}): apt-get install gcc (Debian, Ubuntu)"
    header = Path(sysconfig.get_path("include")) / "Python.h"
    if not header.exists():
        return f"no {header.name}: apt-get install python3-dev (Debian, Ubuntu)"
    return ""


def main() -> int:
    """Build the tree anew; 2 where it cannot be compiled and must be."""
    lacking = missing()
    if lacking and os.environ.get("CI"):
        print(f"the core cannot be compiled: {lacking}", file=sys.stderr)
        return 2
    if lacking:
        print(f"the core is left as it is, which is slower: {lacking}")
    shutil.rmtree(TREE, ignore_errors=True)
    subprocess.run(
        [sys.executable, "setup.py", "--quiet", "build", "--build-lib", str(TREE)],
        check=True,
        cwd=ROOT,
        env=os.environ | {"SUNK_SYNC_COMPILED": "0" if lacking else "1"},
    )
    for name in BESIDE:
        (TREE / name).symlink_to(ROOT / name)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
