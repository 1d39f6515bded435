"""`llamaherd models`: manage the model files on this machine."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from llamaherd.cli.conventions import Command, Commands, ExitStatus, failed, option, tell
from llamaherd.engine.hub.cache import (
    list_cached_models,
    list_ollama_models,
    model_cache_dir,
    note_of,
    note_path,
)
from llamaherd.engine.hub.fetch import download_model, fetch
from llamaherd.engine.hub.progress import FetchOptions
from llamaherd.engine.hub.quantizations import gigabytes, recommended_models
from llamaherd.engine.model.file import parts_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from llamaherd.engine.hub.cache import CachedModel, OllamaModel

_HELP = """\
List, download, find and remove model files on this machine.

Models are stored in the user's cache, or in LLAMAHERD_CACHE_DIR. Models of Ollama and of
programs that use the Hugging Face hub are found in the folders of these programs.
"""
_EXAMPLES = """\
llamaherd models download hf:bartowski/SmolLM2-135M-Instruct-GGUF:Q8_0
llamaherd models list
llamaherd serve "$(llamaherd models path SmolLM2)"
"""
_SOURCE = """\
SOURCE is "hf:owner/repo" of the Hugging Face hub, perhaps with ":Q4_K_M" or
"/file.gguf" at its end; an address that begins with https://; "ollama:name"; a path; or
the name of a file in the cache, or a unique part of it.
"""


@click.group("models", cls=Commands, help=_HELP, examples=_EXAMPLES)
def models() -> None:
    """See `_HELP`."""


@models.command(
    "list",
    cls=Command,
    help="List the model files in the caches, newest first.",
    examples="llamaherd models list\nllamaherd models list --json | jq -r '.[].path'\n",
)
@option("--json", "as_json", is_flag=True, help="Print JSON, with sizes in bytes.")
def list_(as_json: bool) -> None:
    """Print a table of the models."""
    rows = _rows()
    if as_json:
        click.echo(json.dumps(rows, indent=1))
        return
    if not rows:
        tell(
            f"no models are in {model_cache_dir()}; see llamaherd models download --help"
        )
    cells = [
        (row["name"], gigabytes(row["size_bytes"]), row["modified"][:10], row["source"])
        for row in rows
    ]
    if cells and sys.stdout.isatty():
        cells.insert(0, ("NAME", "SIZE", "DATE", "SOURCE"))
    for line in _table(cells):
        click.echo(line)


@models.command(
    "suggest",
    cls=Command,
    help="List models to start with, by the memory that they need.\n\nFigures measured "
    "by this project and figures that others published are shown separately.",
    examples="llamaherd models suggest\nllamaherd models suggest --memory 16\n",
)
@option("--memory", type=float, metavar="GB", help="Default: the memory available now.")
@option("--json", "as_json", is_flag=True, help="Print JSON, with sizes in bytes.")
def suggest(memory: float | None, as_json: bool) -> None:
    """Print the suggestions."""
    rows = [asdict(each) for each in recommended_models(memory)]
    if as_json:
        click.echo(json.dumps(rows, indent=1))
        return
    for row in rows:
        fits = "fits" if row["fits"] else "too large"
        click.echo(f"{row['source']}  {gigabytes(row['size_bytes'])}  {fits}")
        click.echo(f"    measured here: {row['measured']}")
        if row["published"]:
            click.echo(f"    by others: {row['published']}")


@models.command(
    "download",
    cls=Command,
    help=f"Download a model, and print the path of its file.\n\n{_SOURCE}\n"
    "The next call continues an interrupted download. A model that is already on this "
    "machine is not downloaded again. An access token of the hub is read from HF_TOKEN, "
    "or from the files of `hf auth login`.",
    examples="""\
llamaherd models download hf:bartowski/SmolLM2-135M-Instruct-GGUF
llamaherd models download hf:bartowski/SmolLM2-135M-Instruct-GGUF:Q8_0
llamaherd models download https://example.org/model.gguf --sha256 9f2c...
""",
)
@click.argument("source")
@option("--force", is_flag=True, help="Download the file again if it exists.")
@option("--sha256", metavar="HEX", help="Expected SHA-256 of the file.")
@option(
    "--no-check-memory",
    is_flag=True,
    help="Download the model even if it does not fit into memory.",
)
def download(source: str, force: bool, sha256: str | None, no_check_memory: bool) -> None:
    """Download a model and print its path."""
    path = download_model(
        source,
        force=force,
        sha256=sha256,
        check_memory=not no_check_memory,
        progress=sys.stderr.isatty(),
    )
    click.echo(path)


@models.command(
    "path",
    cls=Command,
    help="Print the path of a model's file that is on this machine. Nothing is "
    f"downloaded: without such a file the exit status is 1.\n\n{_SOURCE}",
    examples='llamaherd serve "$(llamaherd models path SmolLM2)"\n'
    "llamaherd models path hf:bartowski/SmolLM2-135M-Instruct-GGUF:Q8_0\n",
)
@click.argument("source")
def path_(source: str) -> None:
    """Print the path of a model."""
    click.echo(_here(source))


@models.command(
    "remove",
    cls=Command,
    help="Remove a model's file from llamaherd's cache. Files in other folders, such "
    "as Ollama's, are not removed. The command asks for confirmation.",
    examples="llamaherd models remove SmolLM2-135M-Instruct-Q8_0.gguf\n"
    "llamaherd models remove SmolLM2 --yes\n",
)
@click.argument("source")
@option("--yes", is_flag=True, help="Do not ask for confirmation.")
def remove(source: str, yes: bool) -> int:
    """Remove a model's file, its other parts, and their metadata."""
    first = _here(source)
    if not first.resolve().is_relative_to(model_cache_dir().resolve()):
        return failed(f"{first} is not in {model_cache_dir()}: remove it yourself")
    files = parts_of(first)
    size = gigabytes(sum(file.stat().st_size for file in files))
    if not yes:
        if not sys.stdin.isatty():
            return failed("no terminal to ask on: pass --yes", ExitStatus.WRONG_USE)
        click.confirm(f"Remove {first} ({size})?", abort=True, err=True)
    for file in reversed(files):  # the first file, removed last, marks a complete model
        is_noted = "source" in note_of(file)
        file.unlink()
        if is_noted:
            note_path(file).unlink(missing_ok=True)
    tell(f"removed {size}")
    return ExitStatus.DONE


def _here(source: str) -> Path:
    """Return the file of a model on this machine."""
    return fetch(source, FetchOptions(cache=model_cache_dir(), download=False), "SOURCE")


def _rows() -> list[dict[str, Any]]:
    cached = [_row(model, model.source) for model in list_cached_models()]
    of_ollama = [_row(model, f"ollama:{model.name}") for model in list_ollama_models()]
    return [*cached, *of_ollama]


def _row(model: CachedModel | OllamaModel, source: str) -> dict[str, Any]:
    return {
        "name": model.name,
        "size_bytes": model.size_bytes,
        "modified": model.modified.isoformat(timespec="seconds"),
        "source": source,
        "path": str(model.path),
    }


def _table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    # File names are untrusted: replace control characters, which could control a
    # terminal.
    rows = [
        tuple("".join(c if c.isprintable() else "?" for c in cell) for cell in row)
        for row in rows
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if i == 1 else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
