"""Turns of a conversation: messages of users and of the model, and replies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Required, TypedDict

from llamaherd.calls.chat.messages import checked_messages
from llamaherd.engine.core import checks
from llamaherd.engine.core.argument import Argument
from llamaherd.engine.core.errors import ArgumentError, Interrupted
from llamaherd.engine.core.process import ProcessBound
from llamaherd.engine.core.results import Result, Results
from llamaherd.engine.core.stats import Stats

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from llamaherd.calls.run.handle import Handle
    from llamaherd.engine.core.outcome import TextPiece


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


_MARK = "interrupted"  # key that is not passed to templates


class Turn(TypedDict, total=False):
    """Message of a conversation.

    Attributes:
        role: "user" or "assistant"; in `Chat.messages` also "system".
        content: Text of the message.
        reasoning_content: Thought before an answer; absent without a thought.
        interrupted: True for an answer that was cancelled during generation.
    """

    role: Required[str]
    content: Required[str]
    reasoning_content: str
    interrupted: bool


def question(text: str) -> Turn:
    """Create a message of the user."""
    return {"role": "user", "content": text}


def answer(result: Result, prefix: str | None) -> Turn:
    """Create a message of the model."""
    text = result.partial if result.text is None else result.text
    turn: Turn = {"role": "assistant", "content": (prefix or "") + (text or "")}
    if result.thinking:
        turn["reasoning_content"] = result.thinking
    if result.text is None:
        turn["interrupted"] = True
    return turn


def as_messages(turns: Sequence[Turn]) -> list[dict[str, object]]:
    """Return the messages without the keys that are only for users of `Chat`."""
    return [{key: value for key, value in turn.items() if key != _MARK} for turn in turns]


def checked_turns(messages: object) -> tuple[str | None, list[Turn]]:
    """Check saved turns; return the text of the system message and the other turns."""
    if isinstance(messages, (list, tuple)) and not messages:
        return None, []
    turns = [
        _turn(Argument("turns", (i,)), message)
        for i, message in enumerate(checked_messages("turns", messages))
    ]
    system = None
    if turns and turns[0]["role"] == "system":
        system = turns.pop(0)["content"]
    if turns and turns[-1]["role"] == "user":
        raise ArgumentError(
            "must end with an answer, not with a question",
            argument="turns",
            code="conflict",
        )
    return system, turns


def n_exchanges(turns: Sequence[Turn]) -> int:
    """Return the number of questions in a conversation."""
    return sum(turn["role"] == "user" for turn in turns)


def last_question(turns: Sequence[Turn]) -> tuple[str, int]:
    """Return the last question, and the number of messages from it to the end."""
    for n, turn in enumerate(reversed(turns), 1):
        if turn["role"] == "user":
            return turn["content"], n
    raise ValueError("the conversation has no question yet")


def transcript(turns: Sequence[Turn]) -> str:
    """Return a conversation as text."""
    marks = (" (interrupted)" if turn.get(_MARK) else "" for turn in turns)
    return "\n\n".join(
        f"{turn['role']}{mark}: {turn['content']}"
        for turn, mark in zip(turns, marks, strict=True)
    )


def n_first(turns: Sequence[Turn], n_exchanges: int) -> int:
    """Return the number of messages of the first `n_exchanges` exchanges."""
    starts = [i for i, turn in enumerate(turns) if turn["role"] == "user" and i > 0]
    return starts[n_exchanges - 1] if n_exchanges <= len(starts) else len(turns)


def _turn(name: Argument, message: Mapping[str, object]) -> Turn:
    turn: Turn = {"role": str(message["role"]), "content": str(message["content"])}
    thought = message.get("reasoning_content")
    if thought is not None:
        turn["reasoning_content"] = str(thought)
    if checks.flag(name.at(_MARK), message.get(_MARK, False)):
        turn["interrupted"] = True
    return turn
