"""What the commands over tables share: options, the run they describe, how it ends."""

from __future__ import annotations

import os
import sys
import warnings
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from llamaherd.cli.conventions import EXPECTED, Status, Whole, failed, section, tell, warn
from llamaherd.core import checks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from llamaherd.model.model import Model
    from llamaherd.ray import Herd
    from llamaherd.run.host import Host
    from llamaherd.runs.doing import Outcome
    from llamaherd.runs.spec import RunSpec, Task

_files = section("Rows in and out")
_asked = section("What is asked of each row")
_how = section("How it is computed")
_parts = section("In parts, and again")
_COUNT = Whole(1)
_CLUSTER_BLOCK = 200_000  # rows that are handed out together: many actors share them

EXIT = """\
Exit status: 0 all rows are done, 3 so are they but some failed (the column "error" says
why), 1 it failed while at it, 2 options, TOML or input cannot be used as asked (nothing
was computed), 130 Ctrl-C, 143 SIGTERM: the same command goes on.
"""


def _shard(
    ctx: click.Context, param: click.Parameter, value: str | None
) -> tuple[int, int] | None:
    if value is None:
        return None
    i, slash, n = value.partition("/")
    if not (slash and i.isdigit() and n.isdigit() and 1 <= int(i) <= int(n)):
        message = f"{value!r} is no part of a whole, such as 1/50 or 50/50."
        raise click.BadParameter(message, ctx, param)
    return int(i), int(n)


_COMMON = [
    click.argument("table", metavar="INPUT"),
    _files(
        "-o",
        "--out",
        "output",
        metavar="FILE",
        help=".csv, .tsv, .jsonl or .parquet; without it stdout gets the table: JSON "
        "lines if INPUT is that, otherwise CSV.",
    ),
    _files(
        "--overwrite",
        is_flag=True,
        help="Replace an output that llamaherd did not write, or somebody changed.",
    ),
    _files("--encoding", metavar="NAME", help="Of CSV and JSON lines; default utf-8."),
    _files("--delimiter", metavar="CHAR", help="Of CSV; default a comma, or a tab."),
    _files("--prefix", metavar="TEXT", help="What names of new columns begin with."),
    _files(
        "--spreadsheet",
        is_flag=True,
        default=None,
        help="Write CSV for Excel and the like: no cell is taken for a formula.",
    ),
    _asked(
        "-m",
        "--model",
        "model__path",
        metavar="MODEL",
        help="A GGUF file, hf:owner/repo, ollama:name, or a name in the cache.",
    ),
    _asked("--column", metavar="NAME", help='Its texts; default "text".'),
    _how("--n-threads", type=_COUNT, metavar="N", help="Default: the physical cores."),
    _how(
        "--deterministic",
        is_flag=True,
        default=None,
        help="Answers that do not depend on what else runs, bit for bit; slower.",
    ),
    _how(
        "--cluster",
        metavar="ADDRESS",
        help="Of a cluster of Ray that computes: auto, host:port, ray://...; or local.",
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
        help="What is finished is kept there; default OUTPUT.journal; '': nowhere.",
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
        help="Write the run's description and stop; `llamaherd run FILE.toml` does it.",
    ),
    _parts("-q", "--quiet", is_flag=True, help="No progress bar."),
]
_PROMPTS = [
    _asked(
        "--prompt",
        metavar="TEXT",
        help="Instead of --column: with {column} where a row's values go.",
    ),
    _asked(
        "--chat",
        is_flag=True,
        default=None,
        help="The model's chat template makes the prompt of that.",
    ),
    _asked("--system", metavar="TEXT", help="With --chat: a message that comes before."),
    _how(
        "--n-seq-max",
        "context__n_seq_max",
        type=_COUNT,
        metavar="N",
        help="Rows that run at once; default: what suits the machine.",
    ),
    _how(
        "--n-ctx",
        "context__n_ctx",
        type=_COUNT,
        metavar="N",
        help="Tokens that the KV cache holds; default: what is needed.",
    ),
]


def table_options(*, prompts: bool) -> Callable[[Any], Any]:
    """Declares the options that all of these commands have.

    Args:
        prompts: Whether it makes prompts of the rows.
    """

    def declare(function: Any) -> Any:  # noqa: ANN401 - of click
        for option in reversed([*_COMMON, *(_PROMPTS if prompts else [])]):
            function = option(function)
        return function

    return declare


def labels_of(given: str | None) -> list[str] | None:
    """Labels as a user gives them: with commas between, or a file with one a line.

    Raises:
        click.BadParameter: It is a single one, or a file that cannot be read.
    """
    if given is None:
        return None
    lines = given.split(",")
    if len(lines) == 1:
        if not os.path.isfile(given):  # noqa: PTH113 - never raises
            raise click.BadParameter(
                f"there is no file {checks.quoted(given)}, and a label alone "
                "leaves nothing to choose: give A,B,C or a file with one a line.",
                param_hint="'--labels'",
            )
        try:
            lines = Path(given).read_text(encoding="utf-8-sig").splitlines()
        except ValueError as error:
            raise click.BadParameter(
                f"the file {given} is not UTF-8: {error}", param_hint="'--labels'"
            ) from None
    return [line.strip() for line in lines if line.strip()]


def run_table(task: Task | None, options: Mapping[str, Any]) -> int:
    """Does what a command's options say. Returns the status to exit with.

    Args:
        task: Of the command; None: of the TOML file, or "generate".
        options: By the keys that they set, with "__" for the dot of those in a table.
    """
    from llamaherd.runs.doing import (  # noqa: PLC0415 - loads the engine
        BLOCK,
        do_run,
        on_this_machine,
    )
    from llamaherd.runs.spec_file import changed, write_spec  # noqa: PLC0415

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
        raise click.UsageError("Missing option '-m' / '--model': which model to ask.")
    if save is not None:
        write_spec(spec, save)
        tell(f"wrote {save}; `llamaherd run {save}` does it")
        return Status.DONE
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
            if has_begun:
                return failed(error)
            raise
    return ended(outcome)


def _model_file(spec: RunSpec, show: bool) -> Path:
    """The run's model; only who looks on is told where it comes from."""
    from llamaherd.hub.fetch import model_path  # noqa: PLC0415

    own = spec.loading
    is_limited = own.get("check_memory", True) and not own.get("n_gpu_layers")
    return model_path(spec.path, check_memory=is_limited, name="model", progress=show)


def ended(outcome: Outcome) -> int:
    """Tells how a run ended. Returns the status to exit with."""
    if outcome.problem:
        warn(outcome.problem)
    if outcome.n_failed:
        warn(
            f"{outcome.n_failed} of {outcome.n_rows} rows failed; their column 'error' "
            "says why"
        )
        return Status.ROWS_FAILED
    return Status.DONE


def _herd(address: str, spec: RunSpec) -> Herd:
    """What runs a run's prompts on a cluster."""
    from llamaherd.ray import Herd  # noqa: PLC0415 - an extra

    own = {
        key: value
        for key, value in spec.loading.items()
        if key not in ("check_memory", "check_tensors")
    }
    where = None if address == "local" else address
    return Herd(spec.path, address=where, **own, **spec.context)


def _spec(task: Task | None, table: str, given: dict[str, Any]) -> RunSpec:
    """The run that a TOML file or the options describe."""
    from llamaherd.runs.spec_file import (  # noqa: PLC0415
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
                "does it."
            )
        given = {key: _absolute(key, value) for key, value in given.items()}
    else:
        told: dict[str, Any] = {"task": task or "generate", "input": table}
        if "classify.labels" in given:  # without them there is no such run
            told["classify"] = {"labels": given.pop("classify.labels")}
        spec = spec_of(told, Path.cwd())
    for name in ("n_threads", "deterministic"):  # a key of another table for each task
        if name in given:
            where = "embed" if spec.task == "embed" else "context"
            given[f"{where}.{name}"] = given.pop(name)
    found: RunSpec = changed(spec, {**given, **settings})
    return found


def _absolute(key: str, value: Any) -> Any:  # noqa: ANN401 - of an option
    """A path of an option is relative to where the command runs, not to the TOML file."""
    is_path = key in ("output", "journal", "sampling.schema") and value not in ("", "-")
    if is_path or (key == "model.path" and os.path.isfile(value)):  # noqa: PTH113
        return os.path.abspath(value)  # noqa: PTH100
    return value


@contextmanager
def _ending(spec: RunSpec, shard: tuple[int, int] | None) -> Iterator[None]:
    """Says how to go on where Ctrl-C or SIGTERM ends a run."""
    from llamaherd.runs.doing import journal_path  # noqa: PLC0415

    try:
        yield
    except KeyboardInterrupt:
        path = journal_path(spec, shard)
        if path is None:
            warn("ended before its end; nothing is kept, since there was no journal")
        else:
            warn(f"ended before its end: {path} has what is finished, and the same "
                 "command goes on from there")  # fmt: skip
        raise


@contextmanager
def shown_warnings() -> Iterator[None]:
    """Shows warnings as this command's."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: warn(str(message))
        yield
