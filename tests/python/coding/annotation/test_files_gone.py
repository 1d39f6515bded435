"""A coding ends with its labels, whatever happened to its model's files after loading."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import pytest
import tiny_loras
import tiny_models

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BOOK = lh.Codebook("Which?", ["a", "b"])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tiny_models.write(tmp_path / "tiny.gguf", "llama")


def coded(model: lh.Model) -> dict[str, Any]:
    """Code a text; return the description of the model."""
    with lh.Context(model, n_threads=1) as context:
        labelled = lh.annotate({"text": ["x"]}, "text", BOOK, context)
    assert None not in labelled.labels
    record: dict[str, Any] = labelled.run["model"]
    return record


def adapter(path: Path) -> Path:
    n = tiny_models.N_EMBD
    return tiny_loras.write(path, {"blk.0.attn_q.weight": (n, n)})


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_the_working_directory_may_change(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lora = adapter(tmp_path / "lora.gguf")
    monkeypatch.chdir(tmp_path)
    with lh.Model(path.name, lora=lora.name) as model:
        (tmp_path / "other").mkdir()
        monkeypatch.chdir("other")
        record = coded(model)
        assert model.path == path
        assert record["size_bytes"] == path.stat().st_size
        assert record["sha256"] == sha256(path)
        assert record["loras"][0]["sha256"] == sha256(lora)


def removed(path: Path) -> None:
    path.unlink()


def replaced(path: Path) -> None:
    draft = path.with_suffix(".new")
    draft.write_bytes(path.read_bytes() + b"x")
    os.replace(draft, path)  # noqa: PTH105 - of a mapped file, not its content


@pytest.mark.parametrize("change", [removed, replaced])
def test_a_file_that_is_no_longer_the_loaded_one_has_no_hash(
    path: Path, tmp_path: Path, change: Callable[[Path], None]
) -> None:
    lora = adapter(tmp_path / "lora.gguf")
    size = path.stat().st_size
    with lh.Model(path, lora=lora) as model:
        change(path)
        change(lora)
        record = coded(model)
        assert record["sha256"] is None
        assert record["size_bytes"] == size
        assert [weights["sha256"] for weights in record["loras"]] == [None]
