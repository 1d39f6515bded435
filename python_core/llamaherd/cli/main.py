"""Which command, and its arguments."""

from __future__ import annotations

import argparse
from importlib.metadata import version
from typing import TYPE_CHECKING

from llamaherd.cli import serve

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command. Returns the status to exit with."""
    parser = argparse.ArgumentParser(
        prog="llamaherd",
        description="Many prompts at once through one llama.cpp context.",
    )
    parser.add_argument(
        "--version", action="version", version=f"llamaherd {version('llamaherd')}"
    )
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    serve.add_to(commands)
    options = parser.parse_args(arguments)
    status: int = options.run(options)
    return status
