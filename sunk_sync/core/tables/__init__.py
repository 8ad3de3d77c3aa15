"""Rows of each source, as last read; who claims which host; hosts that could take a Pod."""
