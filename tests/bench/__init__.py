"""Benchmarks of speed and memory, mostly ratios: `python -m tests.bench [--write] [NAME …]`."""
