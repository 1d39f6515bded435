"""The record of reviewed architectures, and the program that lists what to review."""

from __future__ import annotations

import importlib.util
import sys
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from types import ModuleType

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
    same = "GGML_ASSERT(n_embd > 0); // as before"
    old = sources(
        tmp_path / "old",
        models={
            "plain": same,
            "grown": same,
            "gone": same,
            "base_of_child": "",
            "child": "",
        },
        keys=("%s.block_count", "%s.old"),
    )
    new = sources(
        tmp_path / "new",
        models={
            "plain": "  GGML_ASSERT(n_embd  > 0); // moved",
            "grown": same + "\nx = create(TENSOR_NOT_REQUIRED);",
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
