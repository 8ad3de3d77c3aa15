"""Participants of the demo: the clusters, the service, the users, and the callers of the hooks."""
