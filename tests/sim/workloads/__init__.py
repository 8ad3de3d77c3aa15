"""The simulator for workload Pods, placeholder jobs, gangs, gates and preemption."""
