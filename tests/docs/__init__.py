"""Tests of the documentation: each name, command and manifest in it exists and can be read."""
