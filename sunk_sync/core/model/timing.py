"""Limits that several parts of the core share; times in seconds."""

BINDING_S = 15.0
"""A binding, or the creation of a Pod, arrives within this time after sunk-sync gave it up without
an answer, or never."""
BEFORE_KILL_S = 2.0
"""sunk-sync drains the host this long before Slurm kills the script of a placeholder (L6)."""
A_MINUTE_MAX = 5
"""Submissions of one workload in a minute (P32)."""
