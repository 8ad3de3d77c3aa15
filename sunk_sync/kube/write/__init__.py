"""Send actions as requests; turn the answers of the API server into outcomes."""
