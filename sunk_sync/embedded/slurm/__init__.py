"""A small Slurm: slurmctld's state and scheduler, slurmd, and slurmrestd over them."""
