"""The permissions of the chart on real servers: each one is needed, and nothing else is granted."""
