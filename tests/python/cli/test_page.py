"""Commands are what their help pages say."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
from click.testing import CliRunner
from llamaherd.cli.page import Command

PAGE = """
Do something with tables.

Tables:
  -o, --out FILE -> output  Where the table goes, on one line
      or on two. [default: -]
  --by NAME...  Columns. [required]
  --n N  A number. [default: 3]
  --no-header -> not header  No header.
  --pair A B  Two words.
  --var NAME=VALUE... -> variables  Variables.

Others:
  -q, --quiet  No progress.

Examples:
  llamaherd do in.csv --by a

At the end.
"""


def called(*words: str, unset: bool | None = False) -> tuple[dict[str, Any], str]:
    """Return the arguments that a command gets, and its output."""
    arguments: dict[str, Any] = {}
    command = Command("do TABLE [MORE]...", PAGE, unset=unset, callback=arguments.update)
    return arguments, CliRunner().invoke(command, list(words)).output


def test_options_are_read_as_the_page_says() -> None:
    usual = {"output": "-", "n": 3, "header": True, "quiet": False, "pair": None}
    usual |= {"table": "in.csv", "more": (), "variables": None, "by": ("a",)}
    assert called("in.csv", "--by", "a")[0] == usual
    given = shlex.split("in.csv x y --by a --by b --n 5 --no-header -q --pair u v -o out")
    more = ["--var", "k=1", "--var", "l=low"]
    assert called(*given, *more)[0] == usual | {
        "output": "out",
        "n": 5,
        "header": False,
        "quiet": True,
        "pair": ("u", "v"),
        "more": ("x", "y"),
        "variables": {"k": 1, "l": "low"},
        "by": ("a", "b"),
    }
    unset = called("in.csv", "--by", "a", unset=None)[0]
    assert (unset["header"], unset["quiet"]) == (None, None)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["in.csv"], "Missing option '--by'"),
        (["in.csv", "--by", "a", "--n", "0"], "'0' is not a whole number of at least 1."),
        ([], "Missing argument 'TABLE'"),
    ],
)
def test_other_values_are_refused(words: list[str], message: str) -> None:
    assert message in called(*words)[1]


def test_the_help_is_the_page() -> None:
    shown = called("--help")[1]
    for line in (
        "Usage: do [OPTIONS] TABLE [MORE]...",
        "  Do something with tables.",
        "  -o, --out FILE    Where the table goes, on one line or on two.  [default: -]",
        "Others:",
        "  -q, --quiet  No progress.",
        "Examples:",
        "  llamaherd do in.csv --by a",
        "  At the end.",
    ):
        assert line in shown.splitlines(), shown
