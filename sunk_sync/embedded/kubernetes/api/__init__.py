"""Requests and responses of the Kubernetes API, on top of the store."""
