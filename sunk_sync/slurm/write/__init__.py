"""Actions to requests, and slurmrestd's answers to outcomes."""
