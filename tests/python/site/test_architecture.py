"""The rooms of the house, and its decision records."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pytest

if TYPE_CHECKING:
    from types import ModuleType


ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
PACKAGE = ROOT / "python_core" / "llamaherd"
BASES = (
    *(ROOT / name for name in ("", "docs", "capi_shim", "r_package", "r_package/R")),
    PACKAGE,
)
WINGS = {"engine", "calls", "coding"}
MOST_LINES = 500  # of a Python file of the package; a longer one has two purposes
MOST_LINES_OF_THE_PAGE = 250
SUFFIXES = r"(?:pyi?|R|cpp|hpp|h|md|toml|yml|sh|bib|inc)"
FILE = re.compile(rf"`((?:[\w.-]+/)*[\w*-]+\.{SUFFIXES})`((?: \((?:`\w+`(?:, )?)+\))?)")
PLACE = re.compile(rf"`(?:[\w.-]+/)+`|`[\w./*-]*\w\.{SUFFIXES}`|`[\w./]+/[A-Z]+`")


@pytest.fixture(scope="module")
def script() -> ModuleType:
    path = ROOT / "scripts" / "architecture.py"
    spec = importlib.util.spec_from_file_location("architecture", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def files_of(name: str) -> list[Path]:
    """Return the files with a path in one of the folders to which names are relative."""
    return [path for base in BASES for path in base.glob(name)]


def rooms(folder: Path) -> set[str]:
    """Return the folders with sources in a folder."""
    return {
        path.name
        for path in folder.iterdir()
        if path.is_dir() and any(p.suffix in {".py", ".cpp"} for p in path.iterdir())
    }


def test_the_page_is_short() -> None:
    assert len(PAGE.splitlines()) <= MOST_LINES_OF_THE_PAGE


def test_every_file_that_is_named_exists() -> None:
    names = {name for name, _ in FILE.findall(PAGE)}
    assert len(names) > 100
    assert sorted(name for name in names if not files_of(name)) == []


def test_every_name_after_a_file_is_defined_there() -> None:
    pairs = [
        (name, word)
        for name, words in FILE.findall(PAGE)
        for word in re.findall(r"`(\w+)`", words)
    ]
    assert len(pairs) > 5
    missing = [
        (name, word)
        for name, word in pairs
        if not re.search(
            rf"^(?:class |def |async def |)(?:{word})\b(?: ?[:=(]| <-)",
            files_of(name)[0].read_text(encoding="utf-8"),
            re.MULTILINE,
        )
    ]
    assert missing == []


def test_every_room_is_in_the_plan_with_its_size(script: ModuleType) -> None:
    stated = script.rooms(PAGE)
    python = rooms(PACKAGE).union(*(rooms(PACKAGE / wing) for wing in WINGS))
    shim = {
        f"{name} of C++" if name in python else name for name in rooms(ROOT / "capi_shim")
    }
    assert set(stated) == python - WINGS | shim | {"r_package/R"}
    for name, (lines, files) in stated.items():
        now = script.sizes(name.removesuffix(" of C++"), is_shim="C++" in name)
        close = (pytest.approx(now[0], 0.2, 150), pytest.approx(now[1], 0.2, 3))
        assert (lines, files) == close, f"{name}: run `make generated`"


def test_the_plan_has_the_order_of_the_imports(script: ModuleType) -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    layers = re.compile(
        r"^containers = \[\"llamaherd\.?(\w*)\"\]\n.*?^layers = \[(.*?)^\]",
        re.MULTILINE | re.DOTALL,
    )
    order_in = {place: re.findall(r"\w+", names) for place, names in layers.findall(text)}
    assert set(order_in) == {"", *WINGS}
    order = [name for room in order_in[""] for name in order_in.get(room, [room])]
    named = [name for name in script.rooms(PAGE) if name in order]
    assert named == [name for name in order if name in named]


def test_a_room_that_is_gone_is_an_error(script: ModuleType) -> None:
    page = "| `core/` | used by all | 1.0k | 1 |\n"
    assert script.rooms(page) == {"core": (1000, 1)}
    assert script.rooms(script.sized(page)) != script.rooms(page)
    with pytest.raises(FileNotFoundError):
        script.sized(page.replace("core", "gone"))


def test_the_files_that_an_addition_touches_are_counted() -> None:
    table = PAGE.partition("\n| you add |")[2].partition("\n\n")[0]
    rows = [row.strip("| ").split(" | ") for row in table.splitlines()[2:]]
    assert len(rows) > 5
    for what, places, number in rows:
        names = {name.strip("`") for name in PLACE.findall(places)}
        assert len(names) == int(number), what
        assert [name for name in names if not files_of(name)] == [], what


def test_no_file_of_the_package_is_too_long() -> None:
    lengths = {
        str(path.relative_to(PACKAGE)): len(path.read_text(encoding="utf-8").splitlines())
        for path in PACKAGE.rglob("*.py")
    }
    assert {name: n for name, n in lengths.items() if n > MOST_LINES} == {}


def test_every_file_of_r_is_in_the_map() -> None:
    folder = ROOT / "r_package" / "R"
    named = {
        path.name
        for name, _ in FILE.findall(PAGE)
        if name.endswith(".R")
        for path in folder.glob(name)
    }
    assert sorted({path.name for path in folder.glob("*.R")} - named) == []


RECORDS = ROOT / "docs" / "decisions"
CODE = ("*.py", "*.cpp", "*.hpp", "*.c", "*.h", "*.R", "*.sh", "*.txt")


def index_problems(folder: Path) -> list[str]:
    """Return records that the index lacks or has twice, and rows out of order."""
    text = (folder / "README.md").read_text(encoding="utf-8")
    indexed = re.findall(r"^\| \[\d{4}\]\((.+?)\) \|", text, re.MULTILINE)
    files = sorted(path.name for path in folder.glob("0*.md"))
    problems = [f"{name}: not in the index" for name in files if name not in indexed]
    problems += [f"{name}: no such record" for name in indexed if name not in files]
    if indexed != sorted(set(indexed)):
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
    at_top = [ROOT / name for name in names]
    return [*at_top, *sorted((ROOT / "docs").rglob("*.md"))]


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
