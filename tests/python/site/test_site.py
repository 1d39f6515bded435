"""Sources of the sites, and the checker of their links."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import llamaherd as lh
import pytest

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
