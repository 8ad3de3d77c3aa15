"""List and watch, so that the rows of the core follow the objects of the API server."""
