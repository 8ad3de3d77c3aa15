"""The rules: pure functions, one behaviour a file. The folder is the kind of key.

A rule reads a view of its key and returns a Ruling. No rule imports another.
docs/development/rules.md says which rule owns which field in Kubernetes and Slurm.
"""
