"""Decode Kubernetes objects: bytes in, facts or an error value out."""
