"""Rules that decide the cluster as a whole."""
