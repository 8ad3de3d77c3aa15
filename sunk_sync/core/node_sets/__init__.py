"""NodeSets in the graph: their Pods, their records in Slurm, and the edges between them."""
