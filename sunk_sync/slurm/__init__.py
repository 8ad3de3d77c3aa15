"""The Slurm side: everything that speaks to slurmrestd."""
