"""Shared parts of commands on tables: options, description and end of a run."""

from __future__ import annotations

import os
import sys
import warnings
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from llamaherd.asks.options import EmbedOptions, GenerateOptions
from llamaherd.asks.settings import help_of
from llamaherd.cli.chat_flags import thinking_of as _thinking
from llamaherd.cli.chat_flags import variables_of as _variables
from llamaherd.cli.conventions import (
    EXPECTED,
    ExitStatus,
    Whole,
    failed,
    section,
    tell,
    warn,
)
from llamaherd.cli.model_flags import fits_file_to_memory, gpu_options
from llamaherd.core import checks
from llamaherd.core.errors import BadArgumentError
from llamaherd.core.sampling import DEFAULT_SEED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from llamaherd.model.model import Model
    from llamaherd.ray import Herd
    from llamaherd.run.host import Host
    from llamaherd.tables.execution import Outcome
    from llamaherd.tables.spec import RunSpec
    from llamaherd.tasks.task import Kind

_files = section("Tables")
_asked = section("Model and prompts")
_how = section("Computation")
_parts = section("Journal, and parts of a run")
_COUNT = Whole(1)
_CLUSTER_BLOCK = 200_000  # rows per block, which is divided among actors

EXIT = """\
Exit status: 0 all rows are done; 3 all are done, but some failed (the column "error" has
the reasons); 1 failed while running; 2 invalid options, TOML or input, nothing was
computed; 130 Ctrl-C or 143 SIGTERM: the same command continues the run.
"""


def _shard(
    ctx: click.Context, param: click.Parameter, value: str | None
) -> tuple[int, int] | None:
    if value is None:
        return None
    i, slash, n = value.partition("/")
    if not (slash and i.isdigit() and n.isdigit() and 1 <= int(i) <= int(n)):
        message = f"{value!r} is not a part such as 1/50 or 50/50."
        raise click.BadParameter(message, ctx, param)
    return int(i), int(n)


_COMMON = [
    click.argument("table", metavar="INPUT"),
    _files(
        "-o",
        "--out",
        "output",
        metavar="FILE",
        help=".csv, .tsv, .jsonl or .parquet. Default: stdout, in JSON lines if INPUT "
        "is JSON lines, otherwise in CSV.",
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
        help="Delimiter of CSV. Default: comma, or tab for .tsv.",
    ),
    _files("--prefix", metavar="TEXT", help="Prefix of the names of new columns."),
    _files(
        "--spreadsheet",
        is_flag=True,
        default=None,
        help="Write CSV whose cells spreadsheets do not read as formulas.",
    ),
    _asked(
        "-m",
        "--model",
        "model__path",
        metavar="MODEL",
        help="A GGUF file, hf:owner/repo, ollama:name, or a name in the cache.",
    ),
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


def drawing_options(
    option: Callable[..., Callable[[Any], Any]],
    table: str,
    declared: type,
    drawn: str = "a temperature",
) -> Callable[[Any], Any]:
    """Declare `--temperature` and `--seed` in a section of the help.

    Args:
        option: Decorator of the section, see `section`.
        table: Table of the run file that the options belong to.
        declared: Class that declares the options.
        drawn: Setting that makes answers depend on the seed, for the help.
    """
    usual = {
        "temperature": "Default 0: always the most likely token.",
        "seed": f"Needs {drawn}. Default {DEFAULT_SEED}.",
    }
    helps = {name: help_of(declared, name, more) for name, more in usual.items()}

    def declare(function: Any) -> Any:  # noqa: ANN401 - types of click
        given = {"type": Whole(0), "metavar": "N", "help": helps["seed"]}
        function = option("--seed", f"{table}__seed", **given)(function)
        given = {"type": float, "metavar": "X", "help": helps["temperature"]}
        return option("--temperature", f"{table}__temperature", **given)(function)

    return declare


def thought_options(
    option: Callable[..., Callable[[Any], Any]],
    table: str,
    declared: type,
    *,
    seed: bool = False,
) -> Callable[[Any], Any]:
    """Declare `--n-thoughts`, and `--seed` for the draws of several thoughts.

    Args:
        option: Decorator of the section, see `section`.
        table: Table of the run file that the options belong to.
        declared: Class that declares the options.
        seed: Whether to declare `--seed`.
    """
    helps = {
        name: help_of(declared, name, more)
        for name, more in {
            "n_thoughts": "Probabilities are means over thoughts. Needs --thinking. "
            "Default 1.",
            "seed": f"Used with several thoughts. Default {DEFAULT_SEED}.",
        }.items()
    }

    def declare(function: Any) -> Any:  # noqa: ANN401 - types of click
        if seed:
            given = {"type": Whole(0), "metavar": "N", "help": helps["seed"]}
            function = option("--seed", f"{table}__seed", **given)(function)
        given = {"type": _COUNT, "metavar": "K", "help": helps["n_thoughts"]}
        return option("--n-thoughts", f"{table}__n_thoughts", **given)(function)

    return declare


def table_options(*, prompts: bool, system: bool) -> Callable[[Any], Any]:
    """Declare the options that all commands on tables have.

    Args:
        prompts: Whether the command makes prompts from the rows.
        system: Whether the user sets the system message and the start of answers; a
            codebook sets both itself.
    """

    def declare(function: Any) -> Any:  # noqa: ANN401 - types of click
        chat = [_SYSTEM, *_CHAT, _PREFIX] if system else _CHAT
        own = [*_PROMPTS, *chat] if prompts else []
        for option in reversed([*_COMMON, *own, gpu_options("model__")]):
            function = option(function)
        return function

    return declare


def labels_of(given: str | None) -> list[str] | None:
    """Parse labels: separated by commas, or a file with one label per line.

    Raises:
        click.BadParameter: There is only one label, or the file cannot be read.
    """
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


def run_table(task: Kind | None, options: Mapping[str, Any]) -> int:
    """Execute the run that a command's options describe, and return the exit status.

    Args:
        task: Task of the command; None uses the task of the TOML file, or "generate".
        options: Options by the keys that they set, with "__" for the dot of nested keys.
    """
    from llamaherd.tables.execution import (  # noqa: PLC0415 - loads the engine
        BLOCK,
        do_run,
        on_this_machine,
    )
    from llamaherd.tables.spec_file import changed, write_spec  # noqa: PLC0415

    given = {
        key.replace("__", "."): value
        for key, value in options.items()
        if value is not None
    }
    shard, save = given.pop("shard", None), given.pop("save", None)
    overwrite = given.pop("overwrite", False)
    is_quiet, cluster = given.pop("quiet", False), given.pop("cluster", None)
    spec = _spec(task, given.pop("table"), given)
    if "path" not in spec.model:
        raise click.UsageError("Missing option '-m' / '--model': the model to use.")
    if save is not None:
        write_spec(spec, save)
        tell(f"wrote {save}; `llamaherd run {save}` executes it")
        return ExitStatus.DONE
    show = sys.stderr.isatty() and not is_quiet
    has_begun = False

    def open_host(spec: RunSpec) -> AbstractContextManager[Host | Model]:
        nonlocal has_begun
        has_begun = True
        spec = changed(spec, {"model.path": str(_model_file(spec, show))})
        return on_this_machine(spec) if cluster is None else _herd(cluster, spec)

    with shown_warnings(), _ending(spec, shard):
        try:
            outcome = do_run(
                spec,
                shard=shard,
                progress=show,
                overwrite=overwrite,
                open_host=open_host,
                block=BLOCK if cluster is None else _CLUSTER_BLOCK,
            )
        except EXPECTED as error:
            if has_begun and not isinstance(error, (BadArgumentError, BrokenPipeError)):
                return failed(error)
            raise
    return ended(outcome)


def _model_file(spec: RunSpec, show: bool) -> Path:
    """Return the model file of a run, downloaded if needed; `show` prints its source."""
    from llamaherd.hub.fetch import model_path  # noqa: PLC0415
    from llamaherd.tables.execution import of_table  # noqa: PLC0415

    with of_table("model"):
        is_limited = fits_file_to_memory(spec.loading)
    return model_path(spec.path, check_memory=is_limited, name="model", progress=show)


def ended(outcome: Outcome) -> int:
    """Print how a run ended, and return the exit status."""
    if outcome.problem:
        warn(outcome.problem)
    if outcome.summary:
        click.echo(outcome.summary, err=True)
    if outcome.n_failed:
        warn(
            f"{outcome.n_failed} of {outcome.n_rows} rows failed; their column "
            f"{outcome.error_column!r} gives the reasons"
        )
        return ExitStatus.ROWS_FAILED
    return ExitStatus.DONE


def _herd(address: str, spec: RunSpec) -> Herd:
    """Start the herd (actors on a cluster) for a run."""
    from llamaherd.ray import Herd  # noqa: PLC0415 - optional dependency
    from llamaherd.tables.execution import of_table  # noqa: PLC0415

    own = {
        key: value
        for key, value in spec.loading.items()
        if key not in ("check_memory", "check_tensors")
    }
    where = None if address == "local" else address
    with of_table("context"):
        return Herd(spec.path, address=where, **own, **spec.context)


def _spec(task: Kind | None, table: str, given: dict[str, Any]) -> RunSpec:
    """Return the run that a TOML file or the options describe."""
    from llamaherd.tables.spec_file import (  # noqa: PLC0415
        changed,
        parsed_setting,
        read_spec,
        spec_of,
    )

    settings = dict(map(parsed_setting, given.pop("settings", ())))
    is_file = table.lower().endswith(".toml")
    if is_file:
        spec = read_spec(table)
        if task is not None and spec.task != task:
            raise click.UsageError(
                f"{table} describes a run of task {spec.task!r}: `llamaherd run {table}` "
                "executes it."
            )
        given = {key: _absolute(key, value) for key, value in given.items()}
    else:
        run_fields: dict[str, Any] = {"task": task or "generate", "input": table}
        # Fields that every run needs.
        if "classify.labels" in given:
            run_fields["classify"] = {"labels": given.pop("classify.labels")}
        if "codebook" in given:
            run_fields["codebook"] = given.pop("codebook")
        spec = spec_of(run_fields, Path.cwd())
    for name in ("n_threads", "deterministic"):  # in a table that depends on the task
        if name in given:
            where = "embed" if spec.task == "embed" else "context"
            given[f"{where}.{name}"] = given.pop(name)
    return changed(spec, {**given, **settings})


def _absolute(key: str, value: Any) -> Any:  # noqa: ANN401 - value of an option
    """Return an option's value; if it is a path, make the path absolute."""
    is_path = key in (
        "output",
        "journal",
        "sampling.schema",
        "codebook",
        "chat_template",
    ) and value not in ("", "-")
    if key == "codebook" and str(value).startswith("ready:"):
        return value
    is_model = key in ("model.path", "annotate.embeddings", "annotate.larger")
    if is_path or (is_model and os.path.isfile(value)):  # noqa: PTH113
        return os.path.abspath(value)  # noqa: PTH100
    return value


@contextmanager
def _ending(spec: RunSpec, shard: tuple[int, int] | None) -> Iterator[None]:
    """After Ctrl-C or SIGTERM in the block, print how to resume the run."""
    from llamaherd.tables.execution import journal_path  # noqa: PLC0415

    try:
        yield
    except KeyboardInterrupt:
        path = journal_path(spec, shard)
        if path is None:
            warn("ended early; no results are kept, because there was no journal")
        else:
            warn(f"ended early: {path} has the finished rows, and the same command "
                 "continues from there")  # fmt: skip
        raise


@contextmanager
def shown_warnings() -> Iterator[None]:
    """Show warnings in the format of the command."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: warn(str(message))
        yield
