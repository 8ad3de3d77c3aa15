"""A small faithful Kubernetes API and a small faithful Slurm, for the demo and the simulator.

Pure worlds: time comes in as `now_s`, nothing here but the `_http` skins knows a clock or a socket.
"""
