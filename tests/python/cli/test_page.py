"""Commands are what their help pages say."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any, get_args

import pytest
from click.testing import CliRunner
from llamaherd.cli.codebooks import codebooks
from llamaherd.cli.estimate import estimate, recalibrate
from llamaherd.cli.gold import gold
from llamaherd.cli.page import Command, declared_flags
from llamaherd.cli.pairs import pairs
from llamaherd.cli.run import annotate, classify, embed, run
from llamaherd.coding.estimation.estimates import METHODS
from llamaherd.coding.estimation.recalibration import FEATURES
from llamaherd.coding.gold.draw import KINDS
from llamaherd.coding.pairs.design import DESIGNS
from llamaherd.coding.selection.evaluation import Prefer
from llamaherd.coding.selection.measures import MEASURES
from llamaherd.coding.statistics.sampling import ALLOCATIONS, TARGETS
from llamaherd.engine.core.declaration import Options, declares, option
from llamaherd.engine.core.values import Choice, Flag, Real, TextKind, Whole
from llamaherd.engine.model.loading import SPLIT_MODES
from llamaherd.tables.spec_keys import RunKeys

if TYPE_CHECKING:
    from collections.abc import Collection

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
    words = shlex.split("in.csv x y --by a --by b --n 5 --no-header -q --pair u v -o out")
    more = ["--var", "k=1", "--var", "l=low"]
    assert called(*words, *more)[0] == usual | {
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


@pytest.mark.parametrize(
    ("command", "name", "values"),
    [
        (codebooks.commands["compare"], "measure", MEASURES),
        (codebooks.commands["best"], "prefer", get_args(Prefer)),
        (estimate, "methods", METHODS),
        (estimate, "target", TARGETS),
        (gold.commands["sample"], "prob", KINDS),
        (gold.commands["sample"], "allocation", ALLOCATIONS),
        (pairs, "design", DESIGNS),
        (recalibrate, "features", FEATURES),
        (run, "model__split_mode", SPLIT_MODES),
    ],
)
def test_choices_on_a_page_are_those_of_the_library(
    command: Command, name: str, values: Collection[str]
) -> None:
    (param,) = [param for param in command.params if param.name == name]
    assert set(param.type.choices) == set(values)


def test_the_help_is_the_page() -> None:
    page = called("--help")[1]
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
        assert line in page.splitlines(), page


@declares
class Settings(Options):
    """Options of a test."""

    n_rows: int = option(Whole(0), default=3, doc="Rows. All of them.", flag="Many.")
    share: float = option(Real(0, 1), default=0.5, doc="A share.", flag="", section="b")
    header: bool = option(Flag(), default=True, doc="On.", flag="", flag_help="Off.")
    way: str = option(Choice(("a", "b")), default="a", doc="Way.", flag="", metavar="W")
    name: str | None = option(TextKind(), default=None, doc="Name.", flag="")
    other: str = option(TextKind(), default="", doc="No flag.")


def test_lines_of_a_page_follow_from_declared_options() -> None:
    assert declared_flags(Settings, table="t").splitlines() == [
        "  --n-rows N>=0 -> t__n_rows  Rows. Many.",
        "  --no-header -> not t__header  Off.",
        "  --way W -> t__way  Way.",
        "  --name TEXT -> t__name  Name.",
    ]
    assert declared_flags(Settings, section="b", has_defaults=True) == (
        "  --share X -> share  A share. [default: 0.5]"
    )
    assert declared_flags(Settings, ["n_rows"], words={"n_rows": "Few."}) == (
        "  --n-rows N>=0 -> n_rows  Rows. Few."
    )


@pytest.mark.parametrize("command", [run, classify, annotate, embed])
def test_keys_of_a_run_have_the_flags_and_the_help_of_their_declaration(
    command: Command,
) -> None:
    flags = {param.name: param for param in command.params}
    of_prompts = {"chat", "prompt", "thinking", "variables", "chat_template"}
    assert flags.keys() & of_prompts == (set() if command is embed else of_prompts)
    assert ("system" in flags) == (command in {run, classify})
    assert ("codebook" in flags) == (command is annotate)
    for name, key in RunKeys.declared.items():
        if name in flags and key.flag is not None:
            text = key.facts.get("flag_help", key.sentence)
            assert flags[name].to_info_dict()["help"] == f"{text} {key.flag}".strip()
