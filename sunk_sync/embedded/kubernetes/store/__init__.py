"""Objects as the API server keeps them: defaults, validation, patches, deletion."""
