"""Codebooks, and coding texts by them."""
