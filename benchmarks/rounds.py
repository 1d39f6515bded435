"""Command line of benchmarks that measure several rounds."""

from __future__ import annotations

import argparse
import os


def rounds_parser(
    description: str | None, page: str | None = None
) -> argparse.ArgumentParser:
    """Return a parser of the options --rounds, --threads, --quick, --write."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--quick", action="store_true", help="a tiny size")
    if page is not None:
        parser.add_argument("--write", action="store_true", help=f"into {page}")
    return parser
