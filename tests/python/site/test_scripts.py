"""Shell scripts that build and test for other systems: failures, arguments, records."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SCRIPTS = ROOT / "scripts"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="scripts of Linux")


def bash(*command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", *command],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Create a project that contains the scripts and a Python that records its calls."""
    shutil.copytree(SCRIPTS, tmp_path / "scripts")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    programs = {
        ".venv/bin/python": f'echo "$*" >>{tmp_path}/calls',
        "scripts/wheels.sh": 'echo "$ARCH: $*"',
        "bin/aarch64-linux-gnu-g++": "exit 1",
        "bin/qemu-aarch64-static": "exit 1",
    }
    for name, text in programs.items():
        program = tmp_path / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
    return tmp_path


def in_copy(copy: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return bash(*command, PATH=f"{copy}/bin:{os.environ['PATH']}")


def test_a_logged_function_ends_at_its_first_command_that_fails(copy: Path) -> None:
    text = (
        f"source {copy}/scripts/common.sh; work() {{ echo first; false; echo second; }}; "
        "logged name work; echo after"
    )
    done = bash("-c", text)
    assert done.returncode == 1
    assert "after" not in done.stdout
    assert done.stderr.startswith("first\nerror: name failed (exit status 1)")
    assert (copy / "build/logs/name.log").read_text() == "first\n"
    assert bash("-c", text.replace("false", "true")).stdout == "after\n"


def test_a_copy_of_llama_has_all_files_that_the_build_of_the_shim_reads(
    tmp_path: Path, copy: Path
) -> None:
    site = tmp_path / "site"
    (site / "include").mkdir(parents=True)
    (site / "include/of_an_older_version.h").touch()
    python = f"VENV_PYTHON={sys.executable}"
    done = bash("-c", f"source {copy}/scripts/common.sh; {python}; copy_llama {site}")
    assert (done.returncode, done.stderr) == (0, "")
    assert not (site / "include/of_an_older_version.h").exists()
    support = ROOT / "capi_shim/build_support.py"
    located = subprocess.run(
        [sys.executable, support, "locate"],
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert located.stdout.strip() == str(site.resolve())
    subprocess.run(
        [sys.executable, support, "build-info", tmp_path / "info.py", "0c1e570"],
        env={**os.environ, "PYTHONPATH": str(site)},
        check=True,
    )
    assert "LLAMA_BUILD_COMMIT = '0c1e570'" in (tmp_path / "info.py").read_text()


def test_results_are_recorded_after_the_last_step(copy: Path) -> None:
    done = in_copy(copy, f"{copy}/scripts/cross.sh", "arm64", "wheels")
    assert done.stdout == "aarch64: llama package\n"
    calls = copy / "calls"
    assert calls.read_text() == "scripts/systems.py record arm64 compiles=compiled\n"
    calls.unlink()
    # The wheelhouse is empty, so the second step fails.
    (copy / ".venv/bin/python").write_text("#!/bin/sh\nexit 1\n")
    done = in_copy(copy, f"{copy}/scripts/cross.sh", "arm64", "wheels", "shim")
    assert done.returncode == 1
    assert "cross-arm64-shim failed" in done.stderr
    assert not calls.exists()
    # Steps without a result write no row.
    done = bash("-c", f"source {copy}/scripts/common.sh; SYSTEM=arm64; write_records")
    assert (done.returncode, done.stderr) == (0, "")
    assert not calls.exists()


def test_collected_files_keep_their_times(tmp_path: Path, copy: Path) -> None:
    # Ninja compiles everything again that includes a newer file.
    header = tmp_path / "cross/src/vendor/llama.cpp/include/llama.h"
    library = tmp_path / "cross/windows/bin/libllama.dll"
    for file in (header, library, header.parents[1] / "ggml/include/ggml.h"):
        file.parent.mkdir(parents=True)
        file.touch()
        os.utime(file, (1e9, 1e9))
    text = (
        f"source {copy}/scripts/common.sh; SYSTEM=windows; "
        "source scripts/cross/build.sh; collect_llama '*.dll'; collect_llama '*.dll'"
    )
    done = bash("-c", text, CROSS_DIR=str(tmp_path / "cross"))
    assert done.returncode == 0, done.stderr
    root = tmp_path / "cross/windows-root"
    copies = sorted(path for path in root.rglob("*") if path.is_file())
    assert [path.name for path in copies] == ["ggml.h", "llama.h", "libllama.dll"]
    assert {path.stat().st_mtime for path in copies} == {1e9}


@pytest.mark.parametrize("name", ["try_llama.sh", "cross_macos.sh"])
def test_compilers_without_cmake_get_the_definitions_of_cmake(name: str) -> None:
    cmake = (ROOT / "capi_shim/CMakeLists.txt").read_text(encoding="utf-8")
    expected = set(re.findall(r"\b(LH_\w+)=\"\$\{LLAMA", cmake))
    script = (SCRIPTS / name).read_text(encoding="utf-8")
    assert len(expected) >= 2
    assert expected <= set(re.findall(r"-D(LH_\w+)=", script))


def test_sources_of_another_version_are_not_used(tmp_path: Path) -> None:
    text = f"source {SCRIPTS}/llama_source.sh; has_llama_source 1.2.3 {tmp_path}"
    assert bash("-c", text).returncode != 0
    for version, expected in {"1.2.3": 0, "1.2.30": 1, "1.2.2": 1}.items():
        (tmp_path / "PKG-INFO").write_text(f"Name: x\nVersion: {version}\nSummary: y\n")
        assert bash("-c", text).returncode == expected


def test_a_debian_that_was_not_completed_is_not_used(copy: Path) -> None:
    fails_after_a_part = 'for last; do :; done; mkdir -p "$last"; exit 1'
    for name, text in {"apt-config": "exit 0", "mmdebstrap": fails_after_a_part}.items():
        program = copy / "bin" / name
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
    text = (
        f"source {copy}/scripts/common.sh; source scripts/debian.sh; "
        "BARE_BASE=$PWD/base; debian_base bookworm aarch64; "
        "logged name make_debian_base bookworm aarch64"
    )
    done = in_copy(copy, "-c", text)
    assert done.returncode == 1
    assert done.stdout == f"{copy}/base/bookworm-arm64\n"
    assert list((copy / "base/bookworm-arm64").iterdir()) == []
    refused = in_copy(copy, "-c", text.replace("aarch64", "riscv64")).stderr
    assert "riscv64 is none of x86_64, aarch64" in refused


def test_the_debian_with_r_has_the_packages_of_description() -> None:
    text = (
        f"source {SCRIPTS}/common.sh; source scripts/debian.sh; BARE_BASE=/b; "
        "debian_base bookworm aarch64 r; r_packages"
    )
    folder, packages = bash("-c", text).stdout.splitlines()
    assert folder == "/b/bookworm-arm64-r"
    names = packages.split(",")
    assert names[:3] == ["r-base-core", "libpython3-dev", "r-cran-cli"]
    assert {"r-cran-reticulate", "r-cran-testthat"} < set(names)
    # R's own packages are no packages of Debian.
    assert not {"r-cran-r", "r-cran-graphics", "r-cran-grdevices"} & set(names)


def test_steps_after_python_need_its_debian(copy: Path) -> None:
    for step in ("real_model", "r"):
        done = in_copy(copy, f"{copy}/scripts/cross.sh", "arm64", step)
        assert done.returncode == 1
        assert done.stderr == "error: run the step python first\n"


def test_wheels_are_built_only_for_known_processors() -> None:
    done = bash(str(SCRIPTS / "wheels.sh"), ARCH="riscv64")
    assert done.returncode == 1
    assert "the wheels can be built for: aarch64" in done.stderr


def test_a_bare_system_needs_the_wheels_of_its_processor(tmp_path: Path) -> None:
    model = tmp_path / "model.gguf"
    model.touch()
    house = tmp_path / "house"
    house.mkdir()
    (house / "llamaherd-0.1.0-cp311-abi3-manylinux_2_34_x86_64.whl").touch()
    script = str(SCRIPTS / "wheels" / "bare.sh")
    done = bash(script, "bookworm", str(model), ARCH="aarch64", WHEELHOUSE=str(house))
    assert done.returncode == 1
    assert "no wheel of llamaherd for aarch64: make wheels ARCH=aarch64" in done.stderr
    assert "usage: bare.sh SUITE MODEL" in bash(script, "bookworm").stderr


def test_a_name_of_no_system_is_refused() -> None:
    assert "usage: cross.sh" in bash(str(SCRIPTS / "cross.sh"), "amiga").stderr
    assert "usage: cross_macos.sh" in bash(str(SCRIPTS / "cross_macos.sh"), "m68k").stderr
    assert "usage: make try-llama" in bash(str(SCRIPTS / "try_llama.sh"), "new").stderr


def test_only_files_that_come_or_go_change_the_list_of_inputs(tmp_path: Path) -> None:
    scripts, sources = tmp_path / "scripts", tmp_path / "sources/room"
    scripts.mkdir()
    sources.mkdir(parents=True)
    shutil.copy(ROOT / "scripts/inputs.sh", scripts)
    (sources / "a.py").touch()

    def inputs() -> tuple[list[str], int]:
        run = subprocess.run(
            ["scripts/inputs.sh", "sources"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
        *files, name = run.stdout.splitlines()
        return files, (tmp_path / name).stat().st_ino

    first = inputs()
    assert first[0] == ["sources/room/a.py"]
    (sources / "__pycache__").mkdir()  # changes the time of the folder
    (sources / "__pycache__/a.pyc").touch()
    assert inputs() == first
    (sources / "b.py").touch()
    second = inputs()
    assert second[0] == ["sources/room/a.py", "sources/room/b.py"]
    assert second[1] != first[1]
    (sources / "b.py").unlink()
    assert inputs()[1] != second[1]
