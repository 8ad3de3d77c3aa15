"""What rules read of one host or one workload."""
