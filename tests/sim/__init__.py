"""A simulator of both worlds in virtual time that drives the unchanged service through faults."""
