"""The command `llamaherd`."""

from llamaherd.cli.main import main

__all__ = ["main"]
