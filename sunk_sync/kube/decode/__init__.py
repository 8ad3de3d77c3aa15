"""Decode Kubernetes objects to facts. Pure: bytes in, facts or an error value out."""
