"""The rules: pure, one behaviour a file, none imports another.

A rule reads a view of its key and answers a Ruling; it never asks which event came.
docs/rules.md tells which field of the outside world belongs to which rule.
"""
