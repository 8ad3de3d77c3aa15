"""Connections, credentials and answers of the Kubernetes API.

Nothing here knows a rule or a fact.
"""
