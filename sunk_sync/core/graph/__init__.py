"""The graph: all tables, and which keys a change concerns."""
