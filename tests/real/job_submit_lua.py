"""A site's job_submit.lua, which slurmctld reads again when its time of change differs."""

import time
from pathlib import Path

PLUGIN = "JobSubmitPlugins=lua"
WORDS = "Ask for a project first."
_TEXT = """\
function slurm_job_submit(description, partitions, uid)
  slurm.log_user("{words}")
  return {submit}
end
function slurm_job_modify(description, record, partitions, uid)
  return {modify}
end
return slurm.SUCCESS
"""


def write_job_submit(
    root: Path, *, submit: str = "slurm.SUCCESS", modify: str = "slurm.SUCCESS"
) -> None:
    """Write the script below a root of Slurm. The arguments are expressions in Lua.

    slurmctld compares seconds: a change in the second of its last look would not be seen.
    """
    path = root / "etc/slurm/job_submit.lua"
    fresh = path.with_suffix(".fresh")
    if path.exists():
        time.sleep(max(path.stat().st_mtime + 2.1 - time.time(), 1.1))
    fresh.write_text(_TEXT.format(words=WORDS, submit=submit, modify=modify))
    fresh.chmod(0o644)
    fresh.rename(path)
