"""Current date for chat templates, and functions that fix this date."""

from __future__ import annotations

import datetime as dt
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError

if TYPE_CHECKING:
    from collections.abc import Iterator

_DAY: ContextVar[dt.date | None] = ContextVar("day", default=None)


@contextmanager
def chat_date(date: dt.date | str | None) -> Iterator[dt.date]:
    """Set the current date that chat templates see in all calls within the block.

    Some templates (Llama 3.2, gpt-oss, Granite) write the date into each prompt.
    Without a fixed date, the same call has different prompts on different days.

    Args:
        date: A `datetime.date` or "2026-01-31". None uses the date of an enclosing
            `chat_date`, or today's date for the whole block.

    Raises:
        TypeError: `date` is neither a date nor a text.
        ValueError: `date` is not a valid date.
    """
    day = template_date(date).date()
    token = _DAY.set(day)
    try:
        yield day
    finally:
        _DAY.reset(token)


def swap_date(date: dt.date | str | None) -> dt.date | None:
    """Set the fixed date of all further calls of this thread; return the previous date.

    This function is for callers without `with` blocks, such as R. In Python use
    `chat_date`. None removes the fixed date.

    Raises:
        TypeError: As `chat_date`.
        ValueError: As `chat_date`.
    """
    before = _DAY.get()
    _DAY.set(None if date is None else template_date(date).date())
    return before


def template_date(date: object) -> dt.datetime:
    """Return the start of the current day for a template.

    Raises:
        TypeError: `date` is neither a date nor a text.
        ValueError: `date` is not a valid date.
    """
    day = date if date is not None else _DAY.get()
    if isinstance(day, str):
        try:
            day = dt.date.fromisoformat(day)
        except ValueError as error:
            raise ArgumentError(
                f'must be like "2026-01-31", not {checks.shown(day)}', argument="date"
            ) from error
    if day is None:
        day = _today()
    if not isinstance(day, dt.date):
        raise ArgumentTypeError(
            f"must be a date or text, not {checks.shown(day)}", argument="date"
        )
    return dt.datetime(day.year, day.month, day.day)  # noqa: DTZ001 - a day, no moment


def _today() -> dt.date:
    return dt.date.today()  # noqa: DTZ011 - that of who asks
