"""`sunk-sync demo`: both embedded worlds on sockets with the unchanged service between them.

`stage` has who takes part: the worlds, people, and programs that Slurm runs. `story` has what
happens and what must follow. `scene`, `view` and `screens` show it; `show` runs it.
"""
