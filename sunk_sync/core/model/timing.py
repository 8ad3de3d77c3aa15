"""Times that several parts of the core agree on, in seconds."""

BINDING_S = 15.0
"""A binding that is on its way, or got no answer, has arrived by then, or never."""
BEFORE_KILL_S = 2.0
"""So long before Slurm kills a placeholder's script its host must be closed (L6)."""
A_MINUTE_MAX = 5
"""Submissions a minute that one workload may have, whatever the reason (P32)."""
