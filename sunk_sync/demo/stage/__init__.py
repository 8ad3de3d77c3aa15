"""Who takes part in the demo: the worlds, the service, users, and callers of the hooks."""
