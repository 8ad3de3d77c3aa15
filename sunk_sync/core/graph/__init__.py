"""The graph: all tables, and the keys that each change concerns."""
