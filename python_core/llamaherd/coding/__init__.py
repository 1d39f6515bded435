"""Coding of texts: codebooks, labels, validation and estimates."""
