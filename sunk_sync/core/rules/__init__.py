"""The rules: pure, one behaviour a file; the folder says what kind of key a rule decides.

A rule reads a view of its key and answers a Ruling. No rule imports another.
docs/development/rules.md says which rule owns which field in Kubernetes and Slurm.
"""
