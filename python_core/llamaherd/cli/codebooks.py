"""`llamaherd codebooks`: choose a codebook by a gold sample and evaluate it."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from llamaherd.calls.asks.annotate_options import AnnotateOptions
from llamaherd.cli.model_flags import GPU, MODEL, load_model, take_table
from llamaherd.cli.page import Commands, declared_flags
from llamaherd.cli.tables import shown_warnings
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError, BadArgumentError
from llamaherd.engine.core.files import check_free, text_of_file, write_new
from llamaherd.tables.spec_keys import RunKeys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.calls.run.context import Context
    from llamaherd.coding.selection.comparison import CodebookComparison
    from llamaherd.coding.selection.evaluation import CodebookChoice

_MEASURES = "accuracy|balanced_accuracy|macro_f1|kappa|mae"
_OVERWRITE = "  --overwrite  Replace existing files."

codebooks = Commands(
    "codebooks",
    """
Choose a codebook by a gold sample, and measure the chosen one once.

GOLD.csv is a sheet that people coded; GOLD.csv.json contains the design of its sample.
`llamaherd gold sample` creates both. `split` divides the sample into the
parts explore, select and evaluate. Then use `compare`, `best` and `evaluate` in this
order. `ready` lists codebooks to start with.

Examples:
  llamaherd codebooks split gold.csv --seed 1
  llamaherd codebooks compare gold.csv -c plain.yaml -c shots.yaml \\
    -m model.gguf --journal compare.journal -o comparison.json
  llamaherd codebooks best comparison.json -o choice.json
  llamaherd codebooks evaluate choice.json gold.csv -m model.gguf
  llamaherd codebooks ready

Exit status: 0 success; 1 failed while running; 2 invalid arguments, nothing was computed;
130 Ctrl-C; 143 SIGTERM.
""",
)


@codebooks.declared(
    "split GOLD.csv",
    """
Split a gold sample into the parts explore, select and evaluate.

The split is stored in GOLD.csv.json; the sheet is not changed.

Options:
  --explore X  Share of the texts. [default: 0.2]
  --select X  Share of the texts. [default: 0.5]
  --evaluate X  Share of the texts. [default: 0.3]
  --seed SEED  Seed; default: a random one.

Examples:
  llamaherd codebooks split gold.csv --seed 1
  llamaherd codebooks split gold.csv --explore 0 --select 0.5 --evaluate 0.5
""",
)
def split(gold: str, **options: Any) -> None:  # of click
    """Split a sample and print the sizes of its parts."""
    from llamaherd.coding.selection.parts import PARTS, gold_split  # fast help

    with shown_warnings():
        parts = gold_split(gold, **options).parts or []
    for part in PARTS:
        click.echo(f"{part}\t{parts.count(part)}")


@codebooks.declared(
    "compare GOLD.csv",
    f"""
Compare codebooks on the texts of the part select.

With several models each codebook is tried with each model. The name of a candidate is the
name of its codebook's file, with several models also the name of the model.

Options:
  -c, --codebook FILE.yaml... -> books  A codebook file, or ready:NAME; give the option
      once for each codebook. [required]
  -m, --model MODEL... -> models  {MODEL} May be given several times. [required]
  --measure {_MEASURES}  Measure. Default: mae for a scale of numbers, otherwise accuracy.
{declared_flags(RunKeys, ("chat",))}
{declared_flags(AnnotateOptions, ("method", "calibrate"))}
  --journal FILE  Store answers; compute only new ones.
  -o, --out >FILE.json  Store the comparison.
{_OVERWRITE}
  --plot FILE  Plot agreement against seconds per text.
{GPU}
Examples:
  llamaherd codebooks compare gold.csv -c plain.yaml -c shots.yaml \\
    -m model.gguf -o comparison.json
""",
)
def compare(
    gold: str,
    *,
    books: Sequence[str],
    models: Sequence[str],
    out: str | None,
    overwrite: bool,
    plot: str | None,
    **settings: Any,  # of click
) -> None:
    """Compare codebooks, print the results and store the comparison."""
    from llamaherd.coding.annotation.codebook_file import codebook_from
    from llamaherd.coding.plots.plot import plot as draw
    from llamaherd.coding.selection.compare import (
        CodebookCandidate,
        compare_codebooks,
    )
    from llamaherd.tables.outputs import check_place
    from llamaherd.tables.stored import is_stream

    for name, path in (("out", out), ("plot", plot)):  # before hours of work
        if path is not None:
            check_free(Path(path), overwrite=overwrite, argument=name)
            if not is_stream(path):
                check_place(path, name)
    pyplot = None if plot is None else _pyplot(plot)
    loading = take_table(settings)
    options = {
        name: value for name, value in settings.items() if value not in (None, False)
    }
    read = {_stem(path, books): codebook_from(path) for path in books}
    with ExitStack() as stack, shown_warnings():
        contexts = {
            _stem(model_file, models): _context(model_file, loading, stack)
            for model_file in models
        }
        tried = {
            name if len(contexts) == 1 else f"{name}, {model}": CodebookCandidate(
                codebook=book, context=context
            )
            for model, context in contexts.items()
            for name, book in read.items()
        }
        comparison = compare_codebooks(
            None,
            tried,
            gold,
            progress=sys.stderr.isatty(),
            **options,
        )
    if out is not None:
        write_new(Path(out), comparison.to_json().encode(), overwrite=overwrite)
    if pyplot is not None:
        draw(comparison)
        pyplot.savefig(plot)
        pyplot.close()
    click.echo(str(comparison))


_Stored = TypeVar("_Stored", "CodebookComparison", "CodebookChoice")


def _read_stored(kind: type[_Stored], path: str) -> _Stored:
    """Read a result that an earlier command wrote to a JSON file."""
    text = text_of_file("", Path(path))
    try:
        return kind.from_json(text)
    except BadArgumentError as error:
        raise error.moved(argument="", file=path) from None


@codebooks.declared(
    "best COMPARISON.json",
    f"""
Select a codebook, and store the choice for one evaluation.

Options:
  --prefer value|speed  value: the best candidate; speed: the fastest candidate that may
      be best. [default: value]
  --name NAME  Candidate to select instead.
  -o, --out >FILE.json  Store the choice.
{_OVERWRITE}

Examples:
  llamaherd codebooks best comparison.json --prefer speed -o choice.json
""",
)
def best(comparison: str, out: str | None, *, overwrite: bool, **settings: Any) -> None:
    """Choose a codebook, print the choice and store it."""
    from llamaherd.coding.selection.comparison import (
        CodebookComparison,
    )
    from llamaherd.coding.selection.evaluation import best_codebook

    stored = _read_stored(CodebookComparison, comparison)
    choice = best_codebook(stored, **settings)
    if out is not None:
        write_new(Path(out), choice.to_json().encode(), overwrite=overwrite)
    click.echo(str(choice))


@codebooks.declared(
    "evaluate CHOICE.json GOLD.csv",
    f"""
Measure the selected codebook on the texts of the part evaluate.

The use of these texts is recorded in GOLD.csv.json. A warning reports if they were used
before, or if codes changed since the selection.

Options:
  -m, --model MODEL  {MODEL} [required]
  --journal FILE  File that stores all answers.
{GPU}
Examples:
  llamaherd codebooks evaluate choice.json gold.csv -m model.gguf
""",
)
def evaluate(choice: str, gold: str, model: str, **settings: Any) -> None:  # of click
    """Evaluate the chosen codebook and print all measures."""
    from llamaherd.coding.selection.evaluation import (
        CodebookChoice,
        evaluate_codebook,
    )

    frozen = _read_stored(CodebookChoice, choice)
    loading = take_table(settings)
    with ExitStack() as stack, shown_warnings():
        context = _context(model, loading, stack)
        progress = sys.stderr.isatty()
        evaluation = evaluate_codebook(
            frozen, gold, context, progress=progress, **settings
        )
    click.echo(f"{evaluation}\n\n{evaluation.validation}")


def _pyplot(path: str) -> Any:  # an optional module
    """Return matplotlib's pyplot, which must know the ending of a file's name."""
    from llamaherd.coding.plots.drawing import MISSING  # optional

    try:
        import matplotlib as mpl  # optional
    except ImportError as error:
        raise ImportError(MISSING) from error
    mpl.use("agg")  # draw without a window
    import matplotlib.pyplot as plt
    from matplotlib.backend_bases import FigureCanvasBase

    kinds = FigureCanvasBase.get_supported_filetypes()
    if Path(path).suffix.lower().removeprefix(".") not in {"", *kinds}:
        raise ArgumentError(
            f"must end in one of .{', .'.join(kinds)}, not {checks.brief(path)}",
            argument="plot",
        )
    return plt


@codebooks.declared(
    "ready [NAME]",
    f"""
List the ready codebooks, or print a codebook as YAML.

NAME is a name in the list. The codebooks follow published definitions, which the list
names.

Options:
  --target TEXT  Object of the position, for stance.
  --json  Print the list as JSON.
  -o, --out >FILE.yaml  Store the codebook.
{_OVERWRITE}

Examples:
  llamaherd codebooks ready
  llamaherd codebooks ready sentiment -o mine.yaml
  llamaherd codebooks ready stance --target 'nuclear energy'
""",
)
def ready(name: str | None, target: str | None, out: str | None, **options: bool) -> None:
    """Print the list of ready codebooks, or one codebook."""
    from llamaherd.coding.annotation.codebook_file import (
        codebook_yaml,
        ready_codebook,
        ready_dicts,
    )

    if name is None:
        if target is not None or out is not None:
            raise click.UsageError("Missing argument 'NAME'.")
        rows = ready_dicts()
        columns = ("name", "about", "sources", "measured")
        lines = ["\t".join(str(row[key]) for key in columns) for row in rows]
        click.echo(json.dumps(rows, indent=1) if options["json"] else "\n".join(lines))
        return
    text = codebook_yaml(ready_codebook(name, target))
    if out is None:
        click.echo(text, nl=False)
    else:
        write_new(Path(out), text.encode(), overwrite=options["overwrite"])


def _context(source: str, loading: dict[str, Any], stack: ExitStack) -> Context:
    """Load a model and create a context; the stack closes both."""
    from llamaherd.calls.run.context import Context  # keeps the help fast

    model = stack.enter_context(load_model(source, loading))
    return stack.enter_context(Context(model))


def _stem(name: str, names: Sequence[str]) -> str:
    """Return the name of a file, without its folder and extension."""
    stems = [Path(path.removeprefix("ready:")).stem for path in names]
    stem = stems[names.index(name)]
    if stems.count(stem) > 1:
        raise ArgumentError(
            f"has two files of the name {stem!r}: give them different names",
            argument="codebook",
            code="duplicate",
        )
    return stem
