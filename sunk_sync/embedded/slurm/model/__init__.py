"""Nodes and jobs as slurmctld keeps them."""
