"""Two lives of the service at the same time, of which one may write (F6)."""
