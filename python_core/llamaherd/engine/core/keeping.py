"""Results of a call that an exception ends: they stay in the exception's `results`.

Code of the caller runs during a call and after it: functions for progress, filters that
turn warnings into errors, handlers of signals, data frames. Its exceptions are raised
unchanged, except that they get the attribute that `Interrupted` has, too.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from copy import copy
from itertools import count
from typing import TYPE_CHECKING, Any

from llamaherd.engine.core.errors import KEPT, ContextError, Interrupted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_next = count()  # numbers of calls and of kept results, in the order of time


def keep(error: BaseException, results: object, *, converted: bool = False) -> None:
    """Store results in an exception.

    Args:
        error: Exception that ends the call. A property or `__setattr__` of its class is
            not used, because it could raise another exception.
        converted: Whether these results contain the results that the exception has.
            Otherwise these are results of a call inside of this call, or an attribute of
            the caller's own exception, and become its attribute `inner_results`.
    """
    before = kept_results(error)
    if before is not None and not converted:
        vars(error)["inner_results"] = before
    vars(error).update(results=results, _kept=next(_next))
    note = f"llamaherd: {KEPT}"
    with suppress(Exception):  # the class of the error may refuse notes
        if note not in getattr(error, "__notes__", ()):
            error.add_note(note)  # shown below the traceback


def kept_results(error: BaseException) -> Any:
    """Return the results in an exception; None if there are none."""
    return vars(error).get("results")


def begun() -> int:
    """Return the number of a call that begins, for `forget`."""
    return next(_next)


def forget(error: BaseException, call: int) -> None:
    """Remove earlier results from an exception that the caller raises in each call."""
    if vars(error).get("_kept", call) < call:
        for name in ("results", "inner_results", "_kept"):
            vars(error).pop(name, None)


def as_interrupted(error: KeyboardInterrupt, results: object) -> Interrupted:
    """Return the exception of a call that Ctrl-C ended."""
    interruption, inner = Interrupted(results), kept_results(error)
    if inner is not None:
        vars(interruption)["inner_results"] = inner
    return interruption


def keep_made(
    error: BaseException, make: Callable[[], object], *, converted: bool = True
) -> None:
    """Store the results that `make` returns or raises in an exception."""
    try:
        results = make()
    except Exception as other:  # noqa: BLE001 - `error` is raised, and is more important
        results = kept_results(other)
    if results is not None:
        keep(error, results, converted=converted)


def copy_error(error: BaseException) -> BaseException:
    """Return a copy of an exception; each call keeps its own results in its copy."""
    duplicate = error
    for make in (copy, _as_context_error):
        with suppress(Exception):  # the class of the error may refuse copies
            duplicate = make(error)
            break
    if duplicate is not error:
        duplicate.__traceback__ = error.__traceback__
        duplicate.__cause__, duplicate.__context__ = error.__cause__, error.__context__
        duplicate.__suppress_context__ = error.__suppress_context__
    return duplicate


def _as_context_error(error: BaseException) -> BaseException:
    return ContextError(f"{type(error).__name__}: {error}")


@contextmanager
def keeping(results: object) -> Iterator[None]:
    """Keep the results of a finished call if an exception leaves the block."""
    call = begun()
    try:
        yield
    except KeyboardInterrupt as error:
        forget(error, call)
        raise as_interrupted(error, results) from None
    except BaseException as error:
        forget(error, call)
        keep(error, results)
        raise
