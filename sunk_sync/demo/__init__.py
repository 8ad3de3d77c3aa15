"""The `sunk-sync demo` command: the unchanged service between two embedded clusters.

`stage` has the participants: clusters, service, users, and the programs that Slurm runs. `story`
has the steps and their checks. `snapshot`, `view` and `screens` draw the state; `show` runs the
demo. Only code that the demo alone needs belongs here.
"""
