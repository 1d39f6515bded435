"""Reasons why a prompt or a text has no result: a text and a code for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

NO_CODE = "failed"  # for a reason without a code, from the engine or a library


class Failure(str):
    """Reason of a failure, as in `Result.error` and the `errors` of other results.

    A failure is a str, so tables and journals store it like any other text.

    Attributes:
        code: "cancelled", "missing", "empty", "too_long", "not_tokenized",
            "chat_template", "constraint", "schema_not_followed", "cut_off",
            "not_finite" or "failed".
    """

    __slots__ = ("code",)
    code: str

    def __new__(cls, text: str, code: str = NO_CODE) -> Failure:  # noqa: PYI034 - typing.Self needs Python 3.11
        """Create a reason from a text and its code."""
        self = super().__new__(cls, text)
        self.code = code
        return self

    def __reduce__(self) -> tuple[type[Failure], tuple[str, str]]:
        return Failure, (str(self), self.code)


CANCELLED = Failure("not computed: the call ended before", "cancelled")


def stored(error: str | None) -> str | None:
    """Return the text that tables and reports store for a reason.

    The code is not stored. The text for a row that was not computed is the same in all
    versions.
    """
    return CANCELLED if error == CANCELLED else error


def code_of(reason: object) -> str | None:
    """Return the code of a reason; None if there is no reason.

    Args:
        reason: A `Failure`, or its text alone, as read from a file.
    """
    if reason is None:
        return None
    return reason.code if isinstance(reason, Failure) else NO_CODE


def codes_of(reasons: Iterable[object]) -> list[str | None]:
    """Return the code of each reason."""
    return [code_of(reason) for reason in reasons]


def is_cancelled(reason: object) -> bool:
    """Test whether a result is missing because the call ended early."""
    return code_of(reason) == CANCELLED.code
