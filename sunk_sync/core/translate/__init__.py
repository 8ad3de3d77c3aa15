"""Words of Kubernetes to words of Slurm and back: states, reasons, quantities, job specs."""
