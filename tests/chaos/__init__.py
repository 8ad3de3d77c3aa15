"""Chaos on real servers: faults at random from a seed, and independent checkers of both sides.

`python -m tests.chaos --seconds 600 --seed N`. The checkers read the API server and slurmrestd
themselves and use none of sunk-sync's code.
"""
