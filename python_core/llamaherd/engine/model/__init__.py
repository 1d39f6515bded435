"""Model files and their tokens."""
