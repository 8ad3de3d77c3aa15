"""Nodes and jobs of slurmctld as immutable values."""
