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
    "Systems",
    "Install",
    "Twenty lines of R",
    "Ten lines of Python",
    "One line of the command line",
    "One line of HTTP",
    "How fast",
    "Two commands",
    "Where to read on",
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
    assert len(README.splitlines()) <= 160
    assert re.findall(r"^## (.+)$", README, re.MULTILINE) == SECTIONS


def test_examples_have_the_lengths_that_headings_promise(run_readme: ModuleType) -> None:
    lengths = {"r": 23, "python": 10, "sh": 1, "curl": 1}
    for language, most in lengths.items():
        code = run_readme.blocks("README.md", language, 1)
        lines = [line for line in code.splitlines() if line.strip()]
        assert 1 <= len(lines) <= most, language


def test_every_example_of_the_readme_is_run(run_readme: ModuleType) -> None:
    ran = {language for page, language, _ in run_readme.EXAMPLES if page == "README.md"}
    assert ran == {"r", "python", "sh", "curl"}
    blocks = re.findall(r"^```(\w+)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    left = [code for _, code in blocks if not run_readme.SKIPPED.search(code)]
    assert len(left) == len(ran)


def test_a_page_that_lacks_an_example_ends_the_run(run_readme: ModuleType) -> None:
    with pytest.raises(SystemExit, match=r"README.md has 1 examples in python, not 2"):
        run_readme.blocks("README.md", "python", 2)


def test_a_line_of_http_names_the_servers_address(run_readme: ModuleType) -> None:
    with pytest.raises(SystemExit, match="not `curl"):
        run_readme.post("curl http://example.org/ -d '{}'", "http://127.0.0.1:1")
