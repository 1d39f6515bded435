"""The site, its pages and zips, and the README."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import llamaherd as lh
import pytest

if TYPE_CHECKING:
    from types import ModuleType


sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "scripts"))

import docs_links

ROOT = docs_links.ROOT
CHECKER = ROOT / "scripts" / "docs_links.py"


def check(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, CHECKER, folder],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


def test_every_public_name_is_in_the_reference_once() -> None:
    pages = (ROOT / "docs" / "api").glob("*.md")
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    named = re.findall(r"^- `lh\.((?:types\.)?\w+)`", text, re.MULTILINE)
    types = [f"types.{name}" for name in vars(lh.types) if name[0].isupper()]
    assert sorted(named) == sorted([*lh.__all__, *types])


def test_names_of_the_reference_become_directives() -> None:
    page = "# Chat\n\n- `lh.chat`\n- `lh.Chat`, with inherited members\n\n`lh.x`"
    assert docs_links.with_reference(page) == (
        "# Chat\n\n\n::: llamaherd.chat\n\n\n::: llamaherd.Chat\n    options:\n"
        "      inherited_members: true\n\n\n`lh.x`"
    )


def test_good_links_pass(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "index.html").write_text(
        '<a href="sub/#place">one</a><a href="#own">two</a><h1 id="own"></h1>'
        '<a href="https://example.org/not-fetched">three</a><img src="a%20b.png">',
        encoding="utf-8",
    )
    (tmp_path / "sub" / "index.html").write_text(
        '<a href="../index.html#own">back</a><p id="place">', encoding="utf-8"
    )
    (tmp_path / "a b.png").write_bytes(b"")
    done = check(tmp_path)
    assert done.returncode == 0, done.stdout
    assert "2 pages, 5 links, 0 broken" in done.stdout


def test_links_that_lead_nowhere_are_named(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(
        '<a href="gone.html">one</a><a href="#gone">two</a><img src="gone.png">'
        '<a href="/index.html">three</a>',
        encoding="utf-8",
    )
    done = check(tmp_path)
    assert done.returncode == 1
    assert "index.html: gone.html: no such file" in done.stdout
    assert "index.html: #gone: no such anchor" in done.stdout
    assert "index.html: gone.png: no such file" in done.stdout
    assert "1 pages, 4 links, 3 broken" in done.stdout


def test_an_empty_folder_is_no_site(tmp_path: Path) -> None:
    assert check(tmp_path).returncode == 1


def test_every_page_is_in_the_navigation() -> None:
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    pages = {path.name for path in (ROOT / "docs").glob("*.md")}
    assert (
        sorted(page for page in pages if not re.search(rf"\b{page}$", nav, re.MULTILINE))
        == []
    )


@pytest.mark.parametrize(
    "name", ["ci_report", "docs_examples", "request_fields", "systems"]
)
def test_a_script_hides_no_package_from_tests(name: str) -> None:
    script = f"import {name}, coverage\nassert coverage.__path__"
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT / "scripts",
        check=False,
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr


DOCS = Path(__file__).resolve().parents[3] / "docs"
OTHERS = {"moving-llama"}  # steps that developers read before they type
PAGES = sorted(path for path in DOCS.glob("*.md") if path.stem not in OTHERS)


def begins_with_code(page: str) -> bool:
    """Return whether a block of code follows the title of a page."""
    body = re.sub(r"<!-- .*? -->", "", page.partition("\n")[2], flags=re.DOTALL)
    return body.lstrip().startswith("```")


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_an_installed_user_has_the_data_of_a_page(path: Path) -> None:
    assert '("examples/data' not in path.read_text(encoding="utf-8")  # in a clone only


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_page_begins_with_what_to_type(path: Path) -> None:
    assert begins_with_code(path.read_text(encoding="utf-8"))


def test_words_before_the_first_code_are_found() -> None:
    assert begins_with_code("# A\n\n<!-- made by b.py -->\n\n```sh\nc\n```\n")
    assert not begins_with_code("# A\n\nThis page explains.\n\n```sh\nc\n```\n")


def test_no_zip_of_the_package_drops_items() -> None:
    # Ruff's B905 demands that every zip has the argument.
    sources = sorted((ROOT / "python_core").rglob("*.py"))
    assert [str(path) for path in sources if "strict=False" in path.read_text()] == []


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
    image, record = picture.content(tmp_path)
    assert record == {"words": ["codes", "human"], "numbers": [0.25, 0.5]}
    assert run_readme.record_of(image) == record
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
