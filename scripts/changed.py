"""Runs the tests that changed files need, on the sources as they are.

    changed.py quick FILE...      run the tests of these files: make quick FILES="..."
    changed.py list [--base REV]  print the tests that all changes since REV need
    changed.py run [--base REV]   run them (make test-changed)

`quick` runs the nearest tests only: the test file of the same name, and those that import
the module. `list` and `run` add all tests of the folder. Arguments after `--` go to
pytest.

Python tests use the sources through links in build/tree, with the compiled library of
.venv: run `make .venv/.package` after changes in capi_shim that Python tests need. C++
tests build build/test, and run the test cases of the changed folder. R tests install the
package into build/quick-r.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHON = ROOT / ".venv/bin/python"
TREE = ROOT / "build/tree"
R_LIBRARY = ROOT / "build/quick-r"
WINGS = ("engine", "calls")
NEAREST_R = 6  # number of test files that `quick` runs for a file of R
# What the build adds to the sources of the Python package.
COMPILED = (
    "libllamaherd*",
    "include",
    "engine/native/_shim*.so",
    "engine/native/_build_info.py",
)


@dataclass
class Needs:
    """Tests that changes need."""

    python: set[str] = field(default_factory=set)  # files and folders for pytest
    # Patterns of source files of C++ test cases.
    units: set[str] = field(default_factory=set)
    r: set[str] = field(default_factory=set)  # files of R tests

    def add(self, path: str, *, is_nearest: bool) -> None:
        """Add the tests that a changed file needs."""
        if re.fullmatch(r"tests/(python|cross)/.*\.py", path):
            self.python |= _of_test_code(path)
        elif path.startswith("python_core/"):
            self.python |= _of_module(path, is_nearest=is_nearest)
        elif path.startswith(("capi_shim/", "tests/capi/")):
            self._add_unit(path, is_nearest=is_nearest)
        elif path.startswith("r_package/"):
            self.r |= _of_r(path, is_nearest=is_nearest)
        elif path.startswith(("docs/", "scripts/", ".ci/")) or "/" not in path:
            self.python.add("tests/python/site")

    def _add_unit(self, path: str, *, is_nearest: bool) -> None:
        if re.fullmatch(r"tests/capi/.*/test_.*\.cpp", path):
            self.units.add(f"*{path}")
            return
        folder = Path(path).parent.name
        is_room = (ROOT / "tests/capi" / folder).is_dir()
        self.units.add(f"*tests/capi/{folder}/*" if is_room else "*")
        if not is_nearest:
            self.units = {"*"}
            self.python |= {"tests/python/native", "tests/python/whole/test_contract.py"}


def _test_files(folder: str = "tests") -> list[Path]:
    return sorted((ROOT / folder).rglob("test_*.py"))


def _relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _of_test_code(path: str) -> set[str]:
    """Return a test file itself; for a helper, the test files that import it."""
    name = Path(path).stem
    if name.startswith("test_"):
        return {path}
    if name == "conftest":
        return {str(Path(path).parent)}
    imports = re.compile(rf"^\s*(from|import) {name}\b", re.MULTILINE)
    return {
        _relative(test)
        for test in _test_files()
        if imports.search(test.read_text(encoding="utf-8"))
    }


def _of_module(path: str, *, is_nearest: bool) -> set[str]:
    """Return the tests of a module of the Python package."""
    module = Path(path).relative_to("python_core").with_suffix("")
    # Tests of the wings `engine` and `calls` have a folder for each room.
    room = Path("tests/python", *module.parts[1 + (module.parts[1] in WINGS) : -1])
    while not (ROOT / room).is_dir():
        room = room.parent
    dotted = re.escape(".".join(module.parts))
    package = re.escape(".".join(module.parts[:-1]))
    imports = re.compile(
        rf"\b{dotted}\b|from {package} import [^\n]*\b{module.name}\b", re.MULTILINE
    )
    tests = {
        _relative(test)
        for test in _test_files()
        if (
            test.name == f"test_{module.name.lstrip('_')}.py"
            and test.is_relative_to(ROOT / room)
        )
        or imports.search(test.read_text(encoding="utf-8"))
    }
    is_everywhere = room == Path("tests/python")
    if not is_nearest and not is_everywhere:
        tests.add(str(room))
    return tests or {"tests/python/api" if is_everywhere else str(room)}


def _of_r(path: str, *, is_nearest: bool) -> set[str]:
    """Return the R tests that a file of the R package needs.

    The nearest are the test of the file's name, and those that call its functions most.
    """
    tests = sorted((ROOT / "r_package/tests/testthat").glob("test-*.R"))
    if path.startswith("r_package/tests/"):
        name = Path(path).stem.removeprefix("test-")
        named = {test.name for test in tests if test.stem == f"test-{name}"}
        return named or {test.name for test in tests}
    source = ROOT / path
    if source.suffix != ".R" or not source.exists():
        return {"test-help.R"}
    names = re.findall(
        r"^([\w.]+) <- function", source.read_text(encoding="utf-8"), re.MULTILINE
    )
    used = re.compile("|".join(rf"\b{re.escape(name)}\(" for name in names) or "(?!)")
    calls = {t: len(used.findall(t.read_text(encoding="utf-8"))) for t in tests}
    calls |= {t: 10**6 for t in tests if t.stem == f"test-{source.stem}"}
    using = sorted((t for t in tests if calls[t]), key=lambda t: -calls[t])
    return {t.name for t in using[: NEAREST_R if is_nearest else None]} or {"test-help.R"}


def changed_files(base: str) -> list[str]:
    """Return the files that differ from the revision, and those not in git."""
    commands = (
        ["git", "diff", "--name-only", base],
        ["git", "ls-files", "--others", "--exclude-standard"],
    )
    lines = [
        line
        for command in commands
        for line in subprocess.run(
            command, cwd=ROOT, check=True, capture_output=True, text=True
        ).stdout.splitlines()
    ]
    return sorted(set(lines))


def link_sources() -> None:
    """Create build/tree/llamaherd: links to the sources and the compiled files."""
    package = TREE / "llamaherd"
    shutil.rmtree(package, ignore_errors=True)
    sources = ROOT / "python_core/llamaherd"
    installed = Path(
        sysconfig.get_path("purelib", vars={"base": str(ROOT / ".venv")}), "llamaherd"
    )
    for source in sources.rglob("*"):
        if source.is_file() and source.suffix != ".pyc":
            _link(package / source.relative_to(sources), source)
    for pattern in COMPILED:
        for compiled in installed.glob(pattern):
            _link(package / compiled.relative_to(installed), compiled)
    # A C program that is linked to the library finds libllama beside it.
    (TREE / "llama_cpp").unlink(missing_ok=True)
    _link(TREE / "llama_cpp", installed.parent / "llama_cpp")


def _link(link: Path, target: Path) -> None:
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(target)


def run_python(paths: set[str], arguments: list[str]) -> bool:
    """Run pytest on files and folders in one process."""
    command = [str(PYTHON), "-m", "pytest", "-q", "-n", "0", *sorted(paths), *arguments]
    return subprocess.run(
        command, cwd=ROOT, env=_environment(), check=False
    ).returncode in (
        (0, 5)  # 5: all tests of these files are in the long lane
    )


def run_units(patterns: set[str]) -> bool:
    """Build the C++ tests, and run the test cases of the files."""
    environment = {**os.environ, "UNITS": ",".join(sorted(patterns))}
    command = ["scripts/test.sh", "units"]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode == 0


def run_r(names: set[str]) -> bool:
    """Install the R package, and run test files."""
    R_LIBRARY.mkdir(parents=True, exist_ok=True)
    install = ["R", "CMD", "INSTALL", "--no-docs", "--no-test-load"]
    install += [f"--library={R_LIBRARY}", "r_package"]
    stems = "|".join(sorted(Path(name).stem.removeprefix("test-") for name in names))
    code = (
        "Sys.setenv(NOT_CRAN = 'true')\n"
        "testthat::test_dir('r_package/tests/testthat', package = 'llamaherd', "
        f"load_package = 'installed', filter = '^({stems})$', reporter = 'check')"
    )
    steps = (install, ["Rscript", "--vanilla", "-e", code])
    return all(
        subprocess.run(step, cwd=ROOT, env=_environment(), check=False).returncode == 0
        for step in steps
    )


def _environment() -> dict[str, str]:
    """Return the environment of tests that use the sources."""
    libraries = [str(R_LIBRARY), str(ROOT / ".rlib")]
    return {
        **os.environ,
        "PYTHONPATH": str(TREE),
        "RETICULATE_PYTHON": str(PYTHON),
        "R_LIBS": os.pathsep.join(libraries),
        "PATH": f"{PYTHON.parent}{os.pathsep}{os.environ['PATH']}",
    }


def run(needs: Needs, arguments: list[str]) -> bool:
    """Run all tests; return True if they pass."""
    link_sources()
    results = []
    if needs.units:
        results.append(run_units(needs.units))
    if needs.python:
        results.append(run_python(needs.python, arguments))
    if needs.r:
        results.append(run_r(needs.r))
    return all(results)


def main() -> None:
    """Print or run the tests; exit with 1 if one fails."""
    words, _, more = " ".join(sys.argv[1:]).partition(" -- ")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=("quick", "list", "run"))
    parser.add_argument("files", nargs="*")
    parser.add_argument("--base", default="HEAD")
    arguments = parser.parse_args(words.split())
    is_nearest = arguments.action == "quick"
    needs = Needs()
    for path in arguments.files if is_nearest else changed_files(arguments.base):
        needs.add(os.path.normpath(path), is_nearest=is_nearest)
    if arguments.action != "list":
        sys.exit(not run(needs, more.split()))
    for kind, names in (("pytest", needs.python), ("units", needs.units), ("R", needs.r)):
        for name in sorted(names):
            print(f"{kind}: {name}")


if __name__ == "__main__":
    main()
