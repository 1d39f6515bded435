"""The interfaces of the shim and of libllama that the package uses."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import llamaherd
import pytest
from llamaherd import AbiMismatchError
from llamaherd.engine.native import _build_info, abi, shim

if TYPE_CHECKING:
    from types import ModuleType


VERSION = _build_info.LLAMA_CPP_PYTHON_VERSION
HASHES = _build_info.HEADER_SHA256


def test_the_installation_fits() -> None:
    assert set(HASHES) == {
        "include/llama.h",
        "include/ggml.h",
        "include/ggml-alloc.h",
        "include/ggml-backend.h",
    }
    abi.check_installation(VERSION, HASHES)


def test_another_version_is_refused() -> None:
    with pytest.raises(AbiMismatchError, match=rf"0\.0\.1.*{VERSION} is installed"):
        abi.check_installation("0.0.1", HASHES)


def test_another_build_of_the_same_version_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The label of a version names the build: the portable wheel is X.Y.Z+portable."""
    installed = abi.distribution("llama-cpp-python")

    class Labelled:
        version = f"{VERSION}+portable"
        files = installed.files

    monkeypatch.setattr(abi, "distribution", lambda _: Labelled)
    abi.check_installation(VERSION, HASHES)
    Labelled.version = f"{VERSION}.1+portable"
    with pytest.raises(AbiMismatchError, match=r"\.1\+portable is installed"):
        abi.check_installation(VERSION, HASHES)


def test_another_header_is_refused() -> None:
    wrong = {**HASHES, "include/ggml.h": "00" * 32}
    with pytest.raises(AbiMismatchError, match=r"another include/ggml\.h.*Reinstall"):
        abi.check_installation(VERSION, wrong)


def test_another_library_is_refused() -> None:
    abi.check_library("0c1e570abc", "0c1e570", 2048)
    with pytest.raises(AbiMismatchError, match=r"llama\.cpp 0c1e570.* from badc0de"):
        abi.check_library("badc0de", "0c1e570", 2048)
    with pytest.raises(AbiMismatchError, match="n_batch reads as 7"):
        abi.check_library("0c1e570", "0c1e570", 7)


def test_a_library_of_another_interface_is_refused() -> None:
    abi.check_shim(shim.lib.lh_abi_version(), shim.lib.LH_ABI_VERSION)
    with pytest.raises(AbiMismatchError, match=r"version 1 .*for version 2.*Reinstall"):
        abi.check_shim(1, 2)


def test_the_interface_is_checked_on_import() -> None:
    script = """
import importlib
from llamaherd.engine.native import abi, shim
checked = []
abi.check_shim = lambda *versions: checked.append(versions)
importlib.reload(shim)
assert checked == [(shim.lib.LH_ABI_VERSION, shim.lib.LH_ABI_VERSION)]
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_a_struct_of_another_size_is_refused() -> None:
    params = shim.new_struct("lh_embedder_params")
    assert params.struct_size == shim.ffi.sizeof("lh_embedder_params")
    params.struct_size -= 8
    error = shim.ffi.new("lh_error *")
    out = shim.ffi.new("lh_embedder **")
    model = shim.ffi.cast("lh_model *", 8)  # this is checked after the size
    status = shim.lib.lh_embedder_new(model, params, out, error)
    with pytest.raises(ValueError, match=r"struct_size of lh_embedder_params must be 32"):
        shim.check(status, error)


def test_the_checks_can_be_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLAMAHERD_SKIP_ABI_CHECK", "1")
    abi.check_installation("0.0.1", {})
    abi.check_library("badc0de", "0c1e570", 7)
    abi.check_shim(1, 2)


def test_struct_sizes_are_those_that_llama_cpp_uses() -> None:
    script = """
import ctypes, llama_cpp
from llamaherd.engine.native import shim
probe = shim.ffi.new("int32_t[4]")
shim.lib.lh_abi_probe(probe)
assert list(probe)[:3] == [
    ctypes.sizeof(llama_cpp.llama_model_params),
    ctypes.sizeof(llama_cpp.llama_context_params),
    ctypes.sizeof(llama_cpp.llama_batch),
]
"""
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.parametrize(
    "order",
    [
        "llama_cpp, llamaherd.engine.native.shim",
        "llamaherd.engine.native.shim, llama_cpp",
    ],
)
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_there_is_one_libllama_whatever_is_imported_first(order: str) -> None:
    script = f"""
import {order}
maps = open("/proc/self/maps").read().split()
print(*sorted({{word for word in maps if "libllama.so" in word}}), sep="\\n")
"""
    run = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )
    (library,) = run.stdout.split()
    assert Path(library).parent == abi.libllama_folder().resolve()


def test_seeds_depend_on_both_numbers() -> None:
    seeds = {shim.derive_seed(base, i) for base in range(20) for i in range(20)}
    assert len(seeds) == 400
    assert all(0 <= seed < 2**32 for seed in seeds)


def test_the_environment_stays_as_it_is() -> None:
    script = """
import os
before = dict(os.environ)
import llamaherd
assert dict(os.environ) == before
"""
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.parametrize(
    ("system", "present", "expected"),
    [
        ("win32", ["llama.dll"], "llama.dll"),
        ("win32", ["libllama.dll"], "libllama.dll"),  # compiled by MinGW
        ("win32", [], "llama.dll"),
        ("darwin", ["libllama.dylib", "libllama.0.dylib"], "libllama.dylib"),
        ("linux", ["libllama.so"], "libllama.so"),
    ],
)
def test_libllama_is_found_under_the_names_of_its_system(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    system: str,
    present: list[str],
    expected: str,
) -> None:
    for name in present:
        (tmp_path / name).touch()
    monkeypatch.setattr(sys, "platform", system)
    assert abi.libllama_path(tmp_path) == tmp_path / expected


def test_the_page_about_c_states_the_real_size_of_a_request() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "c.md").read_text("utf-8")
    size = shim.ffi.sizeof("lh_request")
    assert f"struct_size of lh_request must be {size}, not {size - 8}" in page


PACKAGE = Path(llamaherd.__file__).parent

reads_elf = pytest.mark.skipif(
    sys.platform != "linux", reason="reads ELF files with nm of the GNU binutils"
)


def _exported(library: Path) -> set[str]:
    run = subprocess.run(
        ["nm", "--dynamic", "--defined-only", "--format=posix", library],
        check=True,
        capture_output=True,
        text=True,
    )
    return {line.split()[0] for line in run.stdout.splitlines()}


def _declared(header: str) -> set[str]:
    text = (PACKAGE / "include" / header).read_text()
    code = re.sub(r"/\*.*?\*/|^ *#.*?$", "", text, flags=re.DOTALL | re.MULTILINE)
    return set(re.findall(r"_API\b[^;(]*?(\w+)\(", code))


@reads_elf
@pytest.mark.parametrize(
    ("header", "prefix", "name"),
    [
        ("llamaherd.h", "lh_", "lh_engine_run"),
        ("newrllama_capi.h", "newrllama_", "newrllama_generate_parallel"),
    ],
)
def test_declarations_are_found(header: str, prefix: str, name: str) -> None:
    declared = _declared(header)
    assert name in declared
    assert len(declared) > 25
    assert {other for other in declared if not other.startswith(prefix)} == set()


@reads_elf
def test_the_library_exports_what_its_headers_declare() -> None:
    declared = _declared("llamaherd.h") | _declared("newrllama_capi.h")
    assert sorted(_exported(PACKAGE / "libllamaherd.so")) == sorted(declared)


@reads_elf
def test_the_extension_module_exports_its_beginning_alone() -> None:
    (module,) = (PACKAGE / "engine/native").glob("_shim*.so")
    assert _exported(module) == {"PyInit__shim"}


ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def llama_names() -> ModuleType:
    path = ROOT / "scripts" / "llama_names.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def sources(folder: Path, *, models: dict[str, str], keys: tuple[str, ...]) -> Path:
    """Write sources in the form of llama.cpp's; models: text by architecture."""
    (folder / "models").mkdir(parents=True)
    kinds = "".join(f'{{ LLM_ARCH_{n.upper()}, "{n}" }},\n' for n in models)
    kinds += '{ LLM_ARCH_UNKNOWN, "(unknown)" },\n'
    known = "".join(f'{{ LLM_KV_{i}, "{key}" }},\n' for i, key in enumerate(keys))
    (folder / "llama-arch.cpp").write_text(kinds + known)
    cases = "".join(
        f"case LLM_ARCH_{n.upper()}:\n    return new llama_model_{n}(params);\n"
        for n in models
    )
    (folder / "llama-model.cpp").write_text(cases)
    classes = "struct llama_model_child : public llama_model_base_of_child {\n"
    (folder / "models" / "models.h").write_text(classes)
    for name, text in models.items():
        (folder / "models" / f"{name}.cpp").write_text(
            f"llama_model_{name}::f() {{\n{text}\n}}"
        )
    return folder


def test_the_record_is_that_of_the_installed_version(llama_names: ModuleType) -> None:
    recorded, reviewed = llama_names.recorded(llama_names.RECORD.read_text())
    assert recorded == version("llama-cpp-python").partition("+")[0]
    assert {"llama", "gemma3", "bert"} <= set(reviewed)
    assert llama_names.record(recorded, reviewed) == llama_names.RECORD.read_text()


def test_new_and_changed_architectures_are_to_be_reviewed(
    llama_names: ModuleType, tmp_path: Path
) -> None:
    code = "GGML_ASSERT(n_embd > 0); // as before"
    old = sources(
        tmp_path / "old",
        models={
            "plain": code,
            "grown": code,
            "gone": code,
            "base_of_child": "",
            "child": "",
        },
        keys=("%s.block_count", "%s.old"),
    )
    new = sources(
        tmp_path / "new",
        models={
            "plain": "  GGML_ASSERT(n_embd  > 0); // moved",
            "grown": code + "\nx = create(TENSOR_NOT_REQUIRED);",
            "young": "",
            "base_of_child": "GGML_ASSERT(n_head % 2 == 0);",
            "child": "",
        },
        keys=("%s.block_count", "%s.new"),
    )
    before, after = llama_names.names_of(old), llama_names.names_of(new)
    assert list(llama_names.changed(before, after)) == [
        "base_of_child",
        "child",
        "grown",
        "young",
    ]
    text = llama_names.review(before, after)
    for line in ("- `young`: new", "- gone", "- %s.new", "- %s.old"):
        assert line in text.splitlines()
    assert "- `GGML_ASSERT(n_head % 2 == 0);`" in text.splitlines()
    assert llama_names.review(after, after).strip() == ""


def test_sources_of_another_form_are_refused(
    llama_names: ModuleType, tmp_path: Path
) -> None:
    folder = sources(tmp_path / "s", models={"plain": ""}, keys=())
    with pytest.raises(SystemExit, match="no names of architectures"):
        llama_names.names_of(folder)


def test_the_rules_name_reviewed_architectures(llama_names: ModuleType) -> None:
    _, reviewed = llama_names.recorded(llama_names.RECORD.read_text())
    names = llama_names.Names(dict.fromkeys(reviewed, ""), frozenset(), {}, {}, {})
    keys = llama_names.unknown_rules(names)
    assert len(keys) > 10
    assert not set(keys) & set(reviewed)
    assert all("." in key or "_" in key for key in keys)
    assert "llama" not in keys
