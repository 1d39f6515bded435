"""Journals: finished results stored on disk."""
