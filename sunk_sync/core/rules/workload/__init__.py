"""Rules that decide one Work: the Pods that one Slurm job stands for."""
