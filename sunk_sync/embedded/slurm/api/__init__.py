"""Requests and answers of slurmrestd over the model."""
