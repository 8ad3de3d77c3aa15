"""Rules that decide one workload: the Pods that one Slurm job stands for."""
