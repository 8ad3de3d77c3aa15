"""The pure core: facts in, desired writes out. It imports no clock, I/O, logging or randomness."""
