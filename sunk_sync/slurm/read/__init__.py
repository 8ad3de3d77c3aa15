"""Polls nodes and jobs, and reads single ones when a rule needs it."""
