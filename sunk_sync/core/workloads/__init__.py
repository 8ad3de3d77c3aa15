"""Which Pods and jobs belong together, and what is known of each workload."""
