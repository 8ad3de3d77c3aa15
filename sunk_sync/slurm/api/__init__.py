"""Connections, tokens, versions and answers of slurmrestd.

Only `versions` contains the differences between the API versions.
"""
