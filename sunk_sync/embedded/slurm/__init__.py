"""A small Slurm: state and scheduler of slurmctld, slurmd, and slurmrestd on top of them."""
