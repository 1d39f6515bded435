"""`llamaherd chat`: a conversation in the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from llamaherd.calls.asks.options import CHAT_DEFAULTS, EmbedOptions, GenerateOptions
from llamaherd.calls.asks.settings import help_of
from llamaherd.cli.chat_flags import thinking_of, variables_of
from llamaherd.cli.conventions import Command, ExitStatus, WholeNumber, failed, section
from llamaherd.cli.model_flags import gpu_options, load_model, take_gpu_options
from llamaherd.cli.table_options import declared_flags
from llamaherd.engine.core.plain import DuplicateKeyError, read_json
from llamaherd.engine.core.sampling import SamplingParams

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.engine.model.model import Model

_HELP = """\
Talk to a model in the terminal.

Answers appear while they are written, each after its dimmed thought. Ctrl-C ends an
answer; at the prompt, Ctrl-C and Ctrl-D quit. /help lists the commands.

If stdin is not a terminal, each of its lines is a question; answers without thoughts are
written to stdout.
"""
_EXAMPLES = """\
llamaherd chat SmolLM2
llamaherd chat model.gguf --system "Answer in one sentence." --temperature 0.7
llamaherd chat hf:owner/repo --thinking 512
echo "Name a river." | llamaherd chat model.gguf
"""
_EPILOG = """\
Exit status: 0 success, 1 failed while running, 2 invalid options, 3 some
questions failed (only without a terminal), 130 Ctrl-C, 143 SIGTERM.
"""
_answers = section("Answers")
_how = section("Computation")
_COUNT = WholeNumber(1)
_WORDS = {
    "max_tokens": f"Default {CHAT_DEFAULTS['max_tokens']}.",
    **{name: str(SamplingParams.declared[name].flag) for name in ("temperature", "seed")},
}


@click.command("chat", cls=Command, help=_HELP, examples=_EXAMPLES, epilog=_EPILOG)
@click.argument("model", metavar="MODEL")
@_answers(
    "--system",
    metavar="TEXT",
    help=help_of(GenerateOptions, "system").split(".")[0] + ".",
)
@_answers(
    "--thinking",
    metavar="N|on|off",
    callback=thinking_of,
    help=help_of(GenerateOptions, "thinking"),
)
@_answers(
    "--var",
    "variables",
    metavar="NAME=VALUE",
    multiple=True,
    callback=variables_of,
    help=help_of(GenerateOptions, "variables"),
)
@declared_flags(_answers, "chat", GenerateOptions, words=_WORDS)
@_answers(
    "--set",
    "more",
    multiple=True,
    metavar="NAME=VALUE",
    help="Any other option of llamaherd.chat, such as top_p=0.9.",
)
@_answers(
    "--continue",
    "saved",
    metavar="FILE",
    help="Continue a conversation that /save wrote.",
)
@_how(
    "--n-ctx",
    type=_COUNT,
    metavar="N",
    help="Maximum tokens of the conversation. Default: as needed.",
)
@_how(
    "--n-threads",
    type=_COUNT,
    metavar="N",
    help=help_of(EmbedOptions, "n_threads", "Default: the physical cores."),
)
@gpu_options()
def chat(
    model: str,
    *,
    system: str | None,
    more: Sequence[str],
    saved: str | None,
    n_ctx: int | None,
    n_threads: int | None,
    **given: Any,  # noqa: ANN401 - as declared above
) -> int:
    """Run the conversation and return the exit status."""
    from llamaherd.tables.spec_file import parsed_setting  # noqa: PLC0415 - fast help

    loading = take_gpu_options(given)
    settings = {
        name.removeprefix("chat__"): value
        for name, value in given.items()
        if value is not None
    }
    settings |= dict(parsed_setting(text) for text in more)
    turns = []
    if saved is not None:
        try:
            turns = read_json(Path(saved).read_text(encoding="utf-8-sig"))
        except DuplicateKeyError as error:
            return failed(f"{saved}: {error}", ExitStatus.WRONG_USE)
        except (ValueError, RecursionError):
            return failed(f"{saved} has no conversation", ExitStatus.WRONG_USE)
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
    from llamaherd.calls.api.chat import Chat  # noqa: PLC0415 - keeps the help fast
    from llamaherd.calls.run.context import Context  # noqa: PLC0415
    from llamaherd.cli.console import Console  # noqa: PLC0415

    with (
        Context(model, kv_layout="unified", **where) as context,
        Chat(context, system, turns=turns, **settings) as conversation,
    ):
        return Console(conversation).run()
