"""Small Kubernetes and Slurm servers in one process, for the demo and the simulator.

They answer as the real servers do, as far as tests/real compares them. `now_s` is their time; only
the `http` modules use a clock or a socket. Of the service they import `core.translate` alone.
"""
