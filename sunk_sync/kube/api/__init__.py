"""Connections, credentials and answers of the Kubernetes API, independent of rules and facts."""
