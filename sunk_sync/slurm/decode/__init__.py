"""Decode answers of slurmrestd to facts. Pure: bytes in, facts or an error value out."""
