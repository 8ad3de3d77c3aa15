"""What happens in the demo, and what must follow from it."""
