"""Numbers with nouns in messages, the command that installs, and the version."""

from __future__ import annotations

import importlib.metadata
import re
from pathlib import Path

import llamaherd as lh
import pytest
from llamaherd.engine.core import phrases
from llamaherd.engine.core.phrases import count_of, part_of, percent, verb


@pytest.mark.parametrize(
    ("n", "what", "wanted"),
    [
        (1, "text", "1 text"),
        (0, "text", "0 texts"),
        (1200, "coded text", "1,200 coded texts"),
        (1, "coded text", "1 coded text"),
        (2, "person", "2 people"),
        (3, "stratum", "3 strata"),
        (2, "entry", "2 entries"),
        (2, "day", "2 days"),
    ],
)
def test_nouns_follow_their_number(n: int, what: str, wanted: str) -> None:
    assert count_of(n, what) == wanted


def test_verbs_follow_their_number() -> None:
    assert [verb(n, "is", "are") for n in (0, 1, 2)] == ["are", "is", "are"]


@pytest.mark.parametrize(
    ("n", "whole", "wanted"),
    [
        (0, 1, "0 of 1 text of it has"),
        (1, 20, "1 of 20 texts of it has"),
        (0, 20, "0 of 20 texts of it have"),
        (1200, 3000, "1,200 of 3,000 texts of it have"),
    ],
)
def test_verbs_follow_the_number_of_a_part(n: int, whole: int, wanted: str) -> None:
    assert part_of(n, whole, "text", of="of it") == wanted
    assert part_of(n, whole, "text") == wanted.replace(" of it", "")


def test_a_confidence_level_is_not_rounded() -> None:
    """A level of 0.995 was printed as "100% confidence intervals", unlike in R."""
    written = [percent(level) for level in (0.5, 0.95, 0.975, 0.995, 0.9999)]
    assert written == ["50%", "95%", "97.5%", "99.5%", "99.99%"]
    agreement = lh.validate(["a", "b"] * 10, ["a", "b"] * 9 + ["b", "a"], level=0.995)
    assert "[99.5% confidence intervals" in repr(agreement)
    assert "97.5% confidence" in str(lh.gold_size(0.05, level=0.975))


ROOT = Path(__file__).resolve().parents[3]
REPOSITORY = "https://github.com/llamaherd/llamaherd"


def test_the_command_names_the_repository() -> None:
    """Also with extras and options."""
    assert phrases.install_command() == f'pip install "git+{REPOSITORY}"'
    extras = f'pip install -U "llamaherd[docx,plot] @ git+{REPOSITORY}"'
    assert phrases.install_command("docx", "plot", options="-U") == extras


def test_no_text_asks_an_index_for_llamaherd() -> None:
    """This includes sources, documents and help pages."""
    folders = ("python_core", "r_package", "docs", "capi_shim", "scripts", "examples")
    files = [ROOT / "README.md"]
    for folder in folders:
        files += [p for p in (ROOT / folder).rglob("*") if p.is_file()]
    kinds = {".py", ".R", ".Rd", ".Rmd", ".md", ".sh", ".cpp", ".hpp", ".toml"}
    asked = re.compile(
        r"""pip3? install [^\n|`]*?(?<![\w/.+-])llamaherd(\[[\w,]+\])?"""
        r"""["'` .:)]*(?! ?@)(\s|$)"""
    )
    places = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in files
        if path.suffix in kinds
        for line in path.read_text(encoding="utf-8").splitlines()
        if asked.search(line)
    ]
    assert places == []


def test_it_is_read_from_disk_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server has it in each answer: reading takes as long as a short request."""
    wanted = importlib.metadata.version("llamaherd")
    assert lh.__version__ == wanted
    monkeypatch.setattr(importlib.metadata, "version", None)
    assert lh.__version__ == wanted
