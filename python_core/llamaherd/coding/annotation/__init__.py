"""Codebooks, and coding of texts with them."""
