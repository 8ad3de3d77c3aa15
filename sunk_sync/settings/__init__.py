"""Settings: the model, its sources (flags, environment, file) and the types of its values."""
