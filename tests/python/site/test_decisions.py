"""Decision records: the index, their order, and links between pages."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).resolve().parents[3]
RECORDS = ROOT / "docs" / "decisions"
CODE = ("*.py", "*.cpp", "*.hpp", "*.c", "*.h", "*.R", "*.sh", "*.txt")


def index_problems(folder: Path) -> list[str]:
    """Return records that the index lacks or has twice, and rows out of order."""
    text = (folder / "README.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| \[\d{4}\]\((.+?)\) \|", text, re.MULTILINE)
    files = sorted(path.name for path in folder.glob("0*.md"))
    problems = [f"{name}: not in the index" for name in files if name not in listed]
    problems += [f"{name}: no such record" for name in listed if name not in files]
    if listed != sorted(set(listed)):
        problems.append("the index is not in order")
    for name in files:
        title = (folder / name).read_text(encoding="utf-8").partition("\n")[0]
        if not title.startswith(f"# {name[:4]} "):
            problems.append(f"{name}: its title does not begin with its number")
    return problems


def prose(page: Path) -> str:
    """Return the text of a page without its code blocks."""
    text = page.read_text(encoding="utf-8")
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


def places(page: Path) -> set[str]:
    """Return the anchors of a page's headings, in the form of GitHub and the site."""
    words = [
        re.sub(r"[^\w\- ]", "", line.lower())
        for line in re.findall("^#+ (.+)", prose(page), re.MULTILINE)
    ]
    return {word.strip().replace(" ", "-") for word in words}


def dead_links(pages: list[Path]) -> list[str]:
    """Return links of Markdown pages to files or headings that do not exist."""
    dead = []
    for page in pages:
        for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
            if re.match(r"[a-z]+:", link):
                continue
            name, _, place = unquote(link).partition("#")
            target = page.parent / name if name else page
            is_page = target.suffix == ".md" and target.is_file()
            if not target.exists() or (place and is_page and place not in places(target)):
                dead.append(f"{page.name}: {link}")
    return dead


def unknown_numbers(pages: list[Path], records: Path) -> list[str]:
    """Return mentions of records that do not exist, such as "(0026)"."""
    known = {path.name[:4] for path in records.glob("0*.md")}
    return [
        f"{page.name}: {number}"
        for page in pages
        for number in re.findall(
            r"(?:decisions/|[\[(]|, |and )(00\d\d)\b(?! into)", page.read_text("utf-8")
        )
        if number not in known
    ]


def pages() -> list[Path]:
    """Return all Markdown pages of the project for readers."""
    names = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "r_package/NEWS.md")
    own = [ROOT / name for name in names]
    return [*own, *sorted((ROOT / "docs").rglob("*.md"))]


def test_the_index_lists_all_records_in_order() -> None:
    assert index_problems(RECORDS) == []


def test_links_of_all_pages_lead_somewhere() -> None:
    assert dead_links(pages()) == []


def test_mentioned_records_exist() -> None:
    records = sorted(RECORDS.glob("0*.md"))
    rooms = ("capi_shim", "python_core", "r_package", "tests", "benchmarks", "scripts")
    code = [p for room in rooms for kind in CODE for p in (ROOT / room).rglob(kind)]
    code = [path for path in code if path != Path(__file__).resolve()]
    assert unknown_numbers(records, RECORDS) == []
    mentions = [
        f"{path.relative_to(ROOT)}: {number}"
        for path in code
        for number in re.findall(
            r"docs/decisions/(\d{4})", path.read_text("utf-8", "replace")
        )
        if not list(RECORDS.glob(f"{number}-*.md"))
    ]
    assert mentions == []


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in ("0001", "0002", "0003"):
        (tmp_path / f"{number}-a.md").write_text(f"# {number} A\n", encoding="utf-8")
    return tmp_path


def write_index(folder: Path, *names: str) -> None:
    rows = "".join(f"| [{name[:4]}]({name}) | A |\n" for name in names)
    (folder / "README.md").write_text(f"# Decisions\n\n{rows}", encoding="utf-8")


def test_a_good_index_passes(folder: Path) -> None:
    write_index(folder, "0001-a.md", "0002-a.md", "0003-a.md")
    assert index_problems(folder) == []


def test_a_record_that_is_not_listed_is_named(folder: Path) -> None:
    write_index(folder, "0001-a.md", "0003-a.md")
    assert index_problems(folder) == ["0002-a.md: not in the index"]


def test_a_row_without_its_record_is_named(folder: Path) -> None:
    write_index(folder, "0001-a.md", "0002-a.md", "0003-a.md", "0004-a.md")
    assert index_problems(folder) == ["0004-a.md: no such record"]


def test_wrong_order_is_reported(folder: Path) -> None:
    write_index(folder, "0001-a.md", "0003-a.md", "0002-a.md")
    assert index_problems(folder) == ["the index is not in order"]


def test_a_wrong_title_is_named(folder: Path) -> None:
    write_index(folder, "0001-a.md", "0002-a.md", "0003-a.md")
    (folder / "0002-a.md").write_text("# 0003 A\n", encoding="utf-8")
    assert index_problems(folder) == [
        "0002-a.md: its title does not begin with its number"
    ]


def test_dead_links_and_unknown_records_are_named(folder: Path) -> None:
    page = folder / "page.md"
    page.write_text(
        "# Good words\n\n[a](0001-a.md) [b](#good-words) [c](https://example.org)\n"
        "[d](gone.md) [e](0001-a.md#gone) [f](#gone)\nSee (0002) and (0009).\n",
        encoding="utf-8",
    )
    assert dead_links([page]) == [
        "page.md: gone.md",
        "page.md: 0001-a.md#gone",
        "page.md: #gone",
    ]
    assert unknown_numbers([page], folder) == ["page.md: 0009"]
