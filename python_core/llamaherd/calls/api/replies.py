"""Answers of a chat during their generation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llamaherd.engine.core.errors import Interrupted
from llamaherd.engine.core.process_bound import ProcessBound
from llamaherd.engine.core.results import Results
from llamaherd.engine.core.stats import Stats

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from llamaherd.calls.run.handle import Handle
    from llamaherd.engine.core.pieces import TextPiece
    from llamaherd.engine.core.results import Result


class Reply(ProcessBound):
    """Answer of a chat during its generation, returned by `Chat.stream`.

    Iteration yields the pieces of its text as they are generated; `pieces` also yields
    the pieces of the thought. If the loop ends early, by `break`, an error or Ctrl-C,
    the answer is cancelled, and the conversation keeps the text so far. An answer that
    no code reads is still generated to its end.

    Args:
        handle: Handle of the request.
        record: Function that adds the finished answer to the conversation, once.

    Attributes:
        handle: Handle of the request.
        record: See above.
    """

    def __init__(self, handle: Handle, record: Callable[[], object]) -> None:
        self.handle = handle
        self.record = record

    def __iter__(self) -> Iterator[TextPiece]:
        """Iterate over the pieces of the answer.

        Raises:
            Interrupted: Ctrl-C cancelled the answer; `results[0].partial` has its text.
            GenerationError: The answer failed; raised after the last piece. For all
                errors see `Handle.result`.
        """
        return (piece for piece in self.pieces() if piece.kind == "answer")

    def pieces(self) -> Iterator[TextPiece]:
        """Iterate over the pieces of thought and answer, see `Handle.pieces`."""
        is_read = False
        try:
            yield from self.handle.pieces()
            is_read = True
        except KeyboardInterrupt:
            raise self.interrupted() from None
        finally:
            if not is_read:
                self.cancel()
            self.settle()

    def read(self, start: int = 0, timeout: float | None = None) -> list[TextPiece]:
        """Wait for new pieces of thought and answer, see `Handle.read`."""
        return self.handle.read(start, timeout)

    def result(self) -> Result:
        """Wait for the whole answer.

        Raises:
            GenerationError: The answer failed; for all errors see `Handle.result`.
        """
        try:
            return self.handle.result()
        finally:
            if self.done():
                self.record()

    def done(self) -> bool:
        """Whether the answer has ended, including failures."""
        return self.handle.done()

    def cancel(self) -> None:
        """Request the end of the answer and return at once; it ends within one step."""
        self.handle.cancel()

    def interrupted(self) -> Interrupted:
        """Cancel the answer and return the error that the caller raises after Ctrl-C."""
        self.cancel()
        try:
            result = self.result()
        except Exception as error:  # noqa: BLE001 - it failed before it was cancelled
            return Interrupted(getattr(error, "results", None))
        return Interrupted(Results([result], Stats(n_prompts=1)))

    def __repr__(self) -> str:
        return f"<Reply: {self.handle!r}>"

    def settle(self) -> None:
        """Wait until the answer has ended or failed.

        Raises:
            ForkError: This process was forked; the answer never ends here.
            MemoryError: The context's thread has died; the answer never ends.
        """
        try:
            self.result()
        except Exception:
            if not self.done():  # else the code that reads the answer raises the error
                raise
