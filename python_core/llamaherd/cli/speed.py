"""`llamaherd bench` and `optimize`: the speed of a model on this machine."""

from __future__ import annotations

import dataclasses
import json
import sys
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from llamaherd.cli.conventions import Command, WholeNumber, option, tell, warn
from llamaherd.cli.model_flags import gpu_options, load_model, take_gpu_options
from llamaherd.engine.hub.fetch import model_path
from llamaherd.engine.hub.profile import cpu_name
from llamaherd.engine.hub.quantizations import gigabytes
from llamaherd.engine.memory import hardware
from llamaherd.engine.memory.plan import MAX_SLOTS
from llamaherd.optimize.measure import measure_throughput
from llamaherd.optimize.optimize import DEFAULT_TYPES, model_optimize
from llamaherd.optimize.requantize import TYPES

if TYPE_CHECKING:
    from llamaherd.engine.model.model import Model
    from llamaherd.optimize.measure import Throughput

_HELP = """\
Measure how fast a model is on this machine.

Answers prompts from a novel, 1, 8 and 32 at once. Prints tokens per second of reading
prompts (prefill) and of writing answers (decode, all answers together), and prompts per
second. Other running programs lower the speeds. To find a faster file of the same model,
use llamaherd optimize.

MODEL is a file, or a SOURCE of `llamaherd models download`.
"""
_EXAMPLES = """\
llamaherd bench model.gguf
llamaherd bench model.gguf --n-seq-max 1,16,64 --n-prompt 500 --n-answer 5
llamaherd bench model.gguf --json | jq .rows
"""
_HEADER = ("n_seq_max", "prefill tokens/s", "decode tokens/s", "prompts/s")


def _sizes(ctx: click.Context, param: click.Parameter, value: str) -> list[int]:
    try:
        sizes = [int(number) for number in value.split(",")]
    except ValueError:
        sizes = []
    if sizes and all(1 <= size <= MAX_SLOTS for size in sizes):
        return sizes
    raise click.BadParameter(
        f"{value!r} is not a list of numbers from 1 to {MAX_SLOTS}, such as 1,8,32.",
        ctx,
        param,
    )


_COUNT = WholeNumber(1)


@click.command("bench", cls=Command, help=_HELP, examples=_EXAMPLES)
@click.argument("model", metavar="MODEL")
@option(
    "--n-seq-max",
    default="1,8,32",
    callback=_sizes,
    metavar="N,N,...",
    show_default=True,
    help="Numbers of concurrent prompts.",
)
@option(
    "--n-prompt",
    type=_COUNT,
    default=128,
    metavar="N",
    show_default=True,
    help="Number of tokens per prompt.",
)
@option(
    "--n-answer",
    type=_COUNT,
    default=32,
    metavar="N",
    show_default=True,
    help="Number of tokens per answer.",
)
@option(
    "--n-threads",
    type=_COUNT,
    metavar="N",
    help="Number of threads. Default: the physical cores.",
)
@option(
    "--seconds",
    "most_s",
    type=click.FloatRange(min=0),
    default=60.0,
    metavar="S",
    show_default=True,
    help="Seconds after which no further measurement starts.",
)
@option("--json", "as_json", is_flag=True, help="Print all figures as JSON.")
@gpu_options()
def bench(model: str, n_seq_max: list[int], as_json: bool, **options: Any) -> None:  # noqa: ANN401 - as declared above
    """Print each measurement when it ends, or print all measurements as JSON."""
    rows = []
    with load_model(model, take_gpu_options(options)) as loaded:
        about = _about(loaded, options)
        if not as_json:
            click.echo(_title(about))
            click.echo("  ".join(_HEADER))
        for row in measure_throughput(loaded, n_seq_max, **options):
            rows.append(row)
            if not as_json:
                click.echo(_line(row))
            tell(f"n_seq_max={row.n_seq_max} took {row.wall_s:.1f} s")
    left = n_seq_max[len(rows) :]
    if as_json:
        content = {**about, "rows": [dataclasses.asdict(row) for row in rows]}
        click.echo(json.dumps(content, indent=1))
    if left:
        warn(f"no time remained for {', '.join(map(str, left))}: see --seconds")


def _about(model: Model, options: dict[str, Any]) -> dict[str, Any]:
    """Describe the model, machine and settings of the measurement."""
    return {
        "model": model.path.name,
        "size_bytes": model.path.stat().st_size,
        "n_params": model.info.n_params,
        "n_prompt": options["n_prompt"],
        "n_answer": options["n_answer"],
        "n_threads": options["n_threads"] or hardware.n_cores(),
        "cpu": cpu_name(),
        "llamaherd": version("llamaherd"),
        "llama_cpp_python": version("llama-cpp-python"),
    }


def _title(about: dict[str, Any]) -> str:
    return (
        f"{about['model']} ({gigabytes(about['size_bytes'])}), {about['n_threads']} "
        f"threads on {about['cpu']}\n"
        f"prompts of {about['n_prompt']} tokens, answers of {about['n_answer']}"
    )


def _line(row: Throughput) -> str:
    cells = (
        str(row.n_seq_max),
        f"{row.prefill_tokens_per_s:.0f}",
        f"{row.decode_tokens_per_s:.1f}",
        f"{row.prompts_per_s:.2f}",
    )
    return "  ".join(
        cell.rjust(len(title)) for cell, title in zip(cells, _HEADER, strict=True)
    )


_OPTIMIZE_HELP = """\
Find the type of a model that is fastest on this machine.

Writes the model in several types, measures these files and the original, and compares
their predictions. Keeps the fastest file whose predictions are close enough to the
original's, next to the original or in --out, as NAME.TYPE.llamaherd.gguf. The original
is not changed, and no file is overwritten. Takes minutes for models of some GB.

MODEL is a file, or a SOURCE of `llamaherd models download`.
"""
_OPTIMIZE_EXAMPLES = """\
llamaherd optimize model.gguf
llamaherd optimize model.gguf --type Q8_0 --type Q4_0 --max-kl 0.05
llamaherd optimize model.gguf --text texts-of-mine.txt --json | jq -r .path
"""


def _content(ctx: click.Context, param: click.Parameter, path: Path | None) -> str | None:
    try:
        return None if path is None else path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise click.BadParameter(f"{path} is not UTF-8: {error}", ctx, param) from None


@click.command("optimize", cls=Command, help=_OPTIMIZE_HELP, examples=_OPTIMIZE_EXAMPLES)
@click.argument("model", metavar="MODEL")
@option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Folder for the new file. Default: the folder of the model.",
)
@option(
    "--type",
    "types",
    multiple=True,
    type=click.Choice(list(TYPES), case_sensitive=False),
    metavar="TYPE",
    help=f"A type to try; may be given several times: {', '.join(TYPES)}. Default: "
    f"{', '.join(DEFAULT_TYPES)}, without the type of the model.",
)
@option(
    "--max-kl",
    type=float,
    default=0.01,
    show_default=True,
    metavar="NATS",
    help="Maximum mean KL divergence of the kept file from the original.",
)
@option(
    "--text",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    callback=_content,
    metavar="FILE",
    help="Text for the comparison, which should resemble your texts. Default: from a "
    "novel.",
)
@option(
    "--n-threads",
    type=WholeNumber(1),
    metavar="N",
    help="Number of threads. Default: the physical cores.",
)
@option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def optimize(model: str, types: tuple[str, ...], as_json: bool, **options: Any) -> None:  # noqa: ANN401 - as declared above
    """Print the report."""
    is_watched = sys.stderr.isatty()
    report = model_optimize(
        model_path(model, check_memory=True, name="MODEL", progress=is_watched),
        types=list(types) or None,
        progress=is_watched,
        **options,
    )
    if not as_json:
        click.echo(report)
        return
    content = {
        "path": str(report.path),
        "original": str(report.original),
        "chosen": report.chosen,
        "verdict": report.verdict,
        "rows": [dataclasses.asdict(row) for row in report.rows],
    }
    click.echo(json.dumps(content, indent=1))
