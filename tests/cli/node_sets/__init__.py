"""NodeSets of other operators as their users write them, and what becomes of each."""
