"""Keeps Slurm and Kubernetes true to each other on one set of machines."""
