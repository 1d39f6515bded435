"""Wheels: changes of llama-cpp-python's sources, and wheels of other systems."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import subprocess
import sys
import zipfile
from importlib.metadata import distributions
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(__file__).parents[3]


def program(name: str) -> ModuleType:
    path = ROOT / "scripts" / name
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def portable() -> ModuleType:
    return program("wheels/portable.py")


@pytest.fixture(scope="module")
def pack_wheel() -> ModuleType:
    return program("cross/pack_wheel.py")


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


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Create the folder of a package with a library."""
    folder = tmp_path / "site"
    info = folder / "two_words-1.0+portable.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: two_words\nVersion: 1.0+portable\n"
    )
    (info / "RECORD").write_text("outdated")
    (folder / "two" / "lib").mkdir(parents=True)
    (folder / "two" / "__init__.py").write_text("N = 2\n")
    (folder / "two" / "lib" / "two.dll").write_bytes(bytes(range(256)) * 9)
    (folder / "two" / "__pycache__").mkdir()
    (folder / "two" / "__pycache__" / "x.pyc").write_bytes(b"x")
    return folder


def test_pip_installs_a_packed_folder(
    pack_wheel: ModuleType, folder: Path, tmp_path: Path
) -> None:
    house = tmp_path / "house"
    house.mkdir()
    older = house / "two_words-0.9-py3-none-any.whl"
    other = house / "two_words-0.9-py3-none-win_amd64.whl"
    for wheel in (older, other):
        wheel.touch()
    wheel = pack_wheel.pack(folder, "py3-none-any", house)
    assert sorted(house.iterdir()) == [other, wheel]
    assert wheel.name == "two_words-1.0+portable-py3-none-any.whl"

    target = tmp_path / "target"
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps"]
    subprocess.run([*command, "--target", target, wheel], check=True)
    (found,) = distributions(path=[str(target)])
    assert (found.name, found.version) == ("two_words", "1.0+portable")
    installed = {str(file): file for file in found.files}
    library = installed["two/lib/two.dll"]
    content = (folder / "two" / "lib" / "two.dll").read_bytes()
    assert library.read_binary() == content
    digest = base64.urlsafe_b64decode(library.hash.value + "=")
    assert (library.hash.mode, digest) == ("sha256", hashlib.sha256(content).digest())
    assert library.size == len(content)
    with zipfile.ZipFile(wheel) as archive:
        assert not [name for name in archive.namelist() if name.endswith(".pyc")]


def test_a_folder_of_two_packages_is_refused(
    pack_wheel: ModuleType, folder: Path, tmp_path: Path
) -> None:
    more = folder / "more-1.0.dist-info"
    more.mkdir()
    (more / "METADATA").touch()
    with pytest.raises(SystemExit, match="the metadata of 2 packages"):
        pack_wheel.pack(folder, "py3-none-any", tmp_path)
