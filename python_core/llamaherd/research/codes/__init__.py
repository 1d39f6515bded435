"""Codes and labels of any type, read in one way for everything that compares them."""

from llamaherd.research.codes.cells import form_of, is_missing, is_nothing, text_of
from llamaherd.research.codes.reading import Code, Reading, read, read_sets

__all__ = [
    "Code",
    "Reading",
    "form_of",
    "is_missing",
    "is_nothing",
    "read",
    "read_sets",
    "text_of",
]
