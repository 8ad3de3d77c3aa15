"""Participants of the demo: the worlds, the service, the users, and the callers of the hooks."""
