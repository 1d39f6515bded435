"""Console of a conversation: questions from stdin, answers to stdout."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from llamaherd.calls.api.turns import Reply, checked_turns
from llamaherd.cli.conventions import (
    EXPECTED,
    ExitStatus,
    is_terminated,
    print_failure,
    tell,
)
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ChatFullError
from llamaherd.engine.core.files import write_whole
from llamaherd.engine.core.plain import DuplicateKeyError, read_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from llamaherd.calls.api.chat import Chat

_PROMPT = "> "
_DIM, _PLAIN = "\x1b[2m", "\x1b[0m"
# Control characters in a model's text, which are not sent to the terminal.
_UNSAFE = dict.fromkeys([*range(32), *range(127, 160)], "\N{REPLACEMENT CHARACTER}")
_UNSAFE = {code: to for code, to in _UNSAFE.items() if chr(code) not in "\n\t"}
_HELP = """\
/undo          drop the last question with its answer
/retry         ask the last question again
/forget [N]    drop the oldest question, or the N oldest, to make room
/system TEXT   change the system message; without TEXT print it
/save FILE     write the conversation as JSON, for --continue FILE
/help          print this
/quit          quit, as Ctrl-D does

A line that ends with \\ continues in the next line. A line that begins with a space
before / is a question.
"""


class Console:
    """Loop over questions until the input ends."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat
        self._is_interactive = sys.stdin.isatty()
        self._printer = Printer()
        self._n_failed = 0
        self._commands: dict[str, Callable[[str], object]] = {
            "help": lambda _: tell_user(_HELP),
            "undo": self._undo,
            "retry": lambda _: self._answer(lambda: self._chat.retry(stream=True)),
            "forget": self._forget,
            "system": self._system,
            "save": self._save,
        }

    def run(self) -> int:
        """Answer all questions and return the exit status."""
        tell("/help lists commands, Ctrl-C ends an answer, Ctrl-D quits.")
        for line in self._questions():
            if line.strip() == "/quit" and self._is_interactive:
                break
            try:
                self._take(line)
            except OSError as error:
                if not self._is_interactive or isinstance(error, BrokenPipeError):
                    raise  # nobody would get the answers
                self._print_failure(error)
            except ChatFullError as error:
                self._print_failure(_full(error))
            except EXPECTED as error:
                self._print_failure(error)
        return ExitStatus.ROWS_FAILED if self._n_failed else ExitStatus.DONE

    def _take(self, line: str) -> None:
        if not line.strip():
            return
        if not self._is_interactive or not line.startswith("/"):
            self._answer(lambda: self._chat.stream(line.strip()))
            return
        name, _, rest = line[1:].partition(" ")
        command = self._commands.get(name.strip())
        if command is None:
            tell_user(f"There is no command /{name.strip()}.\n{_HELP}")
        else:
            command(rest.strip())

    def _print_failure(self, message: object) -> None:
        print_failure(message)
        self._n_failed += not self._is_interactive

    # ---- input ----

    def _questions(self) -> Iterator[str]:
        if not self._is_interactive:
            yield from sys.stdin
            return
        import readline  # noqa: F401 - input() edits lines with it

        while True:
            try:
                line = self._line(_PROMPT)
                while line.endswith("\\"):
                    line = f"{line[:-1]}\n{self._line('. ')}"
            except EOFError:
                print(flush=True)  # noqa: T201
                return
            except KeyboardInterrupt:
                print(flush=True)  # noqa: T201
                raise
            yield line

    def _line(self, prompt: str) -> str:
        if sys.stdout.isatty():
            return input(prompt)
        print(prompt, end="", flush=True, file=sys.stderr)  # noqa: T201
        return input()

    # ---- commands ----

    def _answer(self, send: Callable[[], Reply]) -> None:
        """Ask a question and print the answer; Ctrl-C ends the answer."""
        try:
            self._printer.show(send())
        except KeyboardInterrupt:
            self._printer.end()
            if is_terminated() or not self._is_interactive:
                raise
            tell_user("(interrupted; the text so far is kept)\n")
            return
        last = self._chat.last
        if last is not None and last.finish_reason == "length" and self._is_interactive:
            tell_user(f"(cut off after {last.n_generated_tokens} tokens)\n")

    def _undo(self, _: str) -> None:
        gone = self._chat.undo()
        tell_user(f"Dropped: {gone[0]['content']}\n")

    def _forget(self, rest: str) -> None:
        number = checks.digits(rest or "1")
        if number is None:
            tell_user(f"/forget needs a number of questions, not {rest}.\n")
            return
        gone = self._chat.forget(number)
        tell_user(f"Dropped {len(gone)} messages.\n")

    def _system(self, rest: str) -> None:
        if rest:
            self._chat.system = rest
        tell_user(f"System message: {self._chat.system or 'none'}\n")

    def _save(self, rest: str) -> None:
        if not rest:
            tell_user("/save needs the name of a file.\n")
            return
        path = Path(rest).expanduser()
        problem = _problem_of(path) if path.exists() else ""
        if problem:
            tell_user(f"{path} {problem}: choose another file.\n")
            return
        text = json.dumps(self._chat.messages, ensure_ascii=False, indent=2)
        write_whole(path, f"{text}\n".encode())
        tell_user(f"Wrote {path}.\n")


class Printer:
    """Printer of answers; thoughts are printed on a terminal only, dimmed."""

    def __init__(self) -> None:
        self._is_terminal = sys.stdout.isatty()
        has_colors = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        self._has_style = self._is_terminal and has_colors
        self._is_thought = False

    def show(self, reply: Reply) -> None:
        """Print the pieces of an answer as they arrive, then end the line."""
        for piece in reply.pieces():
            is_thought = piece.kind == "thinking"
            if is_thought and not self._is_terminal:
                continue
            if is_thought != self._is_thought:
                self._turn(is_thought=is_thought)
            self._write(piece.translate(_UNSAFE) if self._is_terminal else piece)
        self.end()

    def end(self) -> None:
        """End the line; if a thought was cut off, end its dimmed style, too."""
        if self._is_thought and self._has_style:
            self._write(_PLAIN)
        self._is_thought = False
        self._write("\n")

    def _turn(self, *, is_thought: bool) -> None:
        """Switch between the styles of thoughts and answers."""
        self._is_thought = is_thought
        if self._has_style:
            self._write(_DIM if is_thought else f"{_PLAIN}\n\n")
        else:
            self._write("(thinking) " if is_thought else "\n\n")

    def _write(self, text: str) -> None:
        print(text, end="", flush=True)  # noqa: T201


def tell_user(text: str) -> None:
    """Print a message of the console, which is not part of an answer."""
    print(text, end="", flush=True, file=sys.stderr)  # noqa: T201


def _full(error: ChatFullError) -> str:
    """Return the message about a full context, with the command that frees space."""
    if not error.n_forget:
        return str(error)
    return (
        f"the conversation has {error.n_tokens} tokens of at most {error.capacity}, too "
        f"many for another answer: /forget {error.n_forget} drops the oldest questions"
    )


def _problem_of(path: Path) -> str:
    """Return why an existing file is not replaced; "" if it has a conversation."""
    try:
        checked_turns(read_json(path.read_text(encoding="utf-8-sig")))
    except DuplicateKeyError as error:
        return f"exists, and {error}"
    except (ValueError, TypeError, OSError, RecursionError):
        return "exists and is not a conversation"
    return ""
