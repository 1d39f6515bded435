"""Validation of labels and coders."""
