"""Connections, credentials and answers of the Kubernetes API.

Nothing here depends on rules or facts.
"""
