"""Keeps Slurm and Kubernetes in sync on the same machines."""

__version__ = "0.1.0"
"""The only place of the version; pyproject.toml, image and chart follow it."""
