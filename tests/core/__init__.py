"""The core as a whole: graph, decide, policy, outbox and loop."""
