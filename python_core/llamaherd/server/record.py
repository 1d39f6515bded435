"""What became of one request: for the log and the figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llamaherd.core.results import Result

CLIENT_GONE = 499  # as others log it; nobody is there to be told


class Record:
    """Filled in while a request is answered.

    Attributes:
        result: What the context made of it; None if it never got there.
        status: Of HTTP; 0: nothing was sent yet.
        is_gone: The client went away first.
    """

    __slots__ = ("is_gone", "result", "status")

    def __init__(self) -> None:
        self.result: Result | None = None
        self.status = 0
        self.is_gone = False

    @property
    def outcome(self) -> int:
        """The status that counts."""
        return CLIENT_GONE if self.is_gone else self.status
