"""`llamaherd models`: manage the model files on this machine."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from llamaherd.cli.conventions import ExitStatus, print_failure, tell
from llamaherd.cli.page import Commands
from llamaherd.engine.hub.cache import (
    CachedModel,
    OllamaModel,
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


_SOURCE = """\
SOURCE is "hf:owner/repo" of the Hugging Face hub, perhaps with ":Q4_K_M" or
"/file.gguf" at its end; an address that begins with https://; "ollama:name"; a path; or
the name of a file in the cache, or a unique part of it."""
_JSON = """
Options:
  --json -> as_json  Print JSON, with sizes in bytes.
"""

models = Commands(
    "models",
    """
List, download, find and remove model files on this machine.

Models are stored in the user's cache, or in LLAMAHERD_CACHE_DIR. Models of Ollama and of
programs that use the Hugging Face hub are found in the folders of these programs.

Examples:
  llamaherd models download hf:bartowski/SmolLM2-135M-Instruct-GGUF:Q8_0
  llamaherd models list
  llamaherd serve "$(llamaherd models path SmolLM2)"
""",
)


@models.declared(
    "list",
    f"""
List the model files in the caches, newest first.
{_JSON}
Examples:
  llamaherd models list
  llamaherd models list --json | jq -r '.[].path'
""",
)
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


@models.declared(
    "suggest",
    f"""
List models to start with, by the memory that they need.

Figures measured by this project and figures that others published are shown separately.
{_JSON}
  --memory GB  Default: the memory available now.

Examples:
  llamaherd models suggest
  llamaherd models suggest --memory 16
""",
)
def suggest(memory: float | None, as_json: bool) -> None:
    """Print the suggestions."""
    rows = [asdict(model) for model in recommended_models(memory)]
    if as_json:
        click.echo(json.dumps(rows, indent=1))
        return
    for row in rows:
        fits = "fits" if row["fits"] else "too large"
        click.echo(f"{row['source']}  {gigabytes(row['size_bytes'])}  {fits}")
        click.echo(f"    measured here: {row['measured']}")
        if row["published"]:
            click.echo(f"    by others: {row['published']}")


@models.declared(
    "download SOURCE",
    f"""
Download a model, and print the path of its file.

{_SOURCE}
The next call continues an interrupted download. A model that is already on this machine
is not downloaded again. An access token of the hub is read from HF_TOKEN, or from the
files of `hf auth login`.

Options:
  --force  Download the file again if it exists.
  --sha256 HEX  Expected SHA-256 of the file.
  --no-check-memory -> not check_memory  Download the model even if it does not fit into
      memory.

Examples:
  llamaherd models download hf:bartowski/SmolLM2-135M-Instruct-GGUF
  llamaherd models download hf:bartowski/SmolLM2-135M-Instruct-GGUF:Q8_0
  llamaherd models download https://example.org/model.gguf --sha256 9f2c...
""",
)
def download(source: str, **options: Any) -> None:  # of click
    """Download a model and print its path."""
    click.echo(download_model(source, progress=sys.stderr.isatty(), **options))


@models.declared(
    "path SOURCE",
    f"""
Print the path of a model's file that is on this machine. Nothing is downloaded: without
such a file the exit status is 1.

{_SOURCE}

Examples:
  llamaherd serve "$(llamaherd models path SmolLM2)"
  llamaherd models path hf:bartowski/SmolLM2-135M-Instruct-GGUF:Q8_0
""",
)
def path_(source: str) -> None:
    """Print the path of a model."""
    click.echo(_here(source))


@models.declared(
    "remove SOURCE",
    """
Remove a model's file from llamaherd's cache. Files in other folders, such as Ollama's,
are not removed. The command asks for confirmation.

Options:
  --yes  Do not ask for confirmation.

Examples:
  llamaherd models remove SmolLM2-135M-Instruct-Q8_0.gguf
  llamaherd models remove SmolLM2 --yes
""",
)
def remove(source: str, yes: bool) -> int:
    """Remove a model's file, its other parts, and their metadata."""
    first = _here(source)
    if not first.resolve().is_relative_to(model_cache_dir().resolve()):
        return print_failure(f"{first} is not in {model_cache_dir()}: remove it yourself")
    files = parts_of(first)
    size = gigabytes(sum(file.stat().st_size for file in files))
    if not yes:
        if not sys.stdin.isatty():
            return print_failure(
                "no terminal to ask on: pass --yes", ExitStatus.WRONG_USE
            )
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
