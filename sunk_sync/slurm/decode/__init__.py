"""Decode answers of slurmrestd: bytes in, facts or an error value out."""
