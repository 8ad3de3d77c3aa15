"""Seeded defects in the source of the product, each modelled on a real bug."""
