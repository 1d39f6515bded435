"""Comparison of results that contain NaN."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any


def same_results(a: Any, b: Any) -> bool:
    """Report whether two results are equal, if NaN equals NaN.

    `==` finds results with NaN different from Python 3.13 on. Before, a dataclass
    compared tuples of its fields, in which an object equals itself; now it compares each
    field, and NaN differs from itself.
    """
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (math.isnan(a) and math.isnan(b))
    if type(a) is not type(b):
        return bool(a == b)
    if is_dataclass(a):
        names = [field.name for field in fields(a) if field.compare]
        return all(same_results(getattr(a, x), getattr(b, x)) for x in names)
    if isinstance(a, Mapping):
        return a.keys() == b.keys() and all(same_results(a[key], b[key]) for key in a)
    if isinstance(a, Sequence) and not isinstance(a, (str, bytes)):
        return len(a) == len(b) and all(map(same_results, a, b))
    return bool(a == b)
