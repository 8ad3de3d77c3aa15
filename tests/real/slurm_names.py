"""Writer of tests/kit/slurm_names.ini from the test bed: `python -m tests.real.slurm_names`.

The libraries need a newer libc than the machine may have, so Python runs under the dynamic loader
of their Debian.
"""

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

from tests.kit.slurm_names import SlurmNames, write
from tests.real.testbed import cache
from tests.real.testbed.cache import SLURM_SUITES

LIBRARIES = "usr/lib/x86_64-linux-gnu"
NONE = {"InvaildReason", "InvalidReason"}
"""What 24.11 and 26.05 call a number without a reason."""
ASK = """
import ctypes, json, sys
library = ctypes.CDLL(sys.argv[1])
def texts(function, numbers):
    function.restype, function.argtypes = ctypes.c_char_p, [ctypes.c_int]
    return {number: function(number).decode() for number in numbers}
print(json.dumps([texts(library.slurm_job_state_reason_string, range(1000)),
                  texts(library.slurm_strerror, range(1000, 20000))]))
"""


def ask(version: str) -> SlurmNames:
    """Ask libslurm for the name of each number that can be a reason or error."""
    libraries = cache.slurm(version).path / LIBRARIES
    own = [libraries, libraries / "slurm-wlm", sysconfig.get_config_var("LIBDIR"), f"/{LIBRARIES}"]
    command = [
        *(str(libraries / "ld-linux-x86-64.so.2"), "--library-path", ":".join(map(str, own))),
        *(os.path.realpath(sys.executable), "-I", "-c", ASK),
        str(Path(libraries) / "slurm-wlm/libslurmfull.so"),
    ]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    reasons, errors = json.loads(done.stdout)
    return SlurmNames(
        tuple(sorted(set(reasons.values()) - NONE)),
        tuple(int(number) for number, text in errors.items() if not text.startswith("Unknown")),
    )


if __name__ == "__main__":
    write({version: ask(version) for version in sorted(SLURM_SUITES)})
