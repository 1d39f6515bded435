"""Interface for the R package: functions of lists and scalars that return a dict.

`_r.NAME(...)` calls the function that R knows by this name, see `functions`. Arguments
and results have types that reticulate can convert. Functions return errors as data
instead of raising them, because the exception classes of reticulate differ between
versions. Texts are cleaned before they are returned, because reticulate cuts texts at
lone surrogates and refuses NUL characters.
Numbers that may be large are floats, because reticulate converts integers of more than 32
bits to 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from llamaherd._r import functions as _functions
from llamaherd._r.jobs import call_result as call_result
from llamaherd._r.jobs import call_start as call_start
from llamaherd._r.jobs import job_cancel as job_cancel
from llamaherd._r.jobs import job_keep as job_keep
from llamaherd._r.jobs import job_wait as job_wait
from llamaherd._r.jobs import model_start as model_start

if TYPE_CHECKING:
    from collections.abc import Callable

    from llamaherd._r.boundary import Status


def __getattr__(name: str) -> Callable[..., Status]:
    """Return a function by its name in R."""
    if name.startswith("_"):
        raise AttributeError(name)
    return _functions.door(name)
