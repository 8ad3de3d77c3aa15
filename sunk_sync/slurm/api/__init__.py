"""Connections, tokens, versions and answers of slurmrestd.

`versions` is the only place that knows how the API versions differ.
"""
