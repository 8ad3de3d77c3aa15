"""Send actions as requests; turn the answers of slurmrestd into outcomes."""
