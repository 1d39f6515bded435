"""`llamaherd bench` and `optimize`: the speed of a model on this machine."""

from __future__ import annotations

import dataclasses
import json
import sys
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import click

from llamaherd.cli.conventions import tell, warn
from llamaherd.cli.model_flags import GPU, N_THREADS, load_model, take_table
from llamaherd.cli.page import command
from llamaherd.engine.hub.fetch import model_path
from llamaherd.engine.hub.profile import cpu_name
from llamaherd.engine.hub.quantizations import gigabytes
from llamaherd.engine.memory import hardware
from llamaherd.engine.memory.plan import MAX_SLOTS
from llamaherd.optimize.measure import Throughput, measure_throughput
from llamaherd.optimize.optimize import DEFAULT_TYPES, model_optimize
from llamaherd.optimize.requantize import TYPES

if TYPE_CHECKING:
    from llamaherd.engine.model.model import Model

_HEADER = ("n_seq_max", "prefill tokens/s", "decode tokens/s", "prompts/s")


def _sizes(text: str) -> list[int]:
    sizes = [int(number) if number.isdecimal() else 0 for number in text.split(",")]
    if all(1 <= size <= MAX_SLOTS for size in sizes):
        return sizes
    raise click.BadParameter(
        f"{text!r} is not a list of numbers from 1 to {MAX_SLOTS}, such as 1,8,32.",
        param_hint="'--n-seq-max'",
    )


@command(
    "bench MODEL",
    f"""
Measure how fast a model is on this machine.

Answers prompts from a novel, 1, 8 and 32 at once. Prints tokens per second of reading
prompts (prefill) and of writing answers (decode, all answers together), and prompts per
second. Other running programs lower the speeds. To find a faster file of the same model,
use llamaherd optimize.

MODEL is a file, or a SOURCE of `llamaherd models download`.

Options:
  --n-seq-max N,N,...  Numbers of concurrent prompts. [default: 1,8,32]
  --n-prompt N  Number of tokens per prompt. [default: 128]
  --n-answer N  Number of tokens per answer. [default: 32]
  --n-threads N  {N_THREADS}
  --seconds X -> most_s  Seconds after which no further measurement starts.
      [default: 60]
  --json -> as_json  Print all figures as JSON.
{GPU}
Examples:
  llamaherd bench model.gguf
  llamaherd bench model.gguf --n-seq-max 1,16,64 --n-prompt 500 --n-answer 5
  llamaherd bench model.gguf --json | jq .rows
""",
)
def bench(model: str, n_seq_max: str, as_json: bool, **options: Any) -> None:  # of click
    """Print each measurement when it ends, or print all measurements as JSON."""
    rows = []
    sizes = _sizes(n_seq_max)
    with load_model(model, take_table(options)) as loaded:
        about = _about(loaded, options)
        if not as_json:
            click.echo(_title(about))
            click.echo("  ".join(_HEADER))
        for row in measure_throughput(loaded, sizes, **options):
            rows.append(row)
            if not as_json:
                click.echo(_line(row))
            tell(f"n_seq_max={row.n_seq_max} took {row.wall_s:.1f} s")
    left = sizes[len(rows) :]
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


@command(
    "optimize MODEL",
    f"""
Find the type of a model that is fastest on this machine.

Writes the model in several types, measures these files and the original, and compares
their predictions. Keeps the fastest file whose predictions are close enough to the
original's, next to the original or in --out, as NAME.TYPE.llamaherd.gguf. The original
is not changed, and no file is overwritten. Takes minutes for models of some GB.

MODEL is a file, or a SOURCE of `llamaherd models download`.

Options:
  --out FOLDER  Folder for the new file. Default: the folder of the model.
  --type TYPE... -> types  A type to try; may be given several times: {", ".join(TYPES)}.
      Default: {", ".join(DEFAULT_TYPES)}, without the type of the model.
  --max-kl NATS  Maximum mean KL divergence of the kept file from the original.
      [default: 0.01]
  --text FILE.txt  Text for the comparison, which should resemble your texts. Default:
      from a novel.
  --n-threads N  {N_THREADS}
  --json -> as_json  Print the report as JSON.

Examples:
  llamaherd optimize model.gguf
  llamaherd optimize model.gguf --type Q8_0 --type Q4_0 --max-kl 0.05
  llamaherd optimize model.gguf --text texts-of-mine.txt --json | jq -r .path
""",
)
def optimize(model: str, types: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Print the report."""
    for name in types:
        if name.upper() not in TYPES:
            known = ", ".join(TYPES)
            raise click.BadParameter(f"{name!r} is none of {known}.", param_hint="--type")
    is_watched = sys.stderr.isatty()
    report = model_optimize(
        model_path(model, check_memory=True, name="MODEL", progress=is_watched),
        types=[name.upper() for name in types] or None,
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
