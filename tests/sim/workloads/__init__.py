"""The other half of the simulator: workload Pods, placeholder jobs, gangs, gates, preemption."""
