"""Commands of `sunk-sync` that a person reads: run, demo and doctor."""
