"""Keeps Slurm and Kubernetes in sync on the same machines."""
