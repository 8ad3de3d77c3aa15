"""Polls nodes and jobs, and reads single ones when a rule asks for it."""
