"""A small Kubernetes: the store, the API over it, kubelets and a node controller."""
