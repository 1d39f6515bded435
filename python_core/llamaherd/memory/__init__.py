"""Sizes: what a context needs and what the machine has."""
