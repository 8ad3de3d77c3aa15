"""Requests and answers of the Kubernetes API over the store."""
