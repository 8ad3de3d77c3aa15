"""The objects of the API server: storage, defaults, validation, patches, deletion."""
