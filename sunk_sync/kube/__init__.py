"""Client of the Kubernetes API.

`api` sends requests, `decode` turns objects into facts, `read` lists and watches, `write` carries
out actions. Only this package sends requests to Kubernetes.
"""
