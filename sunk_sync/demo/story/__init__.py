"""Stories of the demo: steps, each an action and a check. Claims read the clusters alone."""
