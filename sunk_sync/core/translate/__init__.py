"""Translates between Kubernetes and Slurm: states, reasons, quantities, job specs."""
