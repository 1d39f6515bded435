"""Model files, their tokens and their chat templates."""
