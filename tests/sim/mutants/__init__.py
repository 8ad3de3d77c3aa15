"""Seeded defects in the source of the product. Each one repeats a real bug."""
