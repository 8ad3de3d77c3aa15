"""NodeSets in the simulator: scenarios, crash points and seeds."""
