"""The rules: pure, one behaviour a file; the folder says what kind of key a rule decides.

A rule reads a view of its key and answers a Ruling. No rule imports another. docs/rules.md tells
which field of the outside world belongs to which rule.
"""
