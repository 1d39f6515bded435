"""The way to R: a dict comes back, whatever happens."""

from __future__ import annotations

import dataclasses
import functools
import math
import traceback
import warnings
from typing import TYPE_CHECKING, Any, ParamSpec

import llamaherd as lh
from llamaherd.core.stats import ActorStats

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from llamaherd.core.stats import RequestStats

_P = ParamSpec("_P")
Status = dict[str, Any]

NO_TEXT: list[int] = []  # stands for a missing prompt: no tokens, so it fails by itself


def boundary(function: Callable[_P, object]) -> Callable[_P, Status]:
    """Makes a function return a dict, whatever happens.

    KeyboardInterrupt passes: it is how reticulate tells R of Ctrl-C.
    """

    @functools.wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> Status:
        status: Status = {"ok": False, "value": None}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", UserWarning)
            warnings.simplefilter("always", RuntimeWarning)
            try:
                status |= {"ok": True, "value": function(*args, **kwargs)}
            except Exception as error:  # noqa: BLE001 -- R raises it again
                status |= {
                    "error_type": known_type(error),
                    "message": clean(str(error)),
                    "traceback": clean(traceback.format_exc()),
                }
        return status | {"warnings": [clean(str(item.message)) for item in caught]}

    return call


def known_type(error: Exception) -> str:
    """The most special class that R knows: the library's, ValueError, TypeError."""
    if isinstance(error, (lh.LlamaHerdError, ValueError, TypeError)):
        for cls in type(error).__mro__:
            if cls.__module__ in {"llamaherd.core.errors", "builtins"}:
                return cls.__name__
    return type(error).__name__


def clean(text: str) -> str:
    """Without what reticulate does not take: lone surrogates, NUL."""
    return text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")


def clean_or_none(text: str | None) -> str | None:
    """The same; None stays."""
    return None if text is None else clean(text)


def timing_of(requests: Sequence[RequestStats | None]) -> dict[str, list[float]]:
    """Seconds since the call began; NaN of what was not run, or has no token."""

    def column(name: str) -> list[float]:
        found = [getattr(each, name, None) for each in requests]
        return [math.nan if value is None else value for value in found]

    return {name: column(name) for name in ("queue_s", "first_token_s", "wall_s")}


def numbers_of(stats: lh.Stats) -> dict[str, Any]:
    """Statistics as floats, with actors as columns, and `line` for people."""
    numbers = dataclasses.asdict(stats)
    rows = numbers.pop("actors")
    return {
        **{name: float(value) for name, value in numbers.items()},
        "actors": {
            field.name: [_told(row[field.name]) for row in rows]
            for field in dataclasses.fields(ActorStats)
        },
        "line": str(stats),
    }


def _told(value: str | int) -> str | float:
    return clean(value) if isinstance(value, str) else float(value)
