"""NodeSets on real kubelets: slurmd runs in containers that kubelet and containerd start."""
