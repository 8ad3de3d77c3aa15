"""Nodes and jobs of slurmctld as pure values."""
