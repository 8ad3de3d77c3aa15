"""Rules that decide one host."""
