"""Conversion of codes and labels of any type to comparable values."""

from llamaherd.coding.codes.cells import (
    are_alike,
    form_of,
    is_nothing,
    number_in,
    numbers_of,
    text_of,
)
from llamaherd.coding.codes.coders import (
    check_coders,
    check_comparable,
    check_declared,
    check_names,
)
from llamaherd.coding.codes.reading import (
    Code,
    Reading,
    are_measured,
    names_of,
    read,
    read_sets,
)
from llamaherd.engine.core.plain import is_missing

__all__ = [
    "Code",
    "Reading",
    "are_alike",
    "are_measured",
    "check_coders",
    "check_comparable",
    "check_declared",
    "check_names",
    "form_of",
    "is_missing",
    "is_nothing",
    "names_of",
    "number_in",
    "numbers_of",
    "read",
    "read_sets",
    "text_of",
]
