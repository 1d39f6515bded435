"""README.md: its length, its order, and examples that scripts/run_readme.py runs."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(__file__).resolve().parents[3]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SECTIONS = [
    "R",
    "Python, the command line, HTTP",
    "Which model, and how long",
    "Two commands",
    "Where to read on",
    "Systems",
]


@pytest.fixture(scope="module")
def run_readme() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "run_readme", ROOT / "scripts" / "run_readme.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_is_short_and_in_order() -> None:
    assert len(README.split()) <= 900
    assert re.findall(r"^## (.+)$", README, re.MULTILINE) == SECTIONS


def test_examples_are_short(run_readme: ModuleType) -> None:
    lengths = {"r": 11, "python": 5, "sh": 1, "curl": 1}
    for language, most in lengths.items():
        code = run_readme.blocks("README.md", language, 1)
        lines = [line for line in code.splitlines() if not line.startswith("#>")]
        assert 1 <= len(lines) <= most, language


def test_every_example_of_the_readme_is_run(run_readme: ModuleType) -> None:
    ran = {language for page, language, _ in run_readme.EXAMPLES if page == "README.md"}
    assert ran == {"r", "python", "sh", "curl"}
    blocks = re.findall(r"^```(\w+)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    left = [code for _, code in blocks if not run_readme.SKIPPED.search(code)]
    assert len(left) == len(ran)


def test_each_picture_shows_words_and_numbers(run_readme: ModuleType) -> None:
    for picture in run_readme.PICTURES.values():
        record = run_readme.record_of((ROOT / picture.path).read_bytes())
        assert picture.problem(record, record) == ""
        assert "interval" in record["words"]
        assert len(record["numbers"]) > 10


def test_a_picture_that_shows_something_else_is_named(
    run_readme: ModuleType, tmp_path: Path
) -> None:
    picture = run_readme.PICTURES["README.md"]
    (tmp_path / "picture.png").write_bytes((ROOT / picture.path).read_bytes())
    head = "4 0 0 100 0 16 10 0.0000 4 120 667 6358 7176"
    (tmp_path / "picture.fig").write_text(f"{head} human codes\\001\n1 2 3\n")
    (tmp_path / "picture.json").write_text("[0.25, 0.5]")
    made, record = picture.made(tmp_path)
    assert record == {"words": ["codes", "human"], "numbers": [0.25, 0.5]}
    assert run_readme.record_of(made) == record
    assert picture.problem(record, record) == ""
    assert "it has no record" in picture.problem(None, record)
    for words, numbers, problem in (
        (["codes", "people"], [0.25, 0.5], "['people'] in place of ['human']"),
        (["codes", "human"], [0.25, 0.6], "0.6 in place of 0.5"),
        (["codes", "human"], [0.25], "1 numbers, not 2"),
    ):
        assert problem in picture.problem({"words": words, "numbers": numbers}, record)


def test_a_page_that_lacks_an_example_ends_the_run(run_readme: ModuleType) -> None:
    with pytest.raises(SystemExit, match=r"README.md has 1 examples in python, not 2"):
        run_readme.blocks("README.md", "python", 2)


def test_a_line_of_http_names_the_servers_address(run_readme: ModuleType) -> None:
    with pytest.raises(SystemExit, match="not `curl"):
        run_readme.post("curl http://example.org/ -d '{}'", "http://127.0.0.1:1")
