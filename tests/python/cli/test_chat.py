"""`llamaherd chat`, with and without a terminal; completion by a shell."""

from __future__ import annotations

import json
import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from llamaherd.cli.console import Printer
from llamaherd.engine.core.outcome import TextPiece
from waiting import HANGS_S, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from commands import Commands

# Makes stdin the controlling terminal, so that Ctrl-C sends a signal.
LAUNCH = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, "-m", "llamaherd.cli", *sys.argv[1:]])
"""
ENDLESS = ["--max-tokens", "5000", "--set", "ignore_eos=true"]
CUT_OFF = "(cut off after 4 tokens)"


class Terminal:
    """A terminal with a program."""

    def __init__(self, *command: str, **options: Any) -> None:
        self._own, other = pty.openpty()
        self.shown = ""
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), other)
        self.process = subprocess.Popen(
            command, start_new_session=True, **streams, **options
        )
        os.close(other)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._own)

    def type(self, text: str, expected: str = "") -> None:
        """Type a text, and wait for an output."""
        os.write(self._own, text.encode())
        self.wait_for(expected)

    def enter(self, *lines: tuple[str, str]) -> None:
        """Type each line behind a prompt, and wait for an output."""
        for line, expected in lines:
            self.wait_for("> ")
            self.type(f"{line}\n", expected)

    def wait_for(self, text: str, seconds: float = HANGS_S) -> None:
        """Read output until a text is shown."""
        limit = time.monotonic() + seconds
        while text not in self.shown:
            assert time.monotonic() < limit, self.shown
            ready, *_ = select.select([self._own], [], [], 1.0)
            if ready:
                try:
                    new = os.read(self._own, 4096)
                except OSError:  # the process has ended
                    new = b""
                assert new, self.shown
                self.shown += new.decode("utf-8", "replace")
        _, _, self.shown = self.shown.partition(text) if text else ("", "", self.shown)

    def wait_for_prompt(self) -> None:
        """Wait until a prompt is shown and the process waits for input.

        Python's readline loses a Ctrl-C that arrives between these two events.
        """
        self.wait_for("> ")
        stat = Path(f"/proc/{self.process.pid}/stat")
        wait_until(lambda: stat.read_text("ascii").rpartition(")")[2].split()[0] == "S")

    def ended(self) -> int:
        """Wait for the end, and return the exit status."""
        try:
            while os.read(self._own, 4096):
                pass
        except OSError:
            pass
        return self.process.wait(120)


@pytest.fixture
def tiny(tiny_path: Callable[[str], Path]) -> str:
    return str(tiny_path("chat"))


@pytest.fixture
def chatting() -> Iterator[Callable[..., Terminal]]:
    """Return a function that starts `llamaherd chat` with arguments on a terminal."""
    environment = {**os.environ, "TERM": "xterm", "NO_COLOR": ""}
    command = [sys.executable, "-c", LAUNCH, "chat"]
    with ExitStack() as opened:
        yield lambda *arguments: opened.enter_context(
            closing(Terminal(*command, *map(str, arguments), env=environment))
        )


@pytest.mark.long(reason="a process for each case")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_ctrl_c_ends_the_answer_and_sigterm_the_command(
    smollm2_path: Path, chatting: Callable[..., Terminal], name: str
) -> None:
    terminal = chatting(smollm2_path, *ENDLESS)
    terminal.enter(("Name a river.", "Name a river.\r\n"))
    terminal.wait_for(" ")  # pieces of the answer
    if name == "SIGTERM":
        terminal.process.send_signal(signal.SIGTERM)
        assert terminal.ended() == 143
        return
    terminal.type("\x03", "(interrupted; the text so far is kept)")
    terminal.wait_for_prompt()
    terminal.type("\x03")
    assert terminal.ended() == -signal.SIGINT


def test_commands(tiny: str, tmp_path: Path, chatting: Callable[..., Terminal]) -> None:
    saved, twice, deep = (tmp_path / f"{x}.json" for x in ("saved", "twice", "deep"))
    twice.write_text('[{"role": "user", "role": "user", "content": "a"}]')
    deep.write_text("[" * 100_000)
    flags = ["--max-tokens", "4", "--set", "ignore_eos=true", "--system", "S"]
    terminal = chatting(tiny, *flags)
    terminal.enter(
        ("/nothing", "There is no command /nothing."),
        ("/help", "A line that ends with"),
        ("/undo", "the conversation has no question yet"),
        ("One", CUT_OFF),
        ("Two\\\nlines", CUT_OFF),
        (" /Three", CUT_OFF),
        ("/retry", CUT_OFF),
        ("/undo", "Dropped: /Three"),
        ("/forget", "Dropped 2 messages."),
        ("/forget x", "/forget needs a number"),
        ("/system", "System message: S"),
        ("/system T", "System message: T"),
        (f"/save {tiny}", "exists and is not a conversation"),
        (f"/save {twice}", 'exists, and an object has the key "role" twice'),
        (f"/save {deep}", "exists and is not a conversation"),
        ("/save", "needs the name of a file"),
        (f"/save {saved}", "Wrote "),
        (f"/save {saved}", "Wrote "),
    )
    terminal.wait_for("> ")
    terminal.type("\x04")
    assert terminal.ended() == 0
    system, question, answer = json.loads(saved.read_text("utf-8"))
    assert system == {"role": "system", "content": "T"}
    assert question == {"role": "user", "content": "Two\nlines"}
    assert answer["role"] == "assistant"
    again = chatting(tiny, "--continue", saved)
    again.enter(("/undo", "Dropped: Two"), ("/quit", ""))
    assert again.ended() == 0


@pytest.mark.long(reason="a process for each case")
def test_a_full_context_names_the_command_that_makes_room(
    tiny: str, chatting: Callable[..., Terminal]
) -> None:
    flags = ["--max-tokens", "100", "--set", "ignore_eos=true", "--n-ctx", "256"]
    chatting(tiny, *flags).enter(
        ("a" * 60, "(cut off after 100 tokens)"),
        ("a" * 60, "/forget 1 drops the oldest questions"),
        ("/forget 1", "Dropped 2 messages."),
        ("a" * 60, "(cut off after 100 tokens)"),
    )


def piped(tiny: str, lines: str, *flags: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "llamaherd.cli", "chat", tiny, *flags]
    return subprocess.run(
        command, input=lines, capture_output=True, text=True, check=False
    )


def test_without_a_terminal_each_line_is_a_question(tiny: str) -> None:
    done = piped(tiny, "One\n\n/undo\n", "--set", 'choices=["yes", "no"]')
    assert (done.returncode, done.stderr) == (0, "")
    answers = done.stdout.splitlines()
    assert len(answers) == 2  # without a terminal, a slash begins no command
    assert set(answers) <= {"yes", "no"}


def test_without_a_terminal_failures_are_counted(tiny: str) -> None:
    done = piped(tiny, f"{'a' * 600}\nOne\n", "--max-tokens", "4")
    assert done.returncode == 3
    assert "ask a shorter question" in done.stderr
    assert done.stdout.count("\n") >= 1


TWICE = '[{"role": "user", "content": "a", "content": "b"}]'


@pytest.mark.parametrize(
    ("flags", "content", "message"),
    [
        ("--set top_p=7", "", "llamaherd: --set top_p must be between 0 and 1"),
        ("--set tempature=1", "", "did you mean 'temperature'"),
        ("--thinking much", "", "is neither a number nor on or off"),
        ("--set x", "", "is not KEY=VALUE"),
        ("--continue no.json", "", "no.json"),
        ("--continue dup.json", TWICE, 'the key "content" twice'),
        ("--continue dup.json", "[" * 100_000, "dup.json has no conversation"),
        ("--continue dup.json", "Hello", "dup.json has no conversation"),
    ],
)
def test_wrong_flags_and_files_are_refused(
    cli: Commands, tiny: str, flags: str, content: str, message: str
) -> None:
    Path("dup.json").write_text(content)
    cli(f"chat {tiny} {flags}", status=2, err=message)


class Said:
    """A reply with a thought that has an escape sequence."""

    def pieces(self) -> list[TextPiece]:
        pieces = [TextPiece("I \x1b]0;th", "thinking"), TextPiece("ink", "thinking")]
        return [*pieces, TextPiece("Yes"), TextPiece(".\n")]


@pytest.mark.parametrize(
    ("is_terminal", "no_color", "expected"),
    [
        (True, "", "\x1b[2mI \ufffd]0;think\x1b[0m\n\nYes.\n\n"),
        (True, "1", "(thinking) I \ufffd]0;think\n\nYes.\n\n"),
        (False, "", "Yes.\n\n"),
    ],
)
def test_thoughts_are_dimmed_on_a_terminal_alone(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    is_terminal: bool,
    no_color: str,
    expected: str,
) -> None:
    monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)
    Printer().show(Said())
    assert capsys.readouterr().out == expected


PROGRAM = Path(sys.executable).parent


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.long(reason="a process for each case")
def test_bash_completes_commands_options_and_files(tmp_path: Path) -> None:
    (tmp_path / "my-model.gguf").touch()
    environment = {
        "PATH": f"{PROGRAM}{os.pathsep}{os.environ['PATH']}",
        "PS1": "ready> ",
        "TERM": "dumb",
        "HOME": str(tmp_path),
        "INPUTRC": os.devnull,
    }
    command = ["bash", "--norc", "--noprofile", "-i"]
    with closing(Terminal(*command, cwd=tmp_path, env=environment)) as shell:
        source = 'eval "$(_LLAMAHERD_COMPLETE=bash_source llamaherd)"; echo do"ne"\n'
        shell.type(source, "done")
        shell.type("llamaherd doc\t", "llamaherd doctor ")
        shell.type("\x15llamaherd models dow\t", "llamaherd models download ")
        shell.type("\x15llamaherd serve --api-\t", "llamaherd serve --api-key ")
        shell.type("\x15llamaherd serve my\t", "llamaherd serve my-model.gguf ")
        shell.type(
            "\x15llamaherd annotate texts.csv --model my\t", "--model my-model.gguf "
        )


@pytest.mark.more(reason="a process for each case", cases=1)
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_gets_its_function(shell: str) -> None:
    environment = {**os.environ, "_LLAMAHERD_COMPLETE": f"{shell}_source"}
    command = [PROGRAM / "llamaherd"]
    process = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True
    )
    assert f"_LLAMAHERD_COMPLETE={shell}_complete" in process.stdout
