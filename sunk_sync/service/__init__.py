"""One process: the app, its wiring, health, and pauses of the garbage collector."""
