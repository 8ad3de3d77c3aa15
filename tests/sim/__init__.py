"""A simulator in virtual time: the unchanged service between both worlds, with faults."""
