"""Runs the first commands of the README as a newcomer does: a fresh clone of the last commit.

Nothing of this checkout is used: no environment, no cache, no PYTHONPATH. The package index is
that of the machine's own pip.
"""
