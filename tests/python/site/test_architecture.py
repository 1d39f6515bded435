"""docs/architecture.md: all names in it exist, its sizes hold, and no room is missing."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import TYPE_CHECKING

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
SUFFIXES = r"(?:py|R|cpp|hpp|h|md|toml|yml|sh|bib|inc)"
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


def found(name: str) -> list[Path]:
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
    assert sorted(name for name in names if not found(name)) == []


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
            found(name)[0].read_text(encoding="utf-8"),
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
        assert [name for name in names if not found(name)] == [], what


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
