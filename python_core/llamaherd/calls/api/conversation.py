"""Memory of a conversation."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from llamaherd.calls.api.turns import (
    answer,
    checked_turns,
    last_question,
    n_exchanges,
    n_first,
    question,
    transcript,
)
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError

if TYPE_CHECKING:
    from llamaherd.calls.api.questions import Question
    from llamaherd.calls.api.replies import Reply
    from llamaherd.calls.api.turns import Turn
    from llamaherd.calls.run.handle import Handle
    from llamaherd.engine.core.results import Result


class Conversation:
    """Memory of a conversation: its turns, and the answer in progress.

    Args:
        system: Text of a system message; None for no message.
        turns: Messages of an earlier conversation.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: `turns` are not a conversation.
    """

    def __init__(self, system: object, turns: object) -> None:
        given, self._turns = checked_turns(turns)
        if system is not None and given is not None:
            raise ArgumentError(
                "has a system message, and system is given as well: leave one out",
                argument="turns",
                code="conflict",
            )
        self._system = given if system is None else checks.text("system", system)
        self._lock = Lock()  # protects the turns and the fields below
        self._version = 0  # incremented when the turns change
        self._reply: Reply | None = None  # answer in progress
        self._n_tries = 0  # number of earlier answers to the last question
        self._last: Result | None = None

    @property
    def turns(self) -> list[Turn]:
        """Copy of the messages so far without the system message; JSON can represent it.

        An answer has its thought as "reasoning_content", and `interrupted` if it was
        cancelled during generation.
        """
        self._settle()
        with self._lock:
            return [turn.copy() for turn in self._turns]

    @property
    def messages(self) -> list[Turn]:
        """System message, if any, and messages so far, as `turns=` accepts them."""
        first: list[Turn] = []
        if self._system is not None:
            first = [{"role": "system", "content": self._system}]
        return first + self.turns

    @property
    def system(self) -> str | None:
        """Text of the system message. Setting it affects later questions."""
        return self._system

    @system.setter
    def system(self, text: str | None) -> None:
        self._system = None if text is None else checks.text("system", text)

    @property
    def last(self) -> Result | None:
        """Result of the last answer, even if interrupted.

        None without an answer, and after `undo()`.
        """
        self._settle()
        return self._last

    def undo(self) -> list[Turn]:
        """Remove the last question with its answer, and return both.

        Raises:
            ValueError: There is no question.
        """
        self._settle()
        with self._lock:
            _, n = last_question(self._turns)
            gone, self._turns = self._turns[-n:], self._turns[:-n]
            self._version += 1
            self._last = None
            return gone

    def forget(self, n: int = 1) -> list[Turn]:
        """Remove the n oldest questions with their answers, and return them.

        The system message is not removed. More cells of the context are then free for
        answers.

        Raises:
            ValueError: There are fewer than n questions.
        """
        self._settle()
        with self._lock:
            last_question(self._turns)
            n_most = n_exchanges(self._turns)
            n_messages = n_first(self._turns, checks.integer("n", n, 1, n_most))
            gone, self._turns = self._turns[:n_messages], self._turns[n_messages:]
            self._version += 1
            return gone

    def __str__(self) -> str:
        return transcript(self.messages)

    def _record(self, handle: Handle, asked: Question) -> None:
        """Add the answer to a question to the memory, if not yet added."""
        with self._lock:
            if self._reply is None or self._reply.handle is not handle:
                return
            self._reply = None
            self._version += 1
            try:
                result = handle.result(0)
            except Exception:  # noqa: BLE001 - raised where the answer is read
                return
            before = self._turns[: len(self._turns) - asked.n_replaced]
            self._turns = [*before, question(asked.text), answer(result, asked.prefix)]
            self._n_tries, self._last = asked.n_tries, result

    def _settle(self) -> None:
        """Wait for the answer in progress, if any."""
        reply = self._reply
        if reply is not None:
            reply.settle()
