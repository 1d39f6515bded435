"""The packages that users install: wheels, sources, R."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from types import ModuleType


ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def program(path: str) -> ModuleType:
    """Import a program of the repository, which may import its neighbours."""
    file = ROOT / path
    sys.path.insert(0, str(file.parent))
    try:
        spec = importlib.util.spec_from_file_location(file.stem, file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(file.parent))
    return module


def test_bounds_that_cannot_be_installed_are_found() -> None:
    raised = program("scripts/resolve.py").raised
    bounds = ["numpy>=1.20", "PyYAML>=6", "a_b>=1.0,<2", "free", "uvloop>=1; extra"]
    versions = {
        "numpy": "1.23.2",
        "pyyaml": "6.0",
        "a-b": "1",
        "free": "3",
        "uvloop": "1",
    }
    assert raised(bounds, versions) == [
        "numpy>=1.20: the lowest that can be installed is 1.23.2"
    ]


def test_the_metadata_names_pythons_of_the_table() -> None:
    systems = program("scripts/systems.py")
    floor = PROJECT["requires-python"].removeprefix(">=")
    named = [
        text.rpartition(" ")[2]
        for text in PROJECT["classifiers"]
        if text.startswith("Programming Language :: Python :: 3.")
    ]
    assert named[0] == floor
    assert set(named) <= set(systems.VERSIONS)
    assert PROJECT["license"] == "MIT"
    for pattern in PROJECT["license-files"]:
        assert list(ROOT.glob(pattern))
    assert {"Documentation", "Repository", "Issues", "Changelog"} <= set(PROJECT["urls"])


def test_numbers_of_a_header_are_read_by_cffi() -> None:
    cdef_of = program("capi_shim/build_support.py").cdef_of
    header = [
        "#ifndef X",
        "#define LH_API",
        "#define LH_VERSION 1",
        "LH_API int f(void);",
    ]
    lines = cdef_of("\n".join([*header, "#endif"])).split("\n")
    assert lines == ["", "", "#define LH_VERSION 1", "int f(void);", ""]


def test_a_move_changes_the_pin_and_no_other_version() -> None:
    with_pin = program("scripts/versions.py").with_pin
    text = (
        'pins "llama-cpp-python==0.3.1", of llama-cpp-python 0.3.1; '
        "since llama.cpp 0.3.1; other==0.3.1"
    )
    assert with_pin(text, "0.4.22") == (
        'pins "llama-cpp-python==0.4.22", of llama-cpp-python 0.4.22; '
        "since llama.cpp 0.3.1; other==0.3.1"
    )


def test_the_pinned_version_is_in_three_files_at_most() -> None:
    versions = program("scripts/versions.py")
    pinned = versions.pins("pyproject.toml")
    assert len(versions.PINNED) <= 3
    assert {versions.pins(name) for name in versions.PINNED} == {pinned}


def test_of_a_change_log_the_newest_version_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions = program("scripts/versions.py")
    monkeypatch.setattr(versions, "ROOT", tmp_path)
    (tmp_path / "CHANGELOG.md").write_text("# Changes\n\n## 0.2.0\n\n## 0.1.0\n")
    pattern = versions.VERSIONS["CHANGELOG.md"]
    assert versions.project_version("CHANGELOG.md", pattern) == "0.2.0"


@pytest.fixture(scope="module")
def portable() -> ModuleType:
    return program("scripts/wheels/portable.py")


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """Create sources of a llama_cpp whose library records the files that it must load."""
    package = tmp_path / "llama_cpp"
    package.mkdir()
    (package / "__init__.py").write_text(
        'from .llama_cpp import *\n\n__version__ = "1.2.3"\n'
    )
    (package / "llama_cpp.py").write_text(
        "from os import environ, fsdecode\n"
        "class _lib:\n"
        "    ggml_backend_reg_count = lambda: int(environ['N_LINKED'])\n"
        "    ggml_backend_load_all_from_path = lambda path: print(fsdecode(path))\n"
    )
    (tmp_path / "CMakeLists.txt").write_text(
        'set(LLAMA_BUILD_COMMON ON CACHE BOOL "Build it" FORCE)\n'
    )
    levels = tmp_path / "vendor" / "llama.cpp" / "ggml" / "src" / "CMakeLists.txt"
    levels.parent.mkdir(parents=True)
    levels.write_text(
        "    ggml_add_cpu_backend_variant(armv8.6_2    DOTPROD SVE MATMUL_INT8 SVE2)\n"
        "    ggml_add_cpu_backend_variant(armv9.2_1    DOTPROD SVE MATMUL_INT8 SME)\n"
        "    ggml_add_cpu_backend_variant(apple_m4     DOTPROD MATMUL_INT8 NOSVE SME)\n"
    )
    return tmp_path


def loaded(sources: Path, n_linked: int, **variables: str) -> str:
    environment = {"PYTHONPATH": str(sources), "N_LINKED": str(n_linked), **variables}
    return subprocess.run(
        [sys.executable, "-c", "import llama_cpp"],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()


def test_the_version_has_a_label(portable: ModuleType, sources: Path) -> None:
    assert portable.adapt(sources) == "1.2.3+portable"
    start = sources / "llama_cpp" / "__init__.py"
    changed = start.read_text()
    assert '__version__ = "1.2.3+portable"' in changed
    assert portable.adapt(sources) == "1.2.3+portable"
    assert start.read_text() == changed
    build = (sources / "CMakeLists.txt").read_text()
    assert build.startswith("set(LLAMA_BUILD_COMMON OFF CACHE")


def test_levels_with_sme_are_left_out_on_linux(
    portable: ModuleType, sources: Path
) -> None:
    portable.adapt(sources)
    levels = (sources / "vendor/llama.cpp/ggml/src/CMakeLists.txt").read_text()
    names = [line.split("(")[1].split()[0] for line in levels.splitlines()]
    assert names == ["armv8.6_2", "apple_m4"]


def test_sources_without_a_version_are_refused(
    portable: ModuleType, sources: Path
) -> None:
    (sources / "llama_cpp" / "__init__.py").write_text("")
    with pytest.raises(SystemExit, match="no line __version__"):
        portable.adapt(sources)


def test_importing_loads_the_backends_beside_the_library(
    portable: ModuleType, sources: Path
) -> None:
    portable.adapt(sources)
    assert loaded(sources, 0) == str(sources / "llama_cpp" / "lib")
    assert loaded(sources, 0, LLAMA_CPP_LIB_PATH="/srv/lib") == "/srv/lib"
    assert loaded(sources, 2) == ""


PACKAGE = Path(__file__).resolve().parents[3] / "r_package"


def test_a_function_of_the_package_is_defined_once() -> None:
    # Files share one namespace: of two definitions, the one in the last file is used
    # without an error.
    counts = Counter(
        name
        for path in sorted((PACKAGE / "R").glob("*.R"))
        for name in re.findall(r"(?m)^([\w.]+) <- ", path.read_text(encoding="utf-8"))
    )
    assert len(counts) > 400
    assert [name for name, n in counts.items() if n > 1] == []


def test_the_front_page_of_r_leads_to_every_help_page() -> None:
    exports = set(re.findall(r"export\((\w+)\)", (PACKAGE / "NAMESPACE").read_text()))
    front = (PACKAGE / "R" / "llamaherd-package.R").read_text(encoding="utf-8")
    topics = front.partition("@section Functions by topic:")[2].partition("@section")[0]
    linked = set(re.findall(r"\[(\w+)(?:\(\))?\]", topics))
    assert len(linked) <= 70
    left_out = []
    for page in (PACKAGE / "man").glob("*.Rd"):
        names = set(re.findall(r"\\alias\{(.*?)\}", page.read_text(encoding="utf-8")))
        if names & exports and not names & linked:
            left_out.append(page.stem)
    assert left_out == []


def test_a_help_page_explains_each_function_that_leads_to_it() -> None:
    exports = re.findall(r"export\((\w+)\)", (PACKAGE / "NAMESPACE").read_text())
    for page in (PACKAGE / "man").glob("*.Rd"):
        text = page.read_text(encoding="utf-8")
        body = re.sub(r"(?m)^\\(alias|name)\{.*\n", "", text)
        named = [name for name in exports if rf"\alias{{{name}}}" in text]
        assert [name for name in named if name not in body] == [], page.stem


# Words of users for R's help.search(), which reads only aliases, titles and concepts.
SOUGHT = {
    "agreement": ["Krippendorff", "intercoder reliability"],
    "annotate_texts": ["classifier", "cascade"],
    "connect": ["vLLM", "Ollama", "job"],
    "context_create": ["common beginning", "prefix cache"],
    "dawid_skene": ["error rates"],
    "embed_parallel": ["embeddings", "loop of single texts"],
    "estimate": ["survey weights", "DSL|design-based", "too short intervals"],
    "generate_parallel": ["unfinished", "surrogate", "invalid encoding"],
    "gold_sample": ["spreadsheet", "Excel"],
    "gold_size": ["how many texts"],
    "install_llamaherd": ["Python version", "libllama"],
    "methods_text": ["BibTeX", "checklist"],
    "read_spans": ["doccano", "Label Studio"],
    "recalibrate": ["constant"],
    "server_start": ["several models"],
    "type_boolean": ["JSON", "verbatim", "additional properties"],
}


@pytest.mark.parametrize("topic", SOUGHT)
def test_words_of_users_find_a_help_page(topic: str) -> None:
    page = (PACKAGE / "man" / f"{topic}.Rd").read_text(encoding="utf-8")
    entries = "\n".join(re.findall(r"(?m)^\\(?:alias|title|concept)\{(.*)\}$", page))
    missing = [
        word for word in SOUGHT[topic] if not re.search(word, entries, re.IGNORECASE)
    ]
    assert missing == []
