"""Tests with real Kubernetes and Slurm servers, and the test bed that builds and starts them."""
