"""Warnings that point to the line of the user's program, not into this package."""

from __future__ import annotations

import sys
import warnings


def warn_caller(message: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning that points to the nearest caller outside of this package."""
    warnings.warn(message, category, _depth_of_caller())


def _depth_of_caller() -> int:
    """Return the stack level of the first frame outside of this package."""
    depth, frame = 1, sys._getframe(1)  # noqa: SLF001 - 3.10 has no other way
    while frame.f_back is not None:
        if not frame.f_globals.get("__name__", "").startswith("llamaherd"):
            break
        depth, frame = depth + 1, frame.f_back
    return depth
