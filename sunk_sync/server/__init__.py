"""HTTP that sunk-sync answers: metrics and health, and the hooks of Slurm's scripts."""
