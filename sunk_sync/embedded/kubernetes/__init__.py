"""A small Kubernetes: a store, the API on top of it, kubelets and the node controller."""
