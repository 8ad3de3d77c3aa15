"""The views: the fields that rules read of one host or one workload."""
