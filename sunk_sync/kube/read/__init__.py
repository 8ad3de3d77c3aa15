"""Lists and watches: keeps the core's rows equal to the API server's objects."""
