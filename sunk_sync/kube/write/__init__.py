"""Actions to requests, and the API server's answers to outcomes."""
