"""Requests: options and texts of callers, checked and converted to tokens."""
