"""Which Pods and jobs belong together, and facts about each workload."""
