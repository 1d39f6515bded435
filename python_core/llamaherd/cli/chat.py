"""`llamaherd chat`: a conversation in the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from llamaherd.calls.asks.options import CHAT_DEFAULTS, GenerateOptions
from llamaherd.cli.conventions import ExitStatus, print_failure
from llamaherd.cli.model_flags import GPU, N_THREADS, load_model, take_table
from llamaherd.cli.page import command, declared_flags
from llamaherd.engine.core.files import text_of_file
from llamaherd.engine.core.plain import DuplicateKeyError, read_json
from llamaherd.tables.spec_keys import RunKeys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.engine.model.model import Model

_OF_CHATS = ("system", "thinking", "variables")
_OF_ANSWERS = ("max_tokens", "temperature", "seed")
_WORDS = {"max_tokens": f"Default {CHAT_DEFAULTS['max_tokens']}."}


@command(
    "chat MODEL",
    f"""
Talk to a model in the terminal.

Answers appear while they are written, each after its dimmed thought. Ctrl-C ends an
answer; at the prompt, Ctrl-C and Ctrl-D quit. /help lists the commands.

If stdin is not a terminal, each of its lines is a question; answers without thoughts are
written to stdout.

Answers:
{declared_flags(RunKeys, _OF_CHATS, words=dict.fromkeys(_OF_CHATS, ""))}
{declared_flags(GenerateOptions, _OF_ANSWERS, words=_WORDS)}
  --set KEY=VALUE... -> more  Any other option of llamaherd.chat, such as top_p=0.9.
  --continue FILE -> saved  Continue a conversation that /save wrote.

Computation:
  --n-ctx N  Maximum tokens of the conversation. Default: as needed.
  --n-threads N  {N_THREADS}
{GPU}
Examples:
  llamaherd chat SmolLM2
  llamaherd chat model.gguf --system "Answer in one sentence." --temperature 0.7
  llamaherd chat hf:owner/repo --thinking 512
  echo "Name a river." | llamaherd chat model.gguf

Exit status: 0 success, 1 failed while running, 2 invalid options, 3 some
questions failed (only without a terminal), 130 Ctrl-C, 143 SIGTERM.
""",
)
def chat(
    model: str,
    *,
    system: str | None,
    more: Sequence[str],
    saved: str | None,
    n_ctx: int | None,
    n_threads: int | None,
    **options: Any,  # of click
) -> int:
    """Run the conversation and return the exit status."""
    from llamaherd.tables.spec_file import parsed_setting  # fast help

    loading = take_table(options)
    settings = {name: value for name, value in options.items() if value is not None}
    settings |= dict(parsed_setting(text) for text in more)
    turns = []
    if saved is not None:
        text = text_of_file("", Path(saved))
        try:
            turns = read_json(text)
        except DuplicateKeyError as error:
            return print_failure(f"{saved}: {error}", ExitStatus.WRONG_USE)
        except (ValueError, RecursionError):
            return print_failure(f"{saved} has no conversation", ExitStatus.WRONG_USE)
    where = {"n_ctx": n_ctx or "auto", "n_threads": n_threads}
    with load_model(model, loading) as loaded:
        return _talk(loaded, where, system, turns, settings)


def _talk(
    model: Model,
    where: dict[str, Any],
    system: str | None,
    turns: Sequence[Any],
    settings: dict[str, Any],
) -> int:
    from llamaherd.calls.api.chat import Chat  # keeps the help fast
    from llamaherd.calls.run.context import Context
    from llamaherd.cli.console import Console

    with (
        Context(model, kv_layout="unified", **where) as context,
        Chat(context, system, turns=turns, **settings) as conversation,
    ):
        return Console(conversation).run()
