"""Client of the Kubernetes API. Only this package sends requests to Kubernetes.

`api` sends requests, `decode` turns objects into facts, `read` lists and watches, `write` performs
actions.
"""
