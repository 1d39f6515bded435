"""Commands on tables, with their options."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from llamaherd.calls.asks.options import EmbedOptions, GenerateOptions
from llamaherd.calls.asks.settings import help_of
from llamaherd.cli.conventions import Command, WholeNumber, section
from llamaherd.cli.model_flags import gpu_options, model_option
from llamaherd.cli.model_flags import thinking_of as _thinking
from llamaherd.cli.model_flags import variables_of as _variables
from llamaherd.cli.tables import EXIT, run_table
from llamaherd.engine.core import checks, values
from llamaherd.engine.core.declaration import options_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from llamaherd.engine.core.declaration import Option, Options
    from llamaherd.tasks.task import Kind

_files = section("Tables")
_asked = section("Model and prompts")
_how = section("Computation")
_parts = section("Journal, and parts of a run")
_COUNT = WholeNumber(1)


def _shard(
    ctx: click.Context, param: click.Parameter, value: str | None
) -> tuple[int, int] | None:
    if value is None:
        return None
    first, _, last = value.partition("/")
    i, n = checks.digits(first), checks.digits(last)
    if i is None or n is None or not 1 <= i <= n:
        message = f"{value!r} is not a part such as 1/50 or 50/50."
        raise click.BadParameter(message, ctx, param)
    return i, n


_COMMON = [
    click.argument("table", metavar="INPUT"),
    _files(
        "-o",
        "--out",
        "output",
        metavar="FILE",
        help=".csv, .tsv, .jsonl, .ndjson (also with .gz or .zst) or .parquet. Default: "
        "stdout, in JSON lines if INPUT is JSON lines, otherwise in CSV.",
    ),
    _files(
        "--overwrite",
        is_flag=True,
        help="Replace an output that llamaherd did not write, or that was changed.",
    ),
    _files(
        "--encoding",
        metavar="NAME",
        help="Encoding of CSV and JSON lines. Default utf-8.",
    ),
    _files(
        "--delimiter",
        metavar="CHAR",
        help="Delimiter of CSV. Default: comma. In .tsv it is a tab.",
    ),
    _files(
        "--no-header",
        "header",
        flag_value=False,
        default=None,
        help="The first row of CSV is no header: columns are column_1, column_2 and so "
        "on; a single column is text.",
    ),
    _files(
        "--limit",
        type=_COUNT,
        metavar="N",
        help="Read only the first N rows.",
    ),
    _files("--prefix", metavar="TEXT", help="Prefix of the names of new columns."),
    _files(
        "--spreadsheet",
        is_flag=True,
        default=None,
        help="Write CSV whose cells spreadsheets do not read as formulas.",
    ),
    model_option(_asked, "model__path"),
    _asked("--column", metavar="NAME", help='Column with the texts. Default "text".'),
    _how(
        "--n-threads",
        type=_COUNT,
        metavar="N",
        help=help_of(EmbedOptions, "n_threads", "Default: the physical cores."),
    ),
    _how(
        "--deterministic",
        is_flag=True,
        default=None,
        help="Make answers bit-identical, independent of other rows; slower.",
    ),
    _how(
        "--cluster",
        metavar="ADDRESS",
        help="Address of a Ray cluster: auto, host:port, ray://... or local.",
    ),
    _how(
        "--set",
        "settings",
        multiple=True,
        metavar="KEY=VALUE",
        help="Any other key of the TOML file, such as sampling.top_p=0.9.",
    ),
    _parts(
        "--journal",
        metavar="FILE",
        help=help_of(
            GenerateOptions, "journal", "Default OUTPUT.journal; '' for no journal."
        ),
    ),
    _parts(
        "--shard",
        callback=_shard,
        metavar="I/N",
        help="Answer one of N parts into its journal, for `llamaherd merge`.",
    ),
    _parts(
        "--save",
        metavar="FILE.toml",
        help="Only write a description of the run, for `llamaherd run FILE.toml`.",
    ),
    _parts(
        "--show-prompt",
        is_flag=True,
        help="Only print the prompt of the first row, as the model reads it.",
    ),
    _parts("-q", "--quiet", is_flag=True, help="No progress bar."),
]
_PROMPTS = [
    _asked(
        "--prompt",
        metavar="TEXT",
        help="Prompt, with {column} for a value of the row. Replaces --column.",
    ),
    _asked(
        "--chat",
        is_flag=True,
        default=None,
        help=help_of(GenerateOptions, "chat"),
    ),
    _how(
        "--n-seq-max",
        "context__n_seq_max",
        type=_COUNT,
        metavar="N",
        help="Maximum number of concurrent rows. Default: chosen for the machine.",
    ),
    _how(
        "--n-ctx",
        "context__n_ctx",
        type=_COUNT,
        metavar="N",
        help="Tokens in the KV cache. Default: as needed.",
    ),
]

_CHAT = [
    _asked(
        "--thinking",
        metavar="N|on|off",
        callback=_thinking,
        help=help_of(GenerateOptions, "thinking", "Needs --chat."),
    ),
    _asked(
        "--var",
        "variables",
        metavar="NAME=VALUE",
        multiple=True,
        callback=_variables,
        help=help_of(GenerateOptions, "variables", "May be given several times."),
    ),
    _asked(
        "--template",
        "chat_template",
        metavar="FILE",
        help=help_of(GenerateOptions, "template"),
    ),
    _asked(
        "--merge-system",
        is_flag=True,
        default=None,
        help=help_of(GenerateOptions, "merge_system"),
    ),
]
_PREFIX = _asked(
    "--answer-prefix", metavar="TEXT", help=help_of(GenerateOptions, "prefix")
)
_SYSTEM = _asked(
    "--system", metavar="TEXT", help=help_of(GenerateOptions, "system", "Needs --chat.")
)


def declared_flags(
    option: Callable[..., Callable[[Any], Any]],
    table: str,
    options: type[Options],
    *,
    words: Mapping[str, str] | None = None,
    sections: Mapping[str, Callable[..., Callable[[Any], Any]]] | None = None,
) -> Callable[[Any], Any]:
    """Declare the flags of options, in the order of their declaration."""
    declared = options_of(options)
    if words is None:
        words = {n: each.flag for n, each in declared.items() if each.flag is not None}

    def declare(function: Any) -> Any:  # noqa: ANN401 - types of click
        for name in reversed([name for name in declared if name in words]):
            each = declared[name]
            decorate = (sections or {}).get(each.facts.get("section", ""), option)
            flag = each.facts.get("flag_name", f"--{name.replace('_', '-')}")
            text = f"{each.sentence} {words[name]}".strip()
            form = _form_of(each)
            function = decorate(flag, f"{table}__{name}", help=text, **form)(function)
        return function

    return declare


def _form_of(option: Option) -> dict[str, Any]:
    """Return the arguments of click for the values of an option."""
    kind = option.kind
    if isinstance(kind, values.Whole):
        return {"type": WholeNumber(max(0, kind.low)), "metavar": "N"}
    if isinstance(kind, values.Real):
        return {"type": float, "metavar": "X"}
    if isinstance(kind, values.Choice):
        return {"type": click.Choice([c for c in kind.choices if isinstance(c, str)])}
    if isinstance(kind, values.Flag) or option.default is False:
        return {"is_flag": True, "default": None}
    return {"metavar": option.facts.get("metavar", "TEXT")}


def labels_flag(
    option: Callable[..., Callable[[Any], Any]], key: str, help_text: str
) -> Callable[[Any], Any]:
    """Return a decorator for `--labels`, which sets a key of the run file."""
    return option(
        "--labels",
        key,
        metavar="A,B,C",
        callback=lambda _ctx, _param, value: labels_of(value),
        help=f"{help_text} Or a file with one label per line.",
    )


class TableCommand(Command):
    """A command that runs a task on each row of a table.

    Its options are those of all tables, those of prompts, and a flag for each declared
    option of the task that states words for the command line.
    """

    def __init__(
        self,
        name: str,
        task: Kind | None,
        options: type[Options],
        table: str,
        title: str,
        *own: Callable[[Any], Any],
        needed: Mapping[str, str] | None = None,
        prompts: bool = True,
        system: bool = True,
        sections: Mapping[str, Callable[..., Callable[[Any], Any]]] | None = None,
        **more: Any,  # noqa: ANN401 - of click
    ) -> None:
        self._task, self._needed = task, needed or {}
        chat = [_SYSTEM, *_CHAT, _PREFIX] if system else _CHAT
        flags = declared_flags(section(title), table, options, sections=sections)
        of_prompts = [*_PROMPTS, *chat] if prompts else []
        every = [*_COMMON, *of_prompts, gpu_options("model__"), *own, flags]

        def holder() -> None:
            """Collect the options that the decorators declare."""

        for decorate in reversed(every):
            decorate(holder)
        params = list(reversed(vars(holder)["__click_params__"]))
        super().__init__(name, callback=self._start, params=params, epilog=EXIT, **more)

    def _start(self, **given: Any) -> None:  # noqa: ANN401 - types of click
        is_file = given["table"].lower().endswith(".toml")
        for key, flag in self._needed.items():
            if given[key] is None and not is_file:
                raise click.UsageError(f"Missing option '{flag}'.")
        click.get_current_context().exit(run_table(self._task, given))


def labels_of(given: str | None) -> list[str] | None:
    """Parse labels: separated by commas, or a file with one label per line."""
    if given is None:
        return None
    lines = given.split(",")
    if len(lines) == 1:
        if not os.path.isfile(given):  # noqa: PTH113 - never raises
            raise click.BadParameter(
                f"there is no file {checks.quoted(given)}, and a single label "
                "leaves no choice: give A,B,C or a file with one label per line.",
                param_hint="'--labels'",
            )
        try:
            lines = Path(given).read_text(encoding="utf-8-sig").splitlines()
        except ValueError as error:
            raise click.BadParameter(
                f"the file {given} is not UTF-8: {error}", param_hint="'--labels'"
            ) from None
        return [line.strip() for line in lines if line.strip()]
    labels = [line.strip() for line in lines]
    for label in labels:
        if label.startswith('"') != label.endswith('"'):  # parts of one quoted label
            raise click.BadParameter(
                f"{checks.quoted(given)} would have the label {checks.quoted(label)}: "
                "commas divide labels, also between quotation marks. Write labels with "
                "commas into a file, one per line.",
                param_hint="'--labels'",
            )
    if "" in labels:
        raise click.BadParameter(
            f"label {labels.index('') + 1} of {checks.quoted(given)} is empty: remove "
            "the comma, or write the labels into a file, one per line.",
            param_hint="'--labels'",
        )
    return labels
