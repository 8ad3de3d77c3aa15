"""The `sunk-sync demo` command: the unchanged service between the two embedded worlds.

`stage` holds the participants: worlds, service, users, and the programs that Slurm runs. `story`
holds the steps and their checks. `snapshot`, `view` and `screens` draw the state; `show` runs the
demo. Only code that the demo alone needs belongs here.
"""
