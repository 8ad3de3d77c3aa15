"""Seeded defects in the product's source, each with the story of a real bug it stands for."""
