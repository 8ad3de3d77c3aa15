"""Requests and responses of slurmrestd, on top of the model."""
