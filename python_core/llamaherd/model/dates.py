"""The day that chat templates are told."""

from __future__ import annotations

import datetime as dt
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from llamaherd.core import checks

if TYPE_CHECKING:
    from collections.abc import Iterator

_DAY: ContextVar[dt.date | None] = ContextVar("day", default=None)


@contextmanager
def chat_date(date: dt.date | str | None) -> Iterator[dt.date]:
    """Calls inside tell chat templates this day instead of today.

    Some templates (Llama 3.2, gpt-oss, Granite) write the day into each prompt. A call
    that is made again on another day has other prompts, unless it is told the first day.

    Args:
        date: As `datetime.date` or "2026-01-31"; None: that of a `chat_date` around
            this one, or today, which stays the same until the end.

    Raises:
        TypeError: `date` is neither.
        ValueError: It is no day.
    """
    day = template_date(date).date()
    token = _DAY.set(day)
    try:
        yield day
    finally:
        _DAY.reset(token)


def template_date(date: object) -> dt.datetime:
    """The start of the day that a template is told.

    Raises:
        TypeError: `date` is neither a date nor a text.
        ValueError: It is no day.
    """
    day = date if date is not None else _DAY.get()
    if isinstance(day, str):
        try:
            day = dt.date.fromisoformat(day)
        except ValueError as error:
            raise ValueError(
                f'date must be like "2026-01-31", not {checks.shown(day)}'
            ) from error
    if day is None:
        day = _today()
    if not isinstance(day, dt.date):
        raise TypeError(f"date must be a date or text, not {checks.shown(day)}")
    return dt.datetime(day.year, day.month, day.day)  # noqa: DTZ001 - a day, no moment


def _today() -> dt.date:
    return dt.date.today()  # noqa: DTZ011 - that of who asks
