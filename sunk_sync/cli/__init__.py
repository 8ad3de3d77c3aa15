"""Commands of `sunk-sync` for users: run, demo and doctor."""
