"""Facts, actions, verdicts, keys and names: the values that the whole product passes around."""
