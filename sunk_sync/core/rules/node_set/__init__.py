"""Rules of one NodeSet."""
