"""Rows of each source as last read, claims on hosts, and feasible hosts."""
