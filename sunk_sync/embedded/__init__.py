"""A small faithful Kubernetes API and a small faithful Slurm, for the demo and the simulator.

Time comes in as `now_s`. Only the `http` modules know a clock or a socket.
"""
