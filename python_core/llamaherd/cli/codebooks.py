"""`llamaherd codebooks`: choose a codebook by a gold sample and evaluate it."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from llamaherd.calls.asks.annotate_options import CALIBRATE, METHODS, AnnotateOptions
from llamaherd.calls.asks.settings import help_of
from llamaherd.cli.conventions import Command, Commands, WholeNumber, option
from llamaherd.cli.model_flags import (
    gpu_options,
    load_model,
    model_option,
    take_gpu_options,
)
from llamaherd.cli.tables import shown_warnings
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.files import check_free, write_new

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.calls.run.context import Context
    from llamaherd.coding.selection.comparison import CodebookComparison

_HELP = """\
Choose a codebook by a gold sample, and measure the chosen one once.

GOLD.csv is a sheet that people coded; GOLD.csv.json contains the design of its sample.
`llamaherd gold sample` creates both. `split` divides the sample into the
parts explore, select and evaluate. Then use `compare`, `best` and `evaluate` in this
order. `ready` lists codebooks to start with.
"""
_EXAMPLES = """\
llamaherd codebooks split gold.csv --seed 1
llamaherd codebooks compare gold.csv -c plain.yaml -c shots.yaml \\
  -m model.gguf --journal compare.journal -o comparison.json
llamaherd codebooks best comparison.json -o choice.json
llamaherd codebooks evaluate choice.json gold.csv -m model.gguf
llamaherd codebooks ready
"""
_EPILOG = """\
Exit status: 0 success; 1 failed while running; 2 invalid arguments, nothing was computed;
130 Ctrl-C; 143 SIGTERM.
"""
_OF_LABELS = ("accuracy", "balanced_accuracy", "macro_f1", "kappa")
_MEASURES = (*_OF_LABELS, "mae")
_overwrite = option("--overwrite", is_flag=True, help="Replace existing files.")


@click.group("codebooks", cls=Commands, help=_HELP, examples=_EXAMPLES, epilog=_EPILOG)
def codebooks() -> None:
    """See `_HELP`."""


@codebooks.command(
    "split",
    cls=Command,
    help="Split a gold sample into the parts explore, select and evaluate.\n\n"
    "The split is stored in GOLD.csv.json; the sheet is not changed.",
    examples="llamaherd codebooks split gold.csv --seed 1\n"
    "llamaherd codebooks split gold.csv --explore 0 --select 0.5 --evaluate 0.5\n",
)
@click.argument("gold", metavar="GOLD.csv")
@option("--explore", type=float, default=0.2, help="Share of the texts. Default 0.2.")
@option("--select", type=float, default=0.5, help="Share of the texts. Default 0.5.")
@option("--evaluate", type=float, default=0.3, help="Share of the texts. Default 0.3.")
@option("--seed", type=WholeNumber(0), metavar="N", help="Seed; default: a random one.")
def split(gold: str, **options: Any) -> None:  # noqa: ANN401 - types of click
    """Split a sample and print the sizes of its parts."""
    from llamaherd.coding.selection.split import PARTS, gold_split  # noqa: PLC0415 - fast help

    with shown_warnings():
        parts = gold_split(gold, **options).parts or []
    for part in PARTS:
        click.echo(f"{part}\t{parts.count(part)}")


@codebooks.command(
    "compare",
    cls=Command,
    help="Compare codebooks on the texts of the part select.\n\nWith several models each "
    "codebook is tried with each model. The name of a candidate is the name of its "
    "codebook's file, with several models also the name of the model.",
    examples="llamaherd codebooks compare gold.csv -c plain.yaml -c shots.yaml \\\n"
    "  -m model.gguf -o comparison.json\n",
)
@click.argument("gold", metavar="GOLD.csv")
@option(
    "-c",
    "--codebook",
    "books",
    metavar="FILE.yaml",
    multiple=True,
    required=True,
    help="A codebook file, or ready:NAME; give the option once for each codebook.",
)
@model_option(
    option, "models", multiple=True, required=True, note="May be given several times."
)
@option(
    "--measure",
    type=click.Choice(_MEASURES),
    help="Measure. Default: mae for a scale of numbers, otherwise accuracy.",
)
@option("--chat", is_flag=True, help=help_of(AnnotateOptions, "chat"))
@option("--method", type=click.Choice(METHODS), help=help_of(AnnotateOptions, "method"))
@option(
    "--calibrate",
    type=click.Choice([each for each in CALIBRATE if each]),
    help=help_of(AnnotateOptions, "calibrate"),
)
@option("--journal", metavar="FILE", help="Store answers; compute only new ones.")
@option(
    "-o",
    "--out",
    "output",
    metavar="FILE.json",
    help="Store the comparison.",
)
@_overwrite
@option("--plot", metavar="FILE", help="Plot agreement against seconds per text.")
@gpu_options()
def compare(
    gold: str,
    *,
    books: Sequence[str],
    models: Sequence[str],
    measure: Any,  # noqa: ANN401 - one of _MEASURES
    journal: str | None,
    output: str | None,
    overwrite: bool,
    plot: str | None,
    **settings: Any,  # noqa: ANN401 - types of click
) -> None:
    """Compare codebooks, print the results and store the comparison."""
    from llamaherd.coding.annotation.codebook_file import codebook_from  # noqa: PLC0415
    from llamaherd.coding.selection.candidates import CodebookCandidate  # noqa: PLC0415
    from llamaherd.coding.selection.compare import compare_codebooks  # noqa: PLC0415

    for path in (output, plot):  # before hours of work
        if path is not None:
            check_free(Path(path), overwrite=overwrite, argument="out")
    loading = take_gpu_options(settings)
    given = {
        name: value for name, value in settings.items() if value not in (None, False)
    }
    read = {_stem(path, books): codebook_from(path) for path in books}
    with ExitStack() as stack, shown_warnings():
        contexts = {
            _stem(each, models): _context(each, loading, stack) for each in models
        }
        tried = {
            name if len(contexts) == 1 else f"{name}, {model}": CodebookCandidate(
                codebook=book, context=context
            )
            for model, context in contexts.items()
            for name, book in read.items()
        }
        found = compare_codebooks(
            None,
            tried,
            gold,
            measure=measure,
            journal=journal,
            progress=sys.stderr.isatty(),
            **given,
        )
    if output is not None:
        write_new(Path(output), found.to_json().encode(), overwrite=overwrite)
    if plot is not None:
        _save_plot(found, plot)
    click.echo(str(found))


@codebooks.command(
    "best",
    cls=Command,
    help="Select a codebook, and store the choice for one evaluation.",
    examples="llamaherd codebooks best comparison.json --prefer speed -o choice.json\n",
)
@click.argument("comparison", metavar="COMPARISON.json")
@option(
    "--prefer",
    type=click.Choice(("value", "speed")),
    default="value",
    help="value: the best candidate; speed: the fastest candidate that may be best.",
)
@option("--name", metavar="NAME", help="Candidate to select instead.")
@option(
    "-o",
    "--out",
    "output",
    metavar="FILE.json",
    help="Store the choice.",
)
@_overwrite
def best(
    comparison: str,
    *,
    prefer: Any,  # noqa: ANN401 - types of click
    name: str | None,
    output: str | None,
    overwrite: bool,
) -> None:
    """Choose a codebook, print the choice and store it."""
    from llamaherd.coding.selection.candidates import best_codebook  # noqa: PLC0415
    from llamaherd.coding.selection.comparison import (  # noqa: PLC0415
        CodebookComparison,
    )

    stored = CodebookComparison.from_json(
        Path(comparison).read_text(encoding="utf-8-sig")
    )
    choice = best_codebook(stored, prefer=prefer, name=name)
    if output is not None:
        write_new(Path(output), choice.to_json().encode(), overwrite=overwrite)
    click.echo(str(choice))


@codebooks.command(
    "evaluate",
    cls=Command,
    help="Measure the selected codebook on the texts of the part evaluate.\n\nThe use of "
    "these texts is recorded in GOLD.csv.json. A warning reports if they were used "
    "before, or if codes changed since the selection.",
    examples="llamaherd codebooks evaluate choice.json gold.csv -m model.gguf\n",
)
@click.argument("choice", metavar="CHOICE.json")
@click.argument("gold", metavar="GOLD.csv")
@model_option(option, required=True)
@option("--journal", metavar="FILE", help="File that stores all answers.")
@gpu_options()
def evaluate(
    choice: str,
    gold: str,
    *,
    model: str,
    journal: str | None,
    **settings: Any,  # noqa: ANN401 - types of click
) -> None:
    """Evaluate the chosen codebook and print all measures."""
    from llamaherd.coding.selection.candidates import CodebookChoice  # noqa: PLC0415
    from llamaherd.coding.selection.evaluation import evaluate_codebook  # noqa: PLC0415

    frozen = CodebookChoice.from_json(Path(choice).read_text(encoding="utf-8-sig"))
    with ExitStack() as stack, shown_warnings():
        found = evaluate_codebook(
            frozen,
            gold,
            _context(model, take_gpu_options(settings), stack),
            journal=journal,
            progress=sys.stderr.isatty(),
        )
    click.echo(f"{found}\n\n{found.validation}")


def _save_plot(found: CodebookComparison, path: str) -> None:
    """Save the plot of a comparison to a file; the ending of its name is the format."""
    from llamaherd.coding.plots.drawing import MISSING  # noqa: PLC0415 - optional
    from llamaherd.coding.plots.plot import plot  # noqa: PLC0415

    try:
        import matplotlib as mpl  # noqa: PLC0415 - optional
    except ImportError as error:
        raise ImportError(MISSING) from error
    mpl.use("agg")  # draw without a window
    import matplotlib.pyplot as plt  # noqa: PLC0415

    plot(found)
    plt.savefig(path)
    plt.close()


@codebooks.command(
    "ready",
    cls=Command,
    help="List the ready codebooks, or print a codebook as YAML.\n\nNAME is a name in "
    "the list. The codebooks follow published definitions, which the list names.",
    examples="llamaherd codebooks ready\n"
    "llamaherd codebooks ready sentiment -o mine.yaml\n"
    "llamaherd codebooks ready stance --target 'nuclear energy'\n",
)
@click.argument("name", required=False)
@option("--target", metavar="TEXT", help="Object of the position, for stance.")
@option("--json", "as_json", is_flag=True, help="Print the list as JSON.")
@option(
    "-o",
    "--out",
    "output",
    metavar="FILE.yaml",
    help="Store the codebook.",
)
@_overwrite
def ready(
    name: str | None,
    target: str | None,
    as_json: bool,
    output: str | None,
    overwrite: bool,
) -> None:
    """Print the list of ready codebooks, or one codebook."""
    from llamaherd.coding.annotation.codebook_file import (  # noqa: PLC0415
        codebook_yaml,
        ready_codebook,
        ready_dicts,
    )

    if name is None:
        if target is not None or output is not None:
            raise click.UsageError("Missing argument 'NAME'.")
        rows = ready_dicts()
        lines = [
            f"{row['name']}\t{row['about']}\t{row['sources']}\t{row['measured']}"
            for row in rows
        ]
        click.echo(json.dumps(rows, indent=1) if as_json else "\n".join(lines))
        return
    text = codebook_yaml(ready_codebook(name, target))
    if output is None:
        click.echo(text, nl=False)
    else:
        write_new(Path(output), text.encode(), overwrite=overwrite)


def _context(source: str, loading: dict[str, Any], stack: ExitStack) -> Context:
    """Load a model and create a context; the stack closes both."""
    from llamaherd.calls.run.context import Context  # noqa: PLC0415 - keeps the help fast

    model = stack.enter_context(load_model(source, loading))
    return stack.enter_context(Context(model))


def _stem(name: str, names: Sequence[str]) -> str:
    """Return the name of a file, without its folder and extension."""
    stems = [Path(each.removeprefix("ready:")).stem for each in names]
    own = stems[names.index(name)]
    if stems.count(own) > 1:
        raise ArgumentError(
            f"has two files of the name {own!r}: give them different names",
            argument="codebook",
            code="duplicate",
        )
    return own
